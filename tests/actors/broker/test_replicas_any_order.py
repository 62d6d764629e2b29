"""Leaders, followers, truncation and watermarks under any order of messages, crashes and clean elections."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kemu.actors.broker.replica import Role
from kemu.protocol.notes.replication import HighWatermarkAdvanced
from tests.actors.broker.replica_world import AT, Bench
from tests.examples import examples

MS = 1_000


class Replication(RuleBasedStateMachine):
    """Three brokers and one partition. Committed records are kept as the epoch of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.bench.elect(0, (0, 1, 2))
        self.committed: list[int] = []
        self.read = 0
        """Number of the bench's notes that were checked."""

    # --- what happens ------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), broker=st.integers(0, 2), acks=st.sampled_from([-1, 1]))
    def produce(self, count: int, broker: int, acks: int) -> None:
        if f"b{broker}" in self.bench.brokers:
            self.bench.produce(f"b{broker}", count, acks=acks)
        self.look()

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        waiting = [pair for pair, queue in sorted(self.bench.mail.items()) if queue]
        if waiting:
            self.bench.deliver(*data.draw(st.sampled_from(waiting), "link"))
        self.look()

    @rule()
    def deliver_all(self) -> None:
        for pair in sorted(self.bench.mail):
            self.bench.deliver(*pair)
            self.look()

    @rule()
    def disks(self) -> None:
        self.bench.write_all()
        self.look()

    @rule(ms=st.sampled_from([10, 600, 1_100, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.pass_time(ms * MS)
        self.look()

    @rule(ms=st.sampled_from([500, 1_500]))
    def everything_arrives(self, ms: int) -> None:
        self.bench.settle(ms * MS)
        self.look()

    @precondition(lambda self: len(self.bench.brokers) > 1)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.bench.crash(data.draw(st.sampled_from(sorted(self.bench.brokers)), "broker"))
        self.bench.tell_brokers()
        self.look()

    @precondition(lambda self: len(self.bench.brokers) < 3)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        gone = [name for name in ("b0", "b1", "b2") if name not in self.bench.brokers]
        name = data.draw(st.sampled_from(gone), "broker")
        self.bench.start(name)
        if f"b{self.bench.leader}" in self.bench.brokers:
            self.bench.tell_state(name)
        self.look()

    @rule(data=st.data())
    def elect(self, data: st.DataObject) -> None:
        """A clean election: a leader from the ISR, which loses stopped replicas. Some brokers may learn of it later."""
        alive = tuple(number for number in self.bench.isr if f"b{number}" in self.bench.brokers)
        if not alive:
            return
        leader = data.draw(st.sampled_from(alive), "leader")
        hears = data.draw(st.sets(st.integers(0, 2)), "hears")
        self.bench.elect(leader, alive, to=tuple(sorted(hears | {leader})))
        self.look()

    @rule(broker=st.integers(0, 2))
    def hear_of_it(self, broker: int) -> None:
        if f"b{broker}" in self.bench.brokers and self.bench.epoch >= 0:
            self.bench.tell_state(f"b{broker}")
        self.look()

    # --- what must hold ----------------------------------------------------------------------------------------

    def epochs_of(self, name: str) -> list[int]:
        replica = self.bench.brokers[name].manager.replicas.get(AT)
        if replica is None:
            return []
        return [one.leader_epoch for one in replica.log.copy_from(0, 1 << 30, 1) for _ in range(one.count)]

    def look(self) -> None:
        """Keep the newly committed records; they must continue the ones kept before."""
        for name, fact in self.bench.notes[self.read :]:
            if isinstance(fact, HighWatermarkAdvanced) and name in self.bench.brokers:
                shown = self.epochs_of(name)[: fact.high_watermark]
                same = min(len(shown), len(self.committed))
                assert shown[:same] == self.committed[:same], f"{name} shows {shown}, committed {self.committed}"
                self.committed = max(self.committed, shown, key=len)
        self.read = len(self.bench.notes)

    @invariant()
    def the_isr_and_the_leader_have_what_is_committed(self) -> None:
        """Every electable replica has all committed records."""
        for number in self.bench.isr:
            if f"b{number}" in self.bench.brokers:
                assert self.epochs_of(f"b{number}")[: len(self.committed)] == self.committed, f"b{number}"

    @invariant()
    def an_epoch_has_one_leader_and_no_watermark_is_above_its_log(self) -> None:
        """Each epoch has one leader."""
        managers = [broker.manager for broker in self.bench.brokers.values()]
        replicas = [manager.replicas[AT] for manager in managers if AT in manager.replicas]
        leaders = [replica.leader_epoch for replica in replicas if replica.role is Role.LEADER]
        assert len(set(leaders)) == len(leaders)
        for replica in replicas:
            assert replica.log.high_watermark <= replica.log.end_offset
            assert replica.log.stored_end <= replica.log.end_offset

    def teardown(self) -> None:
        """At the end all brokers are up and informed, and their logs agree."""
        bench = self.bench
        for name in ("b0", "b1", "b2"):
            if name not in bench.brokers:
                bench.start(name)
        bench.tell_brokers()
        bench.elect(bench.isr[0], bench.isr)
        bench.settle(8_000 * MS)
        logs = [self.epochs_of(name) for name in ("b0", "b1", "b2")]
        assert logs[0] == logs[1] == logs[2]
        assert sorted(bench.isr) == [0, 1, 2]
        assert logs[0][: len(self.committed)] == self.committed


TestReplication = Replication.TestCase
TestReplication.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
