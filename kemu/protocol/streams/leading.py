"""The leader of a Streams application: from subscriptions to the tasks of instances and threads, and to bytes.

Members are threads; threads with the same process id are one instance. On KIP-429's page a leader may remember the
instances of the last rebalance. The leader stores the instances when it receives its own assignment, not when it
computes the assignment. The leader forgets the instances when another member leads.

Source: KIP-429 (page version 99); Kafka's ``StreamsPartitionAssignor``.
"""

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction

from attrs import field

from kemu.protocol.assign.base import Assignment, GroupAssignment, Subscriber, Topics
from kemu.protocol.assign.checked import InvalidAssignment
from kemu.protocol.config import StreamsConfig
from kemu.protocol.frozen import define, evolve, frozen
from kemu.protocol.names import MemberId, TopicPartition
from kemu.protocol.streams.java_collections import hash_order, process_hash
from kemu.protocol.streams.learner import LearnerConfig, StreamsAssignment, StreamsMember, assign_learners
from kemu.protocol.streams.metadata import (
    Host,
    StreamsGiven,
    StreamsSubscription,
    decode_streams_subscription,
    encode_streams_assignment,
)
from kemu.protocol.streams.modes import Layout, ThreadPlacement
from kemu.protocol.streams.registry import TASK_ASSIGNORS, KafkasTaskAssignor, TaskAssignor, problems
from kemu.protocol.streams.tasks import (
    LATEST_OFFSET,
    ClientId,
    ClientState,
    TaskAssignment,
    TaskConfig,
    TaskId,
    in_order,
)
from kemu.protocol.streams.threads import Bucketed, InstanceThreads, Placer
from kemu.protocol.streams.topology import Topology

NEVER = -1
"""The value of ``scale.down.timeout.ms`` for an infinite time."""
PRIOR = "prior"
"""The task assignor that is used if the ends of changelogs cannot be read.

Source: ``StreamsPartitionAssignor.createTaskAssignor``.
"""


@frozen
class Decided:
    """The decision of one rebalance: the bytes for all members, and the leader's view of the decision.

    ``said``: the subscription of each instance. ``rows``: the assignment of each instance, without tasks that another
    thread must revoke first. ``expires_in_ms``: the time until the first leaving instance reaches its time limit, None
    without a limit. ``moving``: whether a later rebalance must check warm-ups.
    """

    assignment: GroupAssignment
    tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
    said: Mapping[ClientId, StreamsMember]
    rows: Mapping[ClientId, StreamsAssignment]
    expires_in_ms: int | None = None
    moving: bool = False


@define
class _Instance:
    """The threads of one process, and their subscriptions."""

    said: dict[MemberId, StreamsSubscription] = field(factory=dict)
    active: list[TaskId] = field(factory=list)
    revoked: list[TaskId] = field(factory=list)

    @property
    def weight(self) -> int:
        return max((one.weight for one in self.said.values()), default=0) or len(self.said)

    @property
    def layout(self) -> Layout:
        return min(one.layout for one in self.said.values())

    @property
    def leaving_ms(self) -> int:
        return max(one.leaving_ms for one in self.said.values())


class TaskLeader:
    """The computation of assignments. Each start of a member has a ``TaskLeader``, even if the member never leads.

    Args:
        topology: the application's topology.
        config: the application's settings.
        assignor: a task assignor that replaces the configured assignor.
        placement: the rule that distributes an instance's tasks to its threads.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        assignor: TaskAssignor | None,
        placement: ThreadPlacement = ThreadPlacement.KEEPING,
    ) -> None:
        self._placement = placement
        self._topology = topology
        self._config = config
        self._assignor = assignor
        """The task assignor; None: the learners of KIP-429's page."""
        self._computed: tuple[ClientId, ...] | None = None
        """The instances of the computed rebalance whose assignment has not arrived yet."""
        self.last_instances: tuple[ClientId, ...] | None = None
        """The instances of the last rebalance that this member led; None for a new leader."""
        self._last_leaving: frozenset[ClientId] = frozenset()
        """The instances that were leaving in the last rebalance."""

    def taken(self) -> None:
        """React to an assignment: this leader's own assignment, or another leader's, which clears the memory."""
        self.last_instances, self._computed = self._computed, None
        if self.last_instances is None:
            self._last_leaving = frozenset()

    def reads_ends(self) -> bool:
        """Whether the leader's task assignor compares offsets with the ends of changelogs."""
        return self._assignor is not None and self._config.emulated_task_assignor != "sticky"

    def changelogs(self, topics: Topics) -> tuple[TopicPartition, ...]:
        """The changelog partitions whose end offsets the leader needs before the assignment."""
        if not self.reads_ends():
            return ()
        found = (self._topology.changelog_of(task) for task in self._topology.tasks(topics.partitions))
        return tuple(dict.fromkeys(at for at in found if at is not None))

    def assign(
        self,
        topics: Topics,
        members: Mapping[MemberId, Subscriber],
        *,
        ends: Mapping[TopicPartition, int] | None,
        next_rebalance_ms: Callable[[], int],
        process: ClientId = "",
    ) -> Decided:
        """Compute the assignment.

        Args:
            topics: the cluster's topics.
            members: the threads, with the bytes of their subscriptions.
            ends: the end offsets of the partitions of ``changelogs``. None: the ends could not be read, and tasks
                remain with their owners until the next probing rebalance.
            next_rebalance_ms: the time of the next probing rebalance.
            process: the leader's own instance; one of its threads triggers the probing rebalance, by the thread's
                clock.

        Raises:
            CodecError: this leader cannot read a member's bytes.
            InvalidAssignment: a task assignor's result breaks a rule (KIP-924).
        """
        tasks = self._topology.tasks(topics.partitions)
        instances = _instances(members)
        _find_previous_owners(instances, members, tasks)
        self._computed = tuple(sorted(instances))
        said = self._said(instances)
        moving = False
        if self._assignor is None:
            rows = self._learners(said, tasks)
        else:
            assignor = self._fallback_assignor() if ends is None and self.reads_ends() else self._assignor
            rows, moving = self._by_task_assignor(assignor, instances, tasks, ends or {})
        given_to = self._to_threads(instances, rows, members, tasks, self._end_of(tasks, ends or {}))
        rows = {name: _assigned_now(row, instances[name], given_to) for name, row in rows.items()}
        if moving:
            first = min(instances[process].said if process in instances else members)
            given_to[first] = evolve(given_to[first], next_rebalance_ms=next_rebalance_ms())
        return Decided(_as_bytes(given_to, tasks), tasks, said, rows, self._expires_in_ms(instances), moving)

    # --- tasks to instances ----------------------------------------------------------------------------------------

    def _said(self, instances: Mapping[ClientId, _Instance]) -> dict[ClientId, StreamsMember]:
        """The instances in the form of KIP-429's algorithm."""
        limit_ms = self._config.scale_down_timeout_ms
        members: dict[ClientId, StreamsMember] = {}
        leaving = frozenset(name for name, each in instances.items() if each.leaving_ms >= 0)
        staying = [instances[name] for name in self._last_leaving - leaving if name in instances]
        unwanted = {task for each in staying for task in (*each.active, *each.revoked)}
        """Tasks with learners that are no longer necessary: their instances were leaving, and now stay."""
        self._last_leaving = leaving
        for name, each in instances.items():
            learning = {
                task: one for said in each.said.values() for task, one in said.learning.items() if task not in unwanted
            }
            leaving_ms = each.leaving_ms
            members[name] = StreamsMember(
                weight=each.weight,
                assigned=tuple(each.active),
                revoked=tuple(each.revoked),
                learning={task: one.lag for task, one in learning.items()},
                ready=frozenset(task for task, one in learning.items() if one.ready),
                standby={task: lag for said in each.said.values() for task, lag in said.standby.items()},
                leaving=leaving_ms >= 0,
                expired=limit_ms != NEVER and leaving_ms >= limit_ms,
                learner_capable=each.layout is Layout.LEARNER,
            )
        return members

    def _learners(
        self, members: Mapping[ClientId, StreamsMember], tasks: Collection[TaskId]
    ) -> dict[ClientId, StreamsAssignment]:
        config = self._config
        imbalance = config.stream_imbalance_percentage
        return assign_learners(
            members,
            [task for task in tasks if self._topology.is_stateful(task)],
            [task for task in tasks if not self._topology.is_stateful(task)],
            last_instances=self.last_instances,
            config=LearnerConfig(
                config.emulated_assignor_stage,
                config.emulated_learner_pick,
                config.num_standby_replicas,
                Fraction(imbalance) if imbalance else None,
                config.emulated_prefer_caught_up,
            ),
        )

    def _fallback_assignor(self) -> TaskAssignor:
        """The assignor that is used if the ends of changelogs cannot be read."""
        own = self._assignor
        return (
            KafkasTaskAssignor(own.prior, own.prior) if isinstance(own, KafkasTaskAssignor) else TASK_ASSIGNORS[PRIOR]
        )

    def _by_task_assignor(
        self,
        assignor: TaskAssignor,
        instances: Mapping[ClientId, _Instance],
        tasks: Collection[TaskId],
        ends: Mapping[TopicPartition, int],
    ) -> tuple[dict[ClientId, StreamsAssignment], bool]:
        config, topology = self._config, self._topology
        stateful = [task for task in tasks if topology.is_stateful(task)]
        end_of = self._end_of(tasks, ends)
        clients: dict[ClientId, ClientState] = {}
        for name, each in instances.items():
            active = tuple(in_order((*each.active, *each.revoked)))
            sums = {task: at for said in each.said.values() for task, at in said.offset_sums.items()}
            standby = {task for said in each.said.values() for task in said.standby} | set(sums)
            lags = {task: _lag(sums.get(task, 0), end) for task, end in end_of.items()}
            copies = tuple(in_order(standby.difference(active).intersection(stateful)))
            clients[name] = ClientState(each.weight, active, copies, lags)
        limits = TaskConfig(config.num_standby_replicas, config.max_warmup_replicas, config.acceptable_recovery_lag)
        given = assignor.assign(clients, list(tasks), stateful, limits)
        # Kafka's own assignors are not checked: 2.3's assigns standbys of tasks without state, which threads skip.
        own = isinstance(assignor, KafkasTaskAssignor)
        wrong = [] if own else problems(given, clients, tasks, stateful)
        if wrong:
            error, about = wrong[0]
            raise InvalidAssignment(config.emulated_task_assignor, about, None, f"{error.name}: it {error.value}")
        return _rows(given, instances), given.probing

    def _end_of(self, tasks: Collection[TaskId], ends: Mapping[TopicPartition, int]) -> dict[TaskId, int]:
        """The end offsets of the changelogs of tasks with state; 0 if unknown."""
        topology = self._topology
        stateful = (task for task in tasks if topology.is_stateful(task))
        return {task: ends.get(topology.changelog_of(task) or ("", 0), 0) for task in stateful}

    # --- instances to threads --------------------------------------------------------------------------------------

    def _to_threads(
        self,
        instances: Mapping[ClientId, _Instance],
        rows: Mapping[ClientId, StreamsAssignment],
        members: Mapping[MemberId, Subscriber],
        tasks: Mapping[TaskId, tuple[TopicPartition, ...]],
        end_of: Mapping[TaskId, int],
    ) -> dict[MemberId, StreamsGiven]:
        """The assignment of each instance's tasks to its threads.

        An active task that another thread still owns waits for the rebalance after its revocation.
        """
        owner = {at: one for one, subscriber in members.items() for at in subscriber.owned}
        hosts: dict[Host, tuple[TopicPartition, ...]] = {}
        given_to: dict[MemberId, StreamsGiven] = {}
        placer = Placer(self._placement)
        for name in hash_order(instances, process_hash):  # as ``clientsMetadata`` of StreamsPartitionAssignor
            each, row = instances[name], rows[name]
            owners = {task: [owner[at] for at in tasks[task] if at in owner] for task in row.assigned}
            threads = InstanceThreads(
                {one: _by_lag(said, end_of) for one, said in each.said.items()},
                {task: [one if one in each.said else "" for one in ones] for task, ones in owners.items()},
                not any(members[one].owned for one in each.said),
            )
            placed = placer.place(
                threads,
                Bucketed(
                    [task for task in row.assigned if self._topology.is_stateful(task)],
                    (*row.learning, *row.standby),
                    [task for task in row.assigned if not self._topology.is_stateful(task)],
                ),
            )
            learned = frozenset(row.being_learned)
            for one, said in each.said.items():
                active = [
                    task
                    for task in sorted((*placed[one].stateful, *placed[one].stateless))
                    if all(owner.get(at, one) == one for at in tasks[task])
                ]
                copies = placed[one].copies
                standby = [task for task in copies if task in row.standby]
                if self._assignor is not None:
                    # As in Kafka, the new thread has the task as a standby until the owner has revoked the task.
                    stateful = (task for task in placed[one].stateful if self._topology.is_stateful(task))
                    standby += [task for task in stateful if task not in active]
                given_to[one] = StreamsGiven(
                    active=tuple(active),
                    standby={task: tasks[task] for task in standby},
                    learning={task: tasks[task] for task in copies if task in row.learning},
                    being_learned=tuple(task for task in active if task in learned),
                    shutdown=row.shutdown,
                    layout=said.layout,
                )
                if said.endpoint:
                    host, _, port = said.endpoint.rpartition(":")
                    hosts[host, int(port)] = tuple(at for task in active for at in tasks[task])
        return {one: evolve(given, hosts=hosts) for one, given in given_to.items()}

    def _expires_in_ms(self, instances: Mapping[ClientId, _Instance]) -> int | None:
        limit_ms = self._config.scale_down_timeout_ms
        leaving = [each.leaving_ms for each in instances.values() if 0 <= each.leaving_ms < limit_ms]
        return limit_ms - max(leaving) if leaving else None


def _instances(members: Mapping[MemberId, Subscriber]) -> dict[ClientId, _Instance]:
    found: dict[ClientId, _Instance] = {}
    for one in sorted(members):
        said = decode_streams_subscription(members[one].user_data or b"")
        found.setdefault(said.process_id.hex(), _Instance()).said[one] = said
    return {name: found[name] for name in sorted(found)}


def _find_previous_owners(
    instances: Mapping[ClientId, _Instance],
    members: Mapping[MemberId, Subscriber],
    tasks: Mapping[TaskId, tuple[TopicPartition, ...]],
) -> None:
    """Find each task's previous owner: the claimant of the latest generation; no owner if two claims have equal
    generations.

    The layouts v4 and v5 contain the previous tasks. A thread still owns the tasks of its consumer's partitions; an
    eager thread owns no tasks.
    """
    claims: dict[TaskId, list[tuple[int, ClientId, bool]]] = {}
    for name, each in instances.items():
        for one, said in each.said.items():
            running = said.active or tuple(task for task, at in said.offset_sums.items() if at == LATEST_OFFSET)
            revoked = said.revoked
            if said.layout is Layout.STICKY:
                owned = frozenset(members[one].owned)
                revoked = tuple(task for task in running if owned.isdisjoint(tasks.get(task, ())))
                running = tuple(task for task in running if task not in revoked)
            for kept, listed in ((True, running), (False, revoked)):
                for task in listed:
                    claims.setdefault(task, []).append((members[one].generation, name, kept))
    for task in in_order(tasks):
        latest = max((generation for generation, _, _ in claims.get(task, ())), default=0)
        best = [(name, kept) for generation, name, kept in claims.get(task, ()) if generation == latest]
        if len(best) == 1:
            name, kept = best[0]
            (instances[name].active if kept else instances[name].revoked).append(task)


def _by_lag(said: StreamsSubscription, end_of: Mapping[TaskId, int]) -> tuple[TaskId, ...]:
    """A thread's tasks, smallest lag first. Source: ``ClientState.prevTasksByLag``."""
    lags = {task: _lag(at, end_of.get(task, 0)) for task, at in said.offset_sums.items()}
    lags.update({task: one.lag for task, one in said.learning.items()})
    lags.update(said.standby)
    lags.update(dict.fromkeys((*said.active, *said.revoked), LATEST_OFFSET))
    return tuple(sorted(lags, key=lambda task: (lags[task], task)))


def _lag(offset: int, end: int) -> int:
    """The lag of a copy. An offset beyond the end belongs to another changelog, so the whole state must be restored.

    Source: ``ClientState``.
    """
    if offset == LATEST_OFFSET:
        return LATEST_OFFSET
    return end - offset if offset <= end else end


def _rows(given: TaskAssignment, instances: Mapping[ClientId, _Instance]) -> dict[ClientId, StreamsAssignment]:
    rows: dict[ClientId, StreamsAssignment] = {}
    for name, each in instances.items():
        active = given.active[name]
        revoked = tuple(task for task in in_order((*each.active, *each.revoked)) if task not in active)
        rows[name] = StreamsAssignment(active, revoked, standby=given.standby[name])
    return rows


def _assigned_now(
    row: StreamsAssignment, instance: _Instance, given_to: Mapping[MemberId, StreamsGiven]
) -> StreamsAssignment:
    """The assignment that an instance's threads receive now, without tasks that another thread must revoke first."""
    threads = [given_to[one] for one in instance.said]
    assigned = tuple(sorted(task for given in threads for task in given.active))
    standby = tuple(sorted({task for given in threads for task in given.standby}))
    learned = tuple(task for task in row.being_learned if task in assigned)
    had = (*instance.active, *instance.revoked)
    revoked = tuple(in_order(task for task in had if task not in assigned))
    return evolve(row, assigned=assigned, revoked=revoked, being_learned=learned, standby=standby)


def _as_bytes(
    given_to: Mapping[MemberId, StreamsGiven], tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
) -> GroupAssignment:
    """The bytes of a member's assignment: its partitions, task by task, and in the user data the task of each
    partition.
    """
    partitions: Assignment = {}
    data: dict[MemberId, bytes] = {}
    for one, given in given_to.items():
        partitions[one] = [at for task in given.active for at in tasks[task]]
        per_partition = tuple(task for task in given.active for _ in tasks[task])
        data[one] = encode_streams_assignment(evolve(given, active=per_partition))
    return GroupAssignment(partitions, data)
