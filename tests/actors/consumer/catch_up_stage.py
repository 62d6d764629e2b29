"""Members in KIP-333's mode against a real coordinator, and logs that a script extends and trims.

Runs the scripts of ``tests/vectors/parallel_consumer.json``, about one partition of a group, with the machines. Each
event of a script is an act of this stage; ``state`` is the script's expectation. A script decides which consumer's
records a poll returns, where a real poll would share.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kemu.actors.consumer.application import Calls, IllegalState
from kemu.actors.consumer.consumer import Consumer
from kemu.actors.consumer.partition import Returned, ReturnedOfRange
from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.machine import (
    Append,
    Appended,
    Event,
    Hangup,
    LinkDown,
    Machine,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
)
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.commands import FailChild, LeadOffsets, PausePartitions, ResumePartitions, Start
from kemu.protocol.config import BrokerConfig, ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Fetch,
    FetchedPartition,
    FetchReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    OffsetAnswer,
    PartitionMetadata,
    RecordBatch,
    TopicMetadata,
)
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply, OffsetCommit, OffsetToCommit
from kemu.protocol.names import (
    coordinator_on,
    host_of,
    offsets_partition_of,
    part_and_rest,
    part_on,
    through,
)
from kemu.protocol.notes.groups import CommitAnswered, OffsetCommitted, PositionSet
from kemu.protocol.notes.ranges import (
    ChildConsumerStarted,
    RangeCommitted,
    RangeOpened,
    RangeTrimmed,
)
from kemu.protocol.wire.codec import seal, unseal
from tests.actors.consumer.consumer_harness import Middle

T = TypeVar("T")
AT = ("t", 0)
BROKER = "b0"
COORDINATOR = coordinator_on(BROKER)
GROUP = "g"
HOP_US = 1_000
AWAY_US = 20_000_000
POLL_INTERVAL_MS = 10_000
SECOND = 1_000_000


class Script:
    """The application: it polls, and acts as the script says in between."""

    def __init__(self, stage: "Stage") -> None:
        self.acts: deque[Callable[[Calls], bool]] = deque()
        """Each says whether it made the next call itself."""
        self.calls: Calls
        self._stage = stage

    def started(self, calls: Calls) -> None:
        self.calls = calls
        calls.poll(HOP_US)

    def polled(self, records: Sequence[Returned]) -> None:
        for part in records:
            self._stage.delivered_by(part)
            self.calls.processed(part, self.calls.now_us)
        self._resume_application()

    def worked(self) -> None:
        self._resume_application()

    def committed(self) -> None:
        self._resume_application()

    def poll_raised(self, why: str) -> None:
        raise AssertionError(why)

    def _resume_application(self) -> None:
        while self.acts:
            if self.acts.popleft()(self.calls):
                return
        self.calls.poll(HOP_US)


class Member:
    """One process of a member: its machine, and the number of records it may poll."""

    def __init__(self, stage: "Stage", name: str, life: int) -> None:
        self.name = name
        self.script = Script(stage)
        self.first = self.second = 0
        """Number of records that the next polls may take from each consumer."""
        config = ConsumerConfig(
            group_id=GROUP,
            group_instance_id=name,
            enable_parallel_rebalance=True,
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=POLL_INTERVAL_MS,
            fetch_max_wait_ms=50,
        )
        self.machine = Consumer(
            name,
            config,
            ("t",),
            bootstrap=(BROKER,),
            assignors=dict(ASSIGNORS),
            chance=Middle(),
            application=self.script,
        )
        catch_up = self.machine.catch_up
        assert catch_up is not None
        self.catch_up = catch_up
        catch_up.poll = self._poll  # type: ignore[method-assign]

    def _poll(self, most: int) -> list[Returned]:
        """The script's shares of both consumers, instead of equal ones."""
        positions, catch_up = self.machine.positions, self.catch_up
        returned: list[Returned] = []
        if self.first and positions.has_records():
            returned += positions.drain(self.first)
            self.first -= sum(part.last - part.first for part in returned)
        if self.second and catch_up._child is not None and catch_up._child.has_records:
            taken = catch_up._take(self.second)
            self.second -= sum(part.last - part.first for part in taken)
            returned += taken
        return returned


class Stage:
    """Members, coordinators and logs of one script (see the module)."""

    def __init__(self, log_end: int, p_commit: int | None) -> None:
        self.log_start, self.log_end = 0, log_end
        self.now_us = 0
        self.delivered: list[list[Any]] = []
        self.rejected = 0
        self.notes: list[Any] = []
        self.member: Member | None = None
        self.p_log: list[int] = []
        self.s_log: list[list[Any]] = []
        self._lives = 0
        self._life_of: dict[str, int] = {}
        self._zombies: dict[int, Member] = {}
        """Generation -> a deposed member that still has this generation."""
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._timers: dict[tuple[str, tuple[str, ...]], int] = {}
        self._machines: dict[str, Machine] = {}
        self._log: list[Record] = []
        self._parked: list[tuple[str, Received]] = []
        self._fail_after = ""
        self._failovers = 0
        self.coordinator = Coordinator(COORDINATOR, 0, BrokerConfig(group_initial_rebalance_delay_ms=0))
        self._machines[COORDINATOR] = self.coordinator
        self._step(COORDINATOR, Told(Start()))
        for number in range(50):
            self._step(COORDINATOR, Told(LeadOffsets(partition=number, leader_epoch=1, records=())))
        if p_commit is not None:
            row = OffsetToCommit(topic="t", partition=0, offset=p_commit)
            self._step(COORDINATOR, Received("tool", 1, 1, 9, OffsetCommit(group=GROUP, offsets=(row,))))
            self.run(SECOND)
        self.notes.clear()

    # --- the world ---------------------------------------------------------------------------------------------

    def run(self, us: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Deliver what is due within this time, or until the condition holds."""
        end = self.now_us + us
        while not until():
            if not self._agenda or self._agenda[0][0] > end:
                self.now_us = end
                return until()
            self.now_us, _, act = heapq.heappop(self._agenda)
            act()
        return True

    def _at(self, after_us: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now_us + after_us, next(self._numbers), act))

    def _step(self, name: str, event: Event) -> None:
        machine = self._machines.get(name)
        if machine is None:
            return
        for effect in machine.step(self.now_us, event):
            self._perform(name, machine, effect)

    def _perform(self, name: str, machine: Machine, effect: Any) -> None:
        match effect:
            case Send(to, connection, request_id, version, message):
                message, version = unseal(seal(message, version))
                event = Received(name, 1, request_id, version, message)
                if connection:
                    self._at(HOP_US, lambda: self._answer_arrives(to, event))
                else:
                    self._at(HOP_US, lambda: self._request_arrives(name, machine, to, event))
            case StartTimer(key, after_us):
                number = self._timers[name, key] = next(self._numbers)
                self._at(after_us, lambda: self._timer(name, machine, key, number))
            case StopTimer(key):
                self._timers.pop((name, key), None)
            case Append(_, records, token):
                offset = len(self._log)
                self._log += records
                self._at(HOP_US, lambda: self._step(name, Appended(token, ErrorCode.NONE, offset)))
            case Note(fact):
                self._noted(fact)
            case Hangup():
                pass
            case _:
                raise AssertionError(effect)

    def _timer(self, name: str, machine: Machine, key: tuple[str, ...], number: int) -> None:
        if self._machines.get(name) is machine and self._timers.get((name, key)) == number:
            del self._timers[name, key]
            self._step(name, TimerFired(key))

    def _noted(self, fact: Any) -> None:
        self.notes.append(fact)
        match fact:
            case RangeOpened(start=start, end=end):
                self.s_log.append(["token", start, end])
            case RangeCommitted(offset=offset):
                self.s_log.append(["commit", offset])
            case OffsetCommitted(offset=offset):
                self.p_log.append(offset)

    # --- requests ----------------------------------------------------------------------------------------------

    def _request_arrives(self, name: str, machine: Machine, to: str, event: Received) -> None:
        if self._machines.get(name) is not machine:
            return  # its process is gone
        part, peer = part_and_rest(to)
        sender = part_on(name, part)
        if peer == COORDINATOR:
            self._step(COORDINATOR, event._replace(peer=f"{sender}#{self._life_of[name]}"))
            return
        reply = self._served(event.message)
        if reply is None:
            self._parked.append((sender, event))
            self._at(event.message.max_wait_ms * 1_000, lambda: self._unpark(sender, event))
        else:
            self._reply(sender, event, reply)

    def _unpark(self, sender: str, event: Received) -> None:
        if (sender, event) in self._parked:
            self._parked.remove((sender, event))
            self._reply(sender, event, self._fetched(event.message) or FetchReply(partitions=()))

    def _reply(self, sender: str, event: Received, reply: Any) -> None:
        reply, version = unseal(seal(reply, event.version))
        name = host_of(sender)
        machine = self._machines.get(name)

        def arrive() -> None:
            if self._machines.get(name) is machine:
                self._step(name, Received(BROKER, 1, event.request_id, version, reply))

        self._at(HOP_US, arrive)

    def _answer_arrives(self, to: str, event: Received) -> None:
        """The coordinator's answer to a member, or to one of its consumers."""
        sender, _, life = to.partition("#")
        name = host_of(sender)
        if life == str(self._life_of.get(name)):
            self._step(name, event)

    def _served(self, request: Any) -> Any:
        match request:
            case FindCoordinator():
                return FindCoordinatorReply(error=ErrorCode.NONE, node_id=0, host=COORDINATOR)
            case Metadata():
                row = PartitionMetadata(error=ErrorCode.NONE, partition=0, leader=0, replicas=(0,), isr=(0,))
                topic = TopicMetadata(error=ErrorCode.NONE, topic="t", partitions=(row,))
                return MetadataReply(brokers=(BrokerMetadata(node_id=0, host=BROKER),), topics=(topic,))
            case ListOffsets(questions=(question,)):
                if self._fail_after == "read_end" and question.timestamp_ms == -1:
                    self._end_of_life()
                offset = self.log_start if question.timestamp_ms == -2 else self.log_end
                answer = OffsetAnswer(topic="t", partition=0, error=ErrorCode.NONE, offset=offset)
                return ListOffsetsReply(answers=(answer,))
            case Fetch():
                return self._fetched(request)
            case _:
                raise AssertionError(request)

    def _fetched(self, request: Fetch) -> FetchReply | None:
        rows = []
        for row in request.partitions:
            error, batches = ErrorCode.NONE, ()
            if not self.log_start <= row.fetch_offset <= self.log_end:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            elif row.fetch_offset < self.log_end:
                count = self.log_end - row.fetch_offset
                batches = (RecordBatch(base_offset=row.fetch_offset, count=count, append_time_ms=0),)
            if batches or error:
                rows.append(FetchedPartition(topic="t", partition=0, error=error, batches=batches))
        return FetchReply(partitions=tuple(rows)) if rows else None

    def delivered_by(self, part: Returned) -> None:
        """A poll returned these records."""
        who = "S" if isinstance(part, ReturnedOfRange) else "P"
        last = self.delivered[-1] if self.delivered else None
        begins = any(part.first == fact.start for fact in self.facts(RangeOpened)) and who == "S"
        if last is not None and last[0] == who and last[2] == part.first and self._goes_on and not begins:
            last[2] = part.last
        else:
            self.delivered.append([who, part.first, part.last])
        self._goes_on = True

    _goes_on = False

    # --- events of a script ------------------------------------------------------------------------------------

    def start(self, fail_after: str = "", member: str = "A") -> None:
        """A member starts, restarts after a power failure, or polls again."""
        self._fail_after = fail_after
        if self.member is None:
            self._lives += 1
            name = {"A": "c1", "B": "c2"}[member]
            self.member = Member(self, name, self._lives)
            self._machines[name], self._life_of[name] = self.member.machine, self._lives
            self._step(name, Told(Start()))
        else:  # the application polls again, and learns that it was no member any more
            self._timers.pop((self.member.name, ("work",)), None)
            self._step(self.member.name, TimerFired(("work",)))
        before = len(self.facts(PositionSet))
        if fail_after == "token":
            opened = len(self.facts(RangeOpened))
            assert self.run(
                60 * SECOND, lambda: len(self.facts(RangeOpened)) > opened or len(self.facts(PositionSet)) > before
            )
            if len(self.facts(RangeOpened)) > opened:
                self._end_of_life()
        elif fail_after:
            assert self.run(60 * SECOND, lambda: self.member is None)
        else:
            assert self.run(60 * SECOND, lambda: len(self.facts(PositionSet)) > before), self.notes[-8:]
        self._fail_after = ""

    def _end_of_life(self) -> None:
        """The power fails."""
        member, self.member = self.member, None
        if member is not None:
            del self._machines[member.name]
            for key in [key for key in self._timers if key[0] == member.name]:
                del self._timers[key]

    def append(self, to: int) -> None:
        """The log grows."""
        self.log_end = to
        for sender, event in list(self._parked):
            self._unpark(sender, event)
        self.run(10 * HOP_US)

    def trim(self, to: int) -> None:
        """Retention deletes the records below an offset."""
        self.log_start = to

    def poll(self, who: str, n: int) -> int:
        """Poll until one consumer has returned this many records, or all of its records."""
        member = self.member
        if member is None:
            return 0
        before = sum(last - first for _, first, last in self.delivered)
        self._goes_on = False
        if who == "primary":
            member.first = n
        else:
            member.second = n
        self.run(SECOND, lambda: not (member.first or member.second))
        member.first = member.second = 0
        return sum(last - first for _, first, last in self.delivered) - before

    def commit(self, who: str, gen: int | None = None) -> bool:
        """commitSync() without offsets, of both consumers or of one; ``gen``: of a deposed member."""
        member = self._zombies.get(gen) if gen is not None else self.member
        if member is None:
            self.rejected += 1
            return False
        machine = member.machine
        refused = len(self._refusals())
        act: Callable[[Calls], bool]
        if who == "both":
            act = _commit_sync
        elif who == "primary":
            act = lambda calls: machine.commits.send(both=False) is None  # noqa: E731
        else:
            act = lambda calls: member.catch_up.commit_second(machine.membership.generation, _ignore) is None  # noqa: E731
        member.script.acts.append(act)
        if gen is None:
            self.run(SECOND // 2)
        else:  # the deposed member resumes; both logs fence it
            self._step(member.name, TimerFired(("poll-returns",)))
            assert self.run(SECOND // 2, lambda: len(self._refusals()) >= refused + 2)
            del self._machines[member.name]
        if len(self._refusals()) > refused:
            self.rejected += 1
            return False
        return True

    def _refusals(self) -> list[CommitAnswered]:
        return [fact for fact in self.facts(CommitAnswered) if fact.error is not ErrorCode.NONE]

    def commit_sync(self, o: int) -> str:
        """commitSync() of an offset: where it went."""
        assert self.member is not None
        refused: list[str] = []
        first, second = len(self.facts(OffsetCommitted)), len(self.facts(RangeCommitted))

        def act(calls: Calls) -> bool:
            try:
                calls.commit_sync({AT: o})
            except IllegalState as why:
                refused.append(str(why))
                return False
            return True

        self.member.script.acts.append(act)
        self.run(SECOND // 2)
        self.rejected += len(refused)
        if refused:
            return "rejected"
        if len(self.facts(OffsetCommitted)) > first:
            return "primary"
        return "secondary" if len(self.facts(RangeCommitted)) > second else "noop"

    def crash(self, who: str) -> None:
        """The process, the second consumer alone, or the first fails; the first polls too late and is removed from the
        group.
        """
        assert self.member is not None
        if who == "both":
            self._end_of_life()
        elif who == "secondary":
            self._step(self.member.name, Told(FailChild(for_us=3_600 * SECOND)))
        else:
            self.member.script.acts.append(_work_for_hours)
            self.run(2 * POLL_INTERVAL_MS * 1_000)
            assert self.member.machine.membership.generation.id < 0

    @property
    def child_is_dead(self) -> bool:
        """The second consumer failed and has not restarted."""
        return self.member is not None and (self.member.name, ("child",)) in self._timers

    def fail_over(self) -> None:
        """Another broker's coordinator takes the group up from its log; connections to the first one break."""
        self.coordinator = Coordinator(COORDINATOR, 0, BrokerConfig(group_initial_rebalance_delay_ms=0))
        self._machines[COORDINATOR] = self.coordinator
        for key in [key for key in self._timers if key[0] == COORDINATOR]:
            del self._timers[key]
        self._failovers += 1
        epoch, number = 1 + self._failovers, offsets_partition_of(GROUP)
        self._step(COORDINATOR, Told(Start()))
        for each in range(50):
            records = tuple(self._log) if each == number else ()
            self._step(COORDINATOR, Told(LeadOffsets(partition=each, leader_epoch=epoch, records=records)))
        for name in [name for name in self._machines if name != COORDINATOR]:
            self._step(name, LinkDown(COORDINATOR))
            self._step(name, LinkDown(through("catch-up", COORDINATOR)))
        self.run(SECOND // 2)

    def recover_secondary(self) -> None:
        """The second consumer restarts, if it had failed."""
        assert self.member is not None
        if not self.child_is_dead:
            return
        self._timers.pop((self.member.name, ("child",)), None)
        self._step(self.member.name, TimerFired(("child",)))
        self.run(10 * HOP_US)

    def lose(self, clean: bool) -> None:
        """The member loses the partition: it commits and leaves, or it is isolated and its session expires."""
        member = self.member
        assert member is not None
        if clean:
            self.commit("both")
            self._end_of_life()
            self.run(AWAY_US)
            return
        generation = member.machine.membership.generation
        self.member = None
        self._zombies[self._zombie_number()] = member
        # It is paused: none of its planned steps happens, until the script lets it commit.
        del self._machines[member.name]
        self.run(AWAY_US)
        self._machines[member.name] = member.machine
        assert member.machine.membership.generation == generation

    def _zombie_number(self) -> int:
        """Scripts number ownerships; the member deposed now has the latest number."""
        return self._lives

    def pause(self) -> None:
        """pause() of the partition."""
        self.tell(PausePartitions(partitions=(AT,)))

    def resume(self) -> None:
        """resume() of it."""
        self.tell(ResumePartitions(partitions=(AT,)))

    def tell(self, command: object) -> None:
        assert self.member is not None
        self._step(self.member.name, Told(command))
        self.run(10 * HOP_US)

    # --- what a script expects ---------------------------------------------------------------------------------

    def facts(self, kind: type[T]) -> list[T]:
        """All notes of a class so far."""
        return [fact for fact in self.notes if isinstance(fact, kind)]

    def state(self) -> dict[str, Any]:
        """As the script has it; ``committed`` and ``pending`` are asked of the coordinator's group."""
        group = self.coordinator.groups[GROUP]
        kept, second = group.offsets.committed.get(AT), group.second.of(AT)
        done = second.progress
        pending = [
            [max(start, done), token.value.end] for start, token in second.tokens.items() if token.value.end > done
        ]
        member = self.member
        owns = member is not None and member.machine.membership.generation.id >= 0
        return {
            "position": member.machine.thread.position(AT) if member is not None and owns else None,
            "committed": pending[0][0] if pending else None if kept is None else kept.value.offset,
            "pending": pending,
            "child_alive": member is not None and member.machine.thread.child_consumer_is_alive(),
            "p_log": self.p_log,
            "s_log": self.s_log,
            "delivered": self.delivered,
            "lost": sum(fact.last - fact.first for fact in self.facts(RangeTrimmed)),
            "rejected": self.rejected,
            "threads_created": len(self.facts(ChildConsumerStarted)),
        }


def _commit_sync(calls: Calls) -> bool:
    calls.commit_sync()
    return True


def _work_for_hours(calls: Calls) -> bool:
    calls.work(3_600 * SECOND)
    return True


def _ignore(result: object) -> None:
    """The notes show the outcome of a commit."""
