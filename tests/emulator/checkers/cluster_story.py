"""Runs of a replicated cluster told by hand: one partition on three brokers, in few words. See ``story`` for groups."""

from collections.abc import Iterable

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.leadership import LeadershipChecker
from kemu.emulator.checkers.replicas import Replicas
from kemu.emulator.facts import (
    DiskFound,
    DiskTailLost,
    Healed,
    HostDown,
    HostStarted,
    RunStarted,
    Seen,
    TopicReplicated,
    UnflushedLost,
)
from kemu.emulator.findings import LOSS_REASONS, Loss, Violation
from kemu.emulator.judging import Judging
from kemu.emulator.watching.copies import Copies
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EPOCH_DURING_DELETE
from kemu.protocol.messages.data import PartitionMetadata, TopicMetadata
from kemu.protocol.nodes import (
    CONTROLLER_EPOCH,
    PartitionState,
    ReplicaAssignment,
    broker_path,
    config_data,
    epoch_data,
    state_data,
    state_path,
    topic_config_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes import replication as control_notes

TOPIC, PRODUCER, READER, STORE = "t", "p1", "c1", "zk"
BROKERS = (0, 1, 2)
SECOND = 1_000_000
US = 1_000


class ClusterStory:
    """Every call is a step of its own, a millisecond after the one before. Brokers are numbers; one partition, t-0."""

    def __init__(self, *, unclean: bool = False, topic: str = TOPIC, min_isr: int = 1) -> None:
        self.topic = topic
        self.facts: list[Seen] = []
        self.disk_ends: dict[int, int] = {}
        """Of brokers whose disk lost the end of their log."""
        self.copies = Copies()
        """What is told so far: whose records are whose."""
        self.at_us = self.seq = self.version = 0
        self.lives: dict[str, int] = {}
        self.epoch, self.controller, self.controller_epoch = -1, "b0/controller", 0
        self.isr: tuple[int, ...] = ()
        self.leader = -1
        names = tuple(f"b{number}" for number in BROKERS)
        self.world(RunStarted(groups=(), members=(), brokers=names, topics=((self.topic, 1),)))
        self.world(TopicReplicated(topic=self.topic, replicas=(BROKERS,), min_isr=min_isr, unclean=unclean))
        for host in (*names, PRODUCER, READER):
            self.start(host)
        for number in BROKERS:
            self.node(broker_path(number), client=f"b{number}/controller")
        self.create_topic()
        self.new_controller(0)

    # --- steps -------------------------------------------------------------------------------------------------

    def world(self, *facts: object) -> None:
        self.at_us += US
        self._tell("", 0, facts)

    def by(self, actor: str, *facts: object) -> None:
        self.at_us += US
        self.seq += 1
        life = self.lives.get(actor.partition("/")[0], 1)
        self._tell(actor, life, facts)

    def _tell(self, actor: str, life: int, facts: Iterable[object]) -> None:
        for fact in facts:
            seen = Seen(self.seq, self.at_us, actor, life, fact)
            self.facts.append(seen)
            if type(fact) in self.copies.on:
                self.copies.on[type(fact)](seen, fact)

    def life_of(self, offset: int, epoch: int, but: str = "") -> int:
        """Which life of the leader of an epoch appended a record that somebody has; the leader's copy first."""
        brokers = sorted((f"b{number}" for number in BROKERS), key=lambda name: name != f"b{self.leader}")
        for name in brokers:
            term = self.copies.on_host(name, (self.topic, 0)).log.term_at(offset)
            if name != but and term[0] == epoch:
                return term[1]
        return 0

    def wait(self, seconds: float) -> None:
        self.at_us += int(seconds * SECOND)

    def start(self, host: str, *, kept_disk: bool = True) -> None:
        self.lives[host] = self.lives.get(host, 0) + 1
        self.world(HostStarted(host=host, life=self.lives[host], kept_disk=kept_disk))

    def down(self, host: str, how: str = "power") -> None:
        self.world(HostDown(host=host, life=self.lives[host], how=how))

    def lose_tail(self, broker: int, records: int, end: int) -> None:
        """A power cut takes the last records of a log, flushed or not; ``end``: of what is left."""
        self.down(f"b{broker}")
        self.disk_ends[broker] = end
        self.world(DiskTailLost(host=f"b{broker}", log=f"replica/{self.topic}-0", records=records, end_offset=end))

    def lose_unflushed(self, broker: int, records: int, end: int) -> None:
        """A power cut takes the last records of a log, which were not flushed; ``end``: of what is left."""
        self.down(f"b{broker}")
        self.disk_ends[broker] = end
        self.world(UnflushedLost(host=f"b{broker}", logs=((f"replica/{self.topic}-0", records, end),)))

    def heal(self) -> None:
        self.world(Healed())

    # --- the store ---------------------------------------------------------------------------------------------

    def node(self, path: str, data: bytes = b"", *, what: str = "created", client: str | None = None) -> None:
        self.version += 1
        who = self.controller if client is None else client
        fact = control_notes.NodeWritten(
            what=what, path=path, data=data, version=self.version, zxid=self.version, client=who
        )
        self.by(STORE, fact)

    def new_controller(self, broker: int) -> None:
        self.controller_epoch += 1
        self.controller = f"b{broker}/controller"
        self.node(CONTROLLER_EPOCH, epoch_data(self.controller_epoch), what="set")

    def allow_unclean(self, allowed: str) -> None:
        self.node(topic_config_path(self.topic), config_data([("unclean.leader.election.enable", allowed)]))

    def write_state(self, leader: int, isr: tuple[int, ...], *, epoch: int | None = None, client: str = "") -> None:
        """The partition's state, by the controller under the next epoch, or by somebody else under this one."""
        if not client:
            self.epoch += 1
        self.epoch = self.epoch if epoch is None else epoch
        self.leader, self.isr = leader, isr
        state = PartitionState(leader, self.epoch, isr, self.controller_epoch)
        self.node(state_path(self.topic, 0), state_data(state), what="set", client=client or None)

    # --- brokers -----------------------------------------------------------------------------------------------

    def lead(
        self,
        broker: int,
        end: int = 0,
        watermark: int = 0,
        *epochs: tuple[int, int],
        epoch: int | None = None,
    ) -> None:
        """``epochs``: which wrote its log, from which offset on; none: not told."""
        fact = control_notes.BecameLeader(
            topic=self.topic,
            partition=0,
            leader_epoch=self.epoch if epoch is None else epoch,
            isr=self.isr,
            end_offset=end,
            high_watermark=watermark,
            epochs=epochs,
        )
        self.by(f"b{broker}", fact)

    def follow(self, broker: int, end: int = 0, *, epoch: int | None = None) -> None:
        epoch = self.epoch if epoch is None else epoch
        fact = control_notes.BecameFollower(
            topic=self.topic, partition=0, leader_epoch=epoch, leader=self.leader, end_offset=end, high_watermark=0
        )
        self.by(f"b{broker}", fact)

    def elect(self, leader: int, isr: tuple[int, ...], end: int = 0, watermark: int = 0) -> None:
        """Written, told, taken by the whole ISR."""
        self.write_state(leader, isr)
        self.lead(leader, end, watermark)
        for follower in isr:
            if follower != leader:
                self.follow(follower, end)

    def append(self, broker: int, base: int, count: int) -> None:
        self.by(f"b{broker}", notes.RecordsAppended(topic=self.topic, partition=0, base_offset=base, count=count))

    def copy(self, broker: int, base: int, count: int, epoch: int | None = None) -> None:
        epoch = self.epoch if epoch is None else epoch
        fact = control_notes.RecordsReplicated(
            topic=self.topic,
            partition=0,
            base_offset=base,
            count=count,
            leader_epoch=epoch,
            life=self.life_of(base, epoch, f"b{broker}"),
        )
        self.by(f"b{broker}", fact)

    def advance(self, broker: int, watermark: int, epoch: int | None = None) -> None:
        epoch = self.epoch if epoch is None else epoch
        fact = control_notes.HighWatermarkAdvanced(
            topic=self.topic, partition=0, leader_epoch=epoch, high_watermark=watermark
        )
        self.by(f"b{broker}", fact)

    def cut(self, broker: int, old: int, end: int) -> None:
        fact = control_notes.Truncated(
            topic=self.topic, partition=0, leader_epoch=self.epoch, old_end_offset=old, end_offset=end, why="told"
        )
        self.by(f"b{broker}", fact)

    def restore(self, broker: int, end: int, *epochs: tuple[int, int]) -> None:
        """The broker starts again and finds this on its disk."""
        host = f"b{broker}"
        log = self.copies.on_host(host, (self.topic, 0)).log
        self.start(host)
        there = min(log.end, self.disk_ends.pop(broker, log.end))
        runs = tuple((first, *term) for first, _, term in log.runs_from(0) if first < there)
        self.world(DiskFound(host=host, logs=((f"replica/{self.topic}-0", min(log.start, there), there, runs),)))
        fact = control_notes.ReplicaRestored(
            topic=self.topic, partition=0, end_offset=end, high_watermark=0, epochs=epochs
        )
        self.by(f"b{broker}", fact)

    def commit(self, base: int, count: int, *to: int) -> None:
        """The leader appends, these copy, the high watermark follows."""
        self.append(self.leader, base, count)
        for broker in to:
            self.copy(broker, base, count)
        self.advance(self.leader, base + count)

    def propose(self, broker: int, isr: tuple[int, ...], counted: tuple[int, ...]) -> None:
        fact = control_notes.IsrProposed(
            topic=self.topic, partition=0, leader_epoch=self.epoch, isr=isr, counted=counted
        )
        self.by(f"b{broker}", fact)

    def take_isr(self, broker: int, isr: tuple[int, ...]) -> None:
        """The leader learns that the store has this ISR."""
        fact = control_notes.IsrChanged(
            topic=self.topic, partition=0, leader=broker, leader_epoch=self.epoch, isr=isr, zk_version=1, why="told"
        )
        self.by(f"b{broker}", fact)

    def refuse_isr(self, broker: int, isr: tuple[int, ...]) -> None:
        fact = control_notes.IsrChangeFailed(
            topic=self.topic, partition=0, leader_epoch=self.epoch, isr=isr, why="told"
        )
        self.by(f"b{broker}", fact)

    def refuse_write(self, isr: tuple[int, ...], known: tuple[int, ...]) -> None:
        """The store refuses a controller's ISR for its version; the controller knows this one."""
        fact = control_notes.IsrWriteRefused(
            topic=self.topic,
            partition=0,
            leader=self.leader,
            leader_epoch=self.epoch,
            isr=isr,
            controller_epoch=self.controller_epoch,
            known_isr=known,
            zk_version=self.version - 1,
        )
        self.by(self.controller, fact)

    def leave_pending(self, broker: int, isr: tuple[int, ...], why: str = "INVALID_UPDATE_VERSION") -> None:
        """The controller refuses the leader's ISR for what it knows."""
        fact = control_notes.IsrChangePending(topic=self.topic, partition=0, leader_epoch=self.epoch, isr=isr, why=why)
        self.by(f"b{broker}", fact)

    def obey(self, broker: int, controller_epoch: int, broker_epoch: int) -> None:
        fact = control_notes.ControlRequestTaken(
            api="LeaderAndIsr", controller_epoch=controller_epoch, broker_epoch=broker_epoch
        )
        self.by(f"b{broker}", fact)

    def closes(self, broker: int) -> None:
        """The controller lets the broker stop."""
        fact = control_notes.ControlledShutdownAnswered(broker_id=broker, error=ErrorCode.NONE, remaining=0)
        self.by(self.controller, fact)

    def stop(self, broker: int, epoch: int, *, deleted: bool = False) -> None:
        fact = control_notes.ReplicaStopped(topic=self.topic, partition=0, leader_epoch=epoch, deleted=deleted)
        self.by(f"b{broker}", fact)

    def delete_topic(self, *told: int) -> None:
        """These brokers delete their logs, then the store has the topic no more."""
        for broker in told:
            self.stop(broker, EPOCH_DURING_DELETE, deleted=True)
        self.node(state_path(self.topic, 0), what="deleted")
        self.node(topic_path(self.topic), what="deleted")

    def create_topic(self) -> None:
        """The store has the topic, with one partition on all brokers."""
        self.node(topic_path(self.topic), topic_data({0: ReplicaAssignment(BROKERS)}), client="")

    def cache(self, *brokers: int, live: tuple[int, ...] = BROKERS, gone: bool = False, **other: object) -> None:
        """These are told what the store has, or ``other`` than that."""
        row: dict[str, object] = {
            "error": ErrorCode.NONE,
            "partition": 0,
            "leader": self.leader,
            "leader_epoch": self.epoch,
            "replicas": BROKERS,
            "isr": self.isr,
        }
        topic = TopicMetadata(
            error=ErrorCode.NONE,
            topic=self.topic,
            partitions=(PartitionMetadata(**{**row, **other}),),  # type: ignore[arg-type]
        )
        for broker in brokers:
            fact = control_notes.MetadataCached(
                live_brokers=live, topics=() if gone else (topic,), gone=((self.topic, 0),) if gone else ()
            )
            self.by(f"b{broker}", fact)

    # --- clients -----------------------------------------------------------------------------------------------

    def produce(self, acks: int) -> None:
        self.by(PRODUCER, notes.ProducerStarted(topic=self.topic, acks=acks))

    def acknowledge(self, base: int, count: int) -> None:
        self.by(PRODUCER, notes.RecordsAcknowledged(topic=self.topic, partition=0, base_offset=base, count=count))

    def position(self, offset: int, *, why: str = "reset") -> None:
        fact = notes.PositionSet(group="g", member_id="m", topic=self.topic, partition=0, offset=offset, why=why)
        self.by(READER, fact)
        self.read_epoch(offset, 0, life=1)  # what b0 appended first

    def read_epoch(self, offset: int, epoch: int, life: int | None = None) -> None:
        life = self.life_of(offset, epoch) if life is None else life
        self.by(READER, notes.EpochRead(topic=self.topic, partition=0, offset=offset, leader_epoch=epoch, life=life))

    def process(self, first: int, last: int) -> None:
        fact = notes.Processed(
            group="g",
            member_id="m",
            generation=1,
            topic=self.topic,
            partition=0,
            first=first,
            last=last,
            started_us=self.at_us,
        )
        self.by(READER, fact)

    def commit_offset(self, offset: int) -> None:
        """The reader's group commits."""
        fact = notes.OffsetCommitted(
            group="g", topic=self.topic, partition=0, offset=offset, generation=1, member_id="m", position=-1
        )
        self.by("b0/coordinator", fact)

    # --- judging -----------------------------------------------------------------------------------------------

    def judged(self, *more: Checker) -> tuple[list[Violation], list[Loss], dict[str, bool]]:
        """What the checkers of replication, and these, say: violations, losses, and who was satisfied at the end."""
        checkers: list[Checker] = [Replicas(), LeadershipChecker(), *more]
        judging = Judging(checkers)
        for seen in self.facts:
            judging.see(seen)
        satisfied = {checker.name: checker.satisfied for checker in checkers}
        judgement = judging.finish(self.at_us)
        return list(judgement.violations), list(judgement.losses), satisfied


def time_passes(story: ClusterStory, seconds: float) -> None:
    """Something is said every half of a second."""
    for _ in range(int(2 * seconds)):
        story.wait(0.5)
        story.by(STORE, control_notes.SessionOpened(session_id=1, client="p1"))


def begun(**how: bool) -> ClusterStory:
    """b0 leads in epoch 0, all are in sync, ten records are committed and acknowledged."""
    told = ClusterStory(**how)
    told.produce(acks=-1)
    told.elect(0, (0, 1, 2))
    told.commit(0, 10, 1, 2)
    told.acknowledge(0, 10)
    return told


def holds(story: ClusterStory) -> None:
    """Nothing is violated, and nothing lost."""
    violations, losses, _ = story.judged()
    assert [each.text for each in violations] == []
    assert losses == []


def caught(story: ClusterStory, checker: str, text: str) -> None:
    """This checker says this first (at the end of a run, among others)."""
    violations = story.judged()[0]
    first = [violation for violation in violations if violation.seq == violations[0].seq]
    assert any((each.checker, text in each.text) == (checker, True) for each in first), first


def lost(story: ClusterStory) -> list[tuple[str, int, int]]:
    """The losses: (why, first, last); nothing is violated."""
    violations, losses, _ = story.judged()
    assert [each.text for each in violations] == []
    assert all(loss.why in LOSS_REASONS and loss.partition == "t-0" for loss in losses)
    return [(loss.why, loss.first, loss.last) for loss in losses]
