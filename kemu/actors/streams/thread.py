"""A stream thread: the application, rebalance listener and assignor of its consumer; the thread also restores state.

One thread polls its consumer, processes records and restores state, one at a time (``busy``). The partitions of tasks
in restoration are paused.

The thread commits by ``commit.interval.ms``, and before tasks are revoked. First the thread flushes: the changelogs
acknowledge the tasks' writes. After the flush the thread commits the offsets of processed records, and suspends tasks.
During a join the thread does not commit by interval; before a join it commits only if tasks are revoked.

The thread sends commands to the machines of its instance (``send``). The commands are executed after the present step.

Source: Kafka's ``StreamThread``, ``TaskManager.handleRevocation``, ``StreamsRebalanceListener``,
``StreamsPartitionAssignor``.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from kemu.actors.consumer.application import Calls
from kemu.actors.consumer.listener import Busy, Outcome, Took
from kemu.actors.consumer.partition import Returned
from kemu.actors.machine import US_PER_MS
from kemu.actors.streams.task_manager import TaskManager
from kemu.actors.streams.tasks import StateDirectory, TaskRole, TaskState
from kemu.protocol.assign.base import Assignor, GroupAssignment, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.commands import (
    AssignNow,
    Close,
    EnforceRebalance,
    PollReturns,
    ProduceRecords,
    ReadPartitions,
    ResumePartitions,
)
from kemu.protocol.config import ConsumerConfig, StreamsConfig
from kemu.protocol.frozen import evolve
from kemu.protocol.names import CONSUMER, UNKNOWN_MEMBER, MemberId, TopicPartition
from kemu.protocol.notes.groups import Rejoin
from kemu.protocol.notes.streams import StreamsJoined, TasksDecided, TasksGiven, TasksSaid
from kemu.protocol.rebalancing.rules import MemberRules, Partitions, RulesOf
from kemu.protocol.streams.leading import Decided, TaskLeader
from kemu.protocol.streams.metadata import (
    NO_FOLLOW_UP,
    NOT_LEAVING,
    StreamsGiven,
    StreamsSubscription,
    decode_streams_assignment,
    encode_streams_subscription,
)
from kemu.protocol.streams.modes import INCREMENTAL, STREAM, Layout, ThreadPlacement
from kemu.protocol.streams.registry import TaskAssignor
from kemu.protocol.streams.releases import TASK_RULES, TaskRules
from kemu.protocol.streams.tasks import LATEST_OFFSET, TaskId
from kemu.protocol.streams.topology import Topology

STREAMS_ASSIGNOR = "stream"
"""The protocol name in JoinGroup. Source: ``StreamsPartitionAssignor.name``."""
_NONCES = 128
SLICE_US = 100_000
"""The interval at which a restoring thread polls its consumer. Source: ``poll.ms``."""


class ThreadHost(Protocol):
    """The interface of the instance for its threads."""

    @property
    def name(self) -> str:
        """The instance's name."""
        ...

    @property
    def now_us(self) -> int:
        """The time of this step."""
        ...

    @property
    def leaving_since_us(self) -> int | None:
        """The time of the order to transfer all tasks and leave; None without such an order."""
        ...

    def note(self, fact: object) -> None:
        """Record a fact in the trace."""
        ...

    def send(self, part: str, command: object) -> None:
        """Send a command to a machine of the instance, to be executed after the present step."""
        ...

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        """Write a checkpoint to disk; None removes it."""
        ...

    def rebalance_in(self, thread: str, after_us: int | None) -> None:
        """Make this thread request a rebalance after this time; None: cancel the request."""
        ...

    def commit_in(self, thread: str, after_us: int) -> None:
        """Call ``commit_due`` of this thread after this time."""
        ...

    def flush_changelogs(self, thread: str) -> bool:
        """Flush a thread's records to the changelogs. Returns whether no record is pending; otherwise
        ``GoOn`` follows.
        """
        ...

    def released(self) -> None:
        """End the leaving instance: a leader reported that the instance has no task left."""
        ...


class StreamThread:
    """A stream thread, which implements ``Application``, ``Listener`` and ``MemberAssignor`` for its consumer.

    Args:
        host: the instance.
        number: the number of the thread, from 1.
        layout: the layout of the thread's metadata.
        custom: a task assignor instead of KIP-429's learners.
        placement: the rule for distributing an instance's tasks to threads, when this thread is the leader.
        uses_nonce: whether a requested rebalance sends other metadata than the last join (KAFKA-10455).
        task_rules: the release's decisions about tasks.
    """

    name = STREAMS_ASSIGNOR

    def __init__(
        self,
        host: ThreadHost,
        number: int,
        *,
        application: str,
        topology: Topology,
        config: StreamsConfig,
        layout: Layout,
        process_id: bytes,
        directory: StateDirectory,
        process_us_per_record: int,
        custom: TaskAssignor | None,
        placement: ThreadPlacement = ThreadPlacement.KEEPING,
        uses_nonce: bool = True,
        task_rules: TaskRules = TASK_RULES,
    ) -> None:
        self.host = host
        self.number = number
        self.part = f"t{number}"
        self.reader_part = f"{self.part}-restore"
        self.application = application
        self.topology = topology
        self.config = config
        self.directory = directory
        self.tasks = TaskManager(
            _HostOfTasks(self),
            topology,
            directory,
            ready_lag=config.emulated_learner_ready_lag,
            exactly_once=config.exactly_once,
            rules=task_rules,
        )
        self.leader = TaskLeader(topology, config, custom, placement)
        self.member_id: MemberId = UNKNOWN_MEMBER
        self.closing = False
        self.due = ""
        """The reason of the scheduled request for a rebalance."""
        self._layout = layout
        self._process_id = process_id
        self._process_us_per_record = process_us_per_record
        self._nonce = 0
        self._uses_nonce = uses_nonce
        self._busy_until_us = 0
        """The end of the thread's present work, for its consumer or its reader."""
        self._calls: Calls
        self._records: Sequence[Returned] = ()
        self._started_us = 0
        self._given: StreamsGiven | None = None
        self._generation = -1
        """The generation of the last assignment."""
        self._asked: frozenset[TopicPartition] = frozenset()
        self._reads: tuple[tuple[str, int, int], ...] = ()
        self._announced: frozenset[TaskId] = frozenset()
        """The learners for which a rebalance was requested."""
        self._said_leaving = False
        """Whether the last join announced that the instance leaves."""
        self._expires_in_ms: int | None = None
        self._ends = EndsWanted(())
        """The ends of changelogs that the leader needs for the assignment in progress."""
        self._uncommitted: dict[TopicPartition, int] = {}
        """Partition -> offset to commit, for partitions with records processed since the last commit."""
        self._commits_from_us = 0
        """The time from which whole intervals between commits are measured."""
        self._commit_due = self._missed = False
        self._joining = False
        """Whether a join is in progress, during which the thread makes no interval commit."""

    # --- time ------------------------------------------------------------------------------------------------------

    def busy(self, us: int) -> int:
        """Add work of this duration (us). Returns the time from now until the work ends, after the present work."""
        now_us = self.host.now_us
        self._busy_until_us = max(self._busy_until_us, now_us) + us
        return self._busy_until_us - now_us

    # --- the application of the consumer ---------------------------------------------------------------------------

    def started(self, calls: Calls) -> None:
        """Call poll() for the first time."""
        self._calls = calls
        self._commits_from_us = self.host.now_us
        self._poll()

    def _poll(self) -> None:
        if self.closing:
            self._calls.close()
        elif self._commit_due and not self._joining:
            self._commit()
        else:
            self._calls.poll()

    def polled(self, records: Sequence[Returned]) -> None:
        """Process all records of the poll."""
        count = sum(part.last - part.first for part in records)
        if not count:
            self._poll()
            return
        if not self._uncommitted and not self._commit_due:
            self._commit_later()
        self._records, self._started_us = records, self.host.now_us
        self._calls.work(max(self.busy(count * self._process_us_per_record), 1))

    def worked(self) -> None:
        """Send the stores' changes to the changelogs, after the records are processed."""
        records, self._records = self._records, ()
        wrote: dict[tuple[str, str], dict[int, int]] = {}
        for part in records:
            self._calls.processed(part, self._started_us)
            self._uncommitted[part.at] = part.last
            task = self.topology.task_of(part.at)
            changelog = self.topology.changelog_of(task) if task is not None else None
            if task is not None and changelog is not None and self.config.emulated_changelog_per_record:
                counts = wrote.setdefault((self.producer_part(task), changelog[0]), {})
                count = (part.last - part.first) * self.config.emulated_changelog_per_record
                counts[changelog[1]] = counts.get(changelog[1], 0) + count
        for (producer, topic), counts in wrote.items():
            self.host.send(producer, ProduceRecords(counts=tuple(counts.items()), topic=topic))
        self._poll()

    def producer_part(self, task: TaskId) -> str:
        """The machine that writes the task's changelog for this thread."""
        return f"{self.part}-{task}-producer" if self.config.producer_per_task else f"{self.part}-producer"

    # --- commits ---------------------------------------------------------------------------------------------------

    def begin_intervals(self, after_us: int) -> None:
        """Make interval commits due at whole intervals after this time."""
        self._commits_from_us = self.host.now_us + after_us
        if self._uncommitted and not self._commit_due:
            self._commit_later()

    def _commit_later(self) -> None:
        interval_us = self.config.commit_interval_ms * US_PER_MS
        since_us = self.host.now_us - self._commits_from_us
        self.host.commit_in(self.part, interval_us - since_us % interval_us)

    def commit_due(self) -> None:
        """Commit after the present work, as ``commit.interval.ms`` has passed (``StreamThread.maybeCommit``)."""
        if self._uncommitted or self._records:
            self._commit_due = True
            self.host.send(self.part, PollReturns())

    def _commit(self) -> None:
        self._commit_due = self._missed = False
        if not self._uncommitted:
            self._calls.poll()
        elif self.host.flush_changelogs(self.part):
            self._calls.commit_sync(self._uncommitted)
        else:
            self._calls.wait(partial(self._calls.commit_sync, self._uncommitted))

    def committed(self) -> None:
        """Call poll() again. A failed commit is repeated after the rebalance that caused it, or at the next
        interval.
        """
        self._missed = not self._calls.last_commit_went_through
        if self._missed:
            self._commit_later()
        else:
            self._uncommitted.clear()
        self._poll()

    def poll_raised(self, why: str) -> None:
        """Raise an error: callbacks of a thread never raise (``fail-listener`` is for consumers)."""
        raise AssertionError(f"{self.part}: {why}")

    # --- the rebalance listener ------------------------------------------------------------------------------------

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Commit all offsets if a revoked task needs a commit, then suspend the revoked tasks."""
        if self._uncommitted.keys().isdisjoint(partitions):
            self._give_up(partitions)
            return Took()
        return Busy(partial(self._commit_and_give_up, partitions))

    def _commit_and_give_up(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Commit, and then suspend the tasks of these partitions.

        Source: ``TaskManager.handleRevocation``, which also commits the other tasks.
        """
        offsets = dict(self._uncommitted)

        def commit() -> None:
            self._calls.commit_in_callback(offsets, suspend)

        def suspend() -> None:
            if self._calls.last_commit_went_through:
                self._uncommitted.clear()
            self._give_up(partitions)
            self._calls.callback_returns()

        if self.host.flush_changelogs(self.part):
            commit()
        else:
            self._calls.wait(commit)

    def _give_up(self, partitions: tuple[TopicPartition, ...]) -> None:
        for at in partitions:
            self._uncommitted.pop(at, None)
        self.tasks.suspend(partitions)
        if self.closing:
            self.tasks.close_all()
        self.update_reader()

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Close the lost tasks without a commit."""
        self._uncommitted.clear()
        self._joining = False
        self.tasks.lose()
        self.update_reader()
        return Took()

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> Outcome:
        """Adopt the tasks of this assignment, and pause the partitions of tasks in restoration."""
        self._joining = False
        if self._commit_due or (self._missed and self._uncommitted):
            self._commit_due = True
            self.host.send(self.part, PollReturns())
        if self._given is not None:
            given, self._given = self._given, None
            self._announced = frozenset()
            self.tasks.take(given, self._generation)
            self._follow_up(given)
            self._catch_up_on_leaving()
        assigned = frozenset(self._calls.assignment())
        self._calls.pause(tuple(at for at in self.tasks.partitions_to_pause() if at in assigned))
        self.update_reader()
        return Took()

    def _catch_up_on_leaving(self) -> None:
        """Request a rebalance if the order to leave changed during the join."""
        leaving = self.host.leaving_since_us is not None
        if leaving is not self._said_leaving:
            self.ask_for_rebalance(Rejoin.LEAVING if leaving else Rejoin.STAYING)

    def _follow_up(self, given: StreamsGiven) -> None:
        host = self.host
        if given.shutdown:
            host.released()
        due_us: dict[str, int] = {}
        if given.next_rebalance_ms != NO_FOLLOW_UP:
            due_us[Rejoin.PROBING] = max(given.next_rebalance_ms * US_PER_MS - host.now_us, 0)
        if self._expires_in_ms is not None:
            due_us[Rejoin.EXPIRED] = self._expires_in_ms * US_PER_MS
            self._expires_in_ms = None
        self.due = min(due_us, key=lambda why: due_us[why], default="")
        host.rebalance_in(self.part, due_us.get(self.due))

    # --- reads and rebalances that the tasks need ------------------------------------------------------------------

    def update_reader(self) -> None:
        """Make the reader read the changelogs of the tasks, and announce ready learners to the group."""
        tasks, host = self.tasks, self.host
        reads = tasks.to_read()
        asked = frozenset(tasks.ends_to_ask())
        if [row[:2] for row in reads] != [row[:2] for row in self._reads] or asked - self._asked:
            host.send(self.reader_part, ReadPartitions(partitions=reads))
        self._reads, self._asked = reads, asked
        self._announce()

    def _announce(self) -> None:
        """Request the rebalance in which ready learners become active, one by one or all together (KIP-429)."""
        learners = self.tasks.of_role(TaskRole.LEARNER)
        ready = frozenset(one.task for one in learners if one.ready)
        if not ready - self._announced:
            return
        config = self.config
        eager = config.learner_partial_rebalance and config.emulated_assignor_stage >= 3
        if eager or len(ready) == len(learners):
            self._announced = ready
            self.ask_for_rebalance(Rejoin.READY)

    def ask_for_rebalance(self, why: str) -> None:
        """Rejoin with changed metadata; the coordinator answers an unchanged join with the present generation."""
        if self._uses_nonce:
            self._nonce = (self._nonce + 1) % _NONCES
        self.host.send(self.part, EnforceRebalance(reason=why))

    def tell_to_close(self) -> None:
        """Close the consumer at its next poll."""
        self.closing = True
        self.host.send(self.part, Close())

    # --- the reader of changelogs ----------------------------------------------------------------------------------

    def apply_us(self, count: int) -> int:
        """The time from now until this many changelog records are applied, in us."""
        return max(self.busy(count * self.config.emulated_restore_us_per_record), 1)

    @property
    def slice_records(self) -> int:
        """The number of records to apply before the thread polls its consumer again."""
        return max(SLICE_US // max(self.config.emulated_restore_us_per_record, 1), 1)

    def applied(self, part: Returned, end: int | None) -> None:
        """Advance the tasks after changelog records were applied. ``end``: the high watermark in the
        records' answer.
        """
        running = self._running()
        self.tasks.restored(part.at, part.first, part.last, end)
        self._after_restoring(running)

    def ends_wanted(self) -> tuple[TopicPartition, ...]:
        """The changelogs whose ends the reader must request."""
        return self.tasks.ends_to_ask()

    def ends_for_leading(self) -> "EndsWanted | None":
        """The leader's request for ends that has no answer yet; None without such a request."""
        return None if self._ends.answered or not self._ends.partitions else self._ends

    def leader_ends_known(self, asked: "EndsWanted", ends: Mapping[TopicPartition, int | None]) -> None:
        """Compute the assignment as the leader, if the answer is to the leader's present request."""
        if asked is self._ends:
            asked.answered = True
            known = {at: end for at, end in ends.items() if end is not None}
            asked.ends = known if len(known) == len(asked.partitions) else None
            self.host.send(self.part, AssignNow())

    def reader_ends_known(self, ends: Mapping[TopicPartition, int | None]) -> None:
        """Store the ends of changelogs; None for a changelog without an answer in time."""
        running = self._running()
        self.tasks.ends_known(ends.get)
        self._after_restoring(running)

    def _running(self) -> frozenset[TopicPartition]:
        return frozenset(
            at for one in self.tasks.of_role(TaskRole.ACTIVE) if one.state is TaskState.RUNNING for at in one.sources
        )

    def _after_restoring(self, before: frozenset[TopicPartition]) -> None:
        new = tuple(sorted(self._running() - before))
        if new:
            self.host.send(self.part, ResumePartitions(partitions=new))
        self.update_reader()

    def directory_free(self) -> None:
        """Continue tasks that wait for a directory, after another thread unlocked a task's directory."""
        running = self._running()
        self.tasks.advance()
        self._after_restoring(running)

    # --- the assignor ----------------------------------------------------------------------------------------------

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """This thread's metadata about its tasks. A new join cancels requests of a former assignment."""
        self._ends = EndsWanted(())
        self._expires_in_ms = None
        self._joining = True
        subscription = self._subscription()
        self._said_leaving = self.host.leaving_since_us is not None
        data = encode_streams_subscription(subscription)
        self.host.note(
            StreamsJoined(
                application=self.application,
                instance=self.host.name,
                assigned=_names(self.tasks.active()),
                revoked=_names(self.tasks.given_up()),
                learning=_names(sorted(subscription.learning)),
                ready=_names(task for task in sorted(subscription.learning) if subscription.learning[task].ready),
                leaving=subscription.leaving,
                size=len(data),
                thread=self.part,
            )
        )
        return data

    def _subscription(self) -> StreamsSubscription:
        tasks, since_us = self.tasks, self.host.leaving_since_us
        subscription = StreamsSubscription(
            self._process_id, endpoint=self.config.application_server, nonce=self._nonce, layout=self._layout
        )
        if self._layout is Layout.HIGH_AVAILABILITY:
            # A copy that waits for its directory has no position yet. ``TaskManager.getTaskOffsetSums`` (3.4, 3.9)
            # reads the checkpoint of such a copy, as of a task that is only on the disk.
            sums = {
                task: LATEST_OFFSET if one.role is TaskRole.ACTIVE and one.state is TaskState.RUNNING else one.position
                for task, one in tasks.copies.items()
                if one.state is not TaskState.CREATED and (one.changelog is not None or one.role is TaskRole.ACTIVE)
            }
            directory = self.directory
            for task, offset in directory.checkpoints.items():
                if task not in sums and (task in tasks.copies or directory.holder(task) is None):
                    sums[task] = offset
            return evolve(subscription, offset_sums=sums)
        if self._layout is Layout.STICKY:
            # Tasks that are suspended for an eager join are previous active tasks; a task with state on disk is a
            # standby.
            active = tuple(sorted((*tasks.active(), *tasks.given_up())))
            on_disk = {task: 0 for task in self.directory.checkpoints if task not in active}
            return evolve(subscription, active=active, standby={**on_disk, **tasks.standbys()})
        subscription = evolve(
            subscription, active=tasks.active(), standby=tasks.standbys(), weight=self.config.emulated_weight
        )
        leaving_ms = NOT_LEAVING if since_us is None else (self.host.now_us - since_us) // US_PER_MS
        return evolve(subscription, learning=tasks.learning(), revoked=tasks.given_up(), leaving_ms=leaving_ms)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment | None:
        """Compute the assignment as the leader; None while the ends of changelogs are unknown."""
        wanted = self.leader.changelogs(topics)
        if wanted != self._ends.partitions:
            self._ends = EndsWanted(wanted)
            self.host.send(self.reader_part, ReadPartitions(partitions=self._reads))
        if wanted and not self._ends.answered:
            return None
        fresh = self.leader.last_instances is None
        decided = self.leader.assign(
            topics,
            members,
            ends=self._ends.ends,
            next_rebalance_ms=self._probing_ms,
            process=self._process_id.hex(),
        )
        self._expires_in_ms = decided.expires_in_ms
        self.host.note(self._decision_note(decided, fresh=fresh))
        return decided.assignment

    def _decision_note(self, decided: Decided, *, fresh: bool) -> TasksDecided:
        return TasksDecided(
            application=self.application,
            instance=self.host.name,
            tasks=_names(decided.tasks),
            stateful=_names(task for task in decided.tasks if self.topology.is_stateful(task)),
            said=tuple(
                TasksSaid(
                    process=process,
                    assigned=_names(said.assigned),
                    revoked=_names(said.revoked),
                    learning=_names(said.learning),
                    ready=_names(sorted(said.ready)),
                    leaving=said.leaving,
                )
                for process, said in decided.said.items()
            ),
            given=tuple(
                TasksGiven(
                    process=process,
                    assigned=_names(given.assigned),
                    revoked=_names(given.revoked),
                    learning=_names(given.learning),
                    being_learned=_names(given.being_learned),
                    standby=_names(given.standby),
                    shutdown=given.shutdown,
                )
                for process, given in decided.rows.items()
            ),
            size=sum(map(len, decided.assignment.user_data.values())),
            fresh=fresh,
            learners=self._layout is Layout.LEARNER,
        )

    def _probing_ms(self) -> int:
        return self.host.now_us // US_PER_MS + self.config.probing_rebalance_interval_ms

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Store the assignment until onPartitionsAssigned adopts it."""
        self.leader.taken()
        self._given, self._generation = decode_streams_assignment(user_data or b""), generation

    # --- its rules -------------------------------------------------------------------------------------------------

    @property
    def _protocol_type(self) -> str:
        """The protocol type of the group: KIP-429's page has a type for Streams, releases use the consumers' type."""
        page = self._layout is Layout.LEARNER and self.config.stream_rebalancing_mode == INCREMENTAL
        return STREAM if page else CONSUMER

    def rules_of(self, rules_of: RulesOf) -> RulesOf:
        """A release's rules; they also revoke tasks that other instances learn before each join."""

        def chosen(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
            rules = evolve(rules_of(config, assignors), protocol_type=self._protocol_type)
            if rules.protocol is RebalanceProtocol.EAGER:
                return rules

            def give_up(owned: Partitions, topics: Sequence[str]) -> Partitions | None:
                unwanted = rules.give_up_before_join(owned, topics) or ()
                learned = self.tasks.being_learned
                paused = tuple(at for at in owned if self.topology.task_of(at) in learned)
                return (*unwanted, *(at for at in paused if at not in unwanted)) or None

            return evolve(rules, give_up_before_join=give_up)

        return chosen


def _names(tasks: Iterable[TaskId]) -> tuple[str, ...]:
    return tuple([str(task) for task in tasks])


class EndsWanted:
    """The ends of changelogs that a leader needs before it computes the assignment."""

    __slots__ = ("answered", "ends", "partitions")

    def __init__(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.partitions = partitions
        self.answered = False
        self.ends: Mapping[TopicPartition, int] | None = {}
        """Partition -> end; None if some of these offsets were not known in time."""


class _HostOfTasks:
    """The implementation of ``TaskHost`` for a thread."""

    def __init__(self, thread: StreamThread) -> None:
        self._thread = thread
        self.name = thread.part
        self.application = thread.application
        self.instance = thread.host.name

    @property
    def member_id(self) -> MemberId:
        return self._thread.member_id

    def note(self, fact: object) -> None:
        self._thread.host.note(fact)

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        self._thread.host.checkpoint(task, offset)


class ReaderLoop:
    """The application of a thread's changelog reader, which polls and applies records in turn."""

    def __init__(self, thread: StreamThread) -> None:
        self._thread = thread
        self._calls: Calls
        self._left: deque[Returned] = deque()
        self._slice: Returned | None = None
        """The records that are being applied."""

    def started(self, calls: Calls) -> None:
        """Call poll(); no partition is assigned yet."""
        self._calls = calls
        calls.poll()

    def polled(self, records: Sequence[Returned]) -> None:
        """Apply the records in slices: between two slices the thread does its other work."""
        self._left.extend(records)
        self._continue()

    def _continue(self) -> None:
        leading = self._thread.ends_for_leading()
        if leading is not None:
            self._calls.end_offsets(leading.partitions, partial(self._leader_ends_answered, leading))
            return
        wanted = self._thread.ends_wanted()
        if wanted:
            self._calls.end_offsets(wanted, self._ends_answered)
            return
        part = self._next()
        if part is None:
            self._calls.poll()
            return
        at, first, last = part
        until = min(last, first + self._thread.slice_records)
        if until < last:
            self._left.appendleft(Returned(at, until, last))
        self._slice = Returned(at, first, until)
        self._calls.work(self._thread.apply_us(until - first))

    def _next(self) -> Returned | None:
        """The records to apply now; None: poll first.

        While an active task is in restoration, only records for active tasks are applied.
        Source: ``StoreChangelogReader``, which pauses the other changelogs during the restoration of active tasks.
        """
        urgent = self._thread.tasks.restoring()
        assigned = self._calls.assignment()
        others = tuple(at for at in assigned if at not in urgent) if urgent else ()
        paused = self._calls.paused()
        if frozenset(others) != frozenset(paused):
            self._calls.resume(tuple(at for at in paused if at not in others))
            self._calls.pause(others)
        for index, part in enumerate(self._left):
            if not urgent or part.at in urgent:
                del self._left[index]
                return part
        return None

    def _ends_answered(self, ends: Mapping[TopicPartition, int | None]) -> None:
        self._thread.reader_ends_known(ends)
        self._continue()

    def _leader_ends_answered(self, asked: EndsWanted, ends: Mapping[TopicPartition, int | None]) -> None:
        self._thread.leader_ends_known(asked, ends)
        self._continue()

    def worked(self) -> None:
        """Use the applied slice of records. Records of a changelog that is no longer assigned are ignored."""
        part = self._slice
        assert part is not None, "there is nothing to apply"
        self._slice = None
        if part.at in self._calls.assignment():
            lag, position = self._calls.current_lag(part.at), self._calls.position(part.at)
            self._thread.applied(part, None if lag is None or position is None else position + lag)
        self._continue()

    def committed(self) -> None:
        """Raise an error: a reader without a group never commits."""
        raise AssertionError(f"{self._thread.reader_part} does not commit")

    def poll_raised(self, why: str) -> None:
        """Raise an error: a reader with assigned partitions has no callbacks."""
        raise AssertionError(f"{self._thread.reader_part}: {why}")
