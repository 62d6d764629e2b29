"""The partition and the replica state machine under any order of transitions, failures and ISR changes.

A plain model repeats the tables of both state machines and of the elections. After every transition it is compared with
the store, the controller's state and the sent requests.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kemu.actors.controller.context import LiveBroker
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import PartitionState, state_path
from tests.actors.controller.controller_bench import EPOCH, ControllerBench
from tests.actors.controller.test_partition_states import VALID as PARTITION_MOVES
from tests.actors.controller.test_replica_states import VALID as REPLICA_MOVES
from tests.examples import examples

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionPhase
PLACES = ((1, 2, 3), (2, 3), (3, 1), (4,))
PARTITIONS = [("t", number) for number in range(len(PLACES))]
BROKERS = (1, 2, 3, 4)

partitions = st.sampled_from(PARTITIONS)
brokers = st.sampled_from(BROKERS)
strategies = st.sampled_from([each for each in Strategy if each is not Strategy.NEW])


class States(RuleBasedStateMachine):
    """Four brokers, four partitions; some are created at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = ControllerBench(*BROKERS)
        self.bench.topic("t", *PLACES)
        self.context = self.bench.context
        self.foreign: set[TopicPartition] = set()
        """Partitions whose state was written by a later controller."""
        self.told_by_leader: set[TopicPartition] = set()
        """Partitions whose leader changed the ISR since the last read."""
        self.unclean = 0

    @initialize(created=st.sets(partitions))
    def some_are_created(self, created: set[TopicPartition]) -> None:
        parts = sorted(created)
        replicas = [(*at, broker) for at in parts for broker in self.context.replicas(at)]
        self.bench.do(self.bench.controller.partitions.move(parts, NEW))
        self.bench.do(self.bench.controller.replicas.move(replicas, ReplicaPhase.NEW))
        self.bench.do(self.bench.controller.partitions.move(parts, ONLINE, Strategy.OFFLINE))
        self.bench.do(self.bench.controller.replicas.move(replicas, ReplicaPhase.ONLINE))

    # --- the model ---------------------------------------------------------------------------------------------

    def stored(self, at: TopicPartition) -> PartitionState | None:
        return self.bench.state(at) if state_path(*at) in self.bench.tree.nodes else None

    def serves(self, broker: int, at: TopicPartition) -> bool:
        context = self.context
        return broker in context.live and broker not in context.shutting_down and self.has_disk(broker, at)

    def has_disk(self, broker: int, at: TopicPartition) -> bool:
        return at not in self.context.offline_dirs.get(broker, {})

    def picked(
        self, at: TopicPartition, state: PartitionState, strategy: Strategy, unclean: bool
    ) -> tuple[int | None, tuple[int, ...], tuple[int, ...]]:
        """Leader, ISR and recipients of an election."""
        assigned = self.context.replicas(at)
        online = tuple(b for b in assigned if self.serves(b, at))
        reached = tuple(b for b in assigned if b in self.context.live and self.has_disk(b, at))
        able = [b for b in online if b in state.isr]
        match strategy:
            case Strategy.OFFLINE if able or not unclean:
                return (able or [None])[0], tuple(b for b in state.isr if b in online), online
            case Strategy.OFFLINE:
                return (online or (None,))[0], online[:1], online
            case Strategy.PREFERRED:
                return (assigned[0] if assigned[:1] == tuple(able[:1]) else None), state.isr, assigned
            case Strategy.CONTROLLED_SHUTDOWN:
                return (able or [None])[0], tuple(b for b in state.isr if b not in self.context.shutting_down), reached
            case _:
                return (able or [None])[0], state.isr, assigned

    def leader_writes_meanwhile(self, at: TopicPartition, flight: int) -> None:
        """The leader shrinks its ISR to itself at the n-th access of the state machine to the store."""
        flights = iter(range(100))

        def write() -> None:
            state = self.stored(at)
            if next(flights) == flight and state is not None and state.leader >= 0 and at not in self.foreign:
                alone = PartitionState(state.leader, state.leader_epoch, (state.leader,), state.controller_epoch)
                self.bench.write_state(at, alone)
                self.before_ours = alone
                self.told_by_leader.add(at)

        self.bench.before_write = write

    # --- moves -------------------------------------------------------------------------------------------------

    @rule(at=partitions, data=st.data(), strategy=strategies, unclean=st.booleans(), flight=st.integers(0, 4))
    def a_partition_moves(
        self, at: TopicPartition, data: st.DataObject, strategy: Strategy, unclean: bool, flight: int
    ) -> None:
        old = self.context.phase(at)
        legal = [new for new in (ONLINE, OFFLINE, NEW, NON_EXISTENT) if (old, new) in PARTITION_MOVES]
        to = data.draw(st.sampled_from([*legal[:1] * 5, *legal[1:], *PartitionPhase]), "to")
        self.move_partition(at, to, strategy, unclean, flight)

    def move_partition(
        self, at: TopicPartition, to: PartitionPhase, strategy: Strategy, unclean: bool = False, flight: int = -1
    ) -> None:
        """Move it, and compare the result with the model."""
        old = self.context.phase(at)
        self.before_ours = self.stored(at)
        if (old, to) in PARTITION_MOVES:
            self.leader_writes_meanwhile(at, flight)
        self.bench.sent.clear()
        move = self.bench.controller.partitions.move([at], to, strategy, allow_unclean=unclean)
        failed = self.bench.do(move)
        self.bench.before_write = lambda: None

        expected = self.outcome(at, old, to, strategy, unclean)
        before = self.before_ours
        if expected is None:
            assert at in failed and self.context.phase(at) is old
            assert self.stored(at) == before and self.bench.sent == []
            return
        state, told = expected
        assert not failed and self.context.phase(at) is to
        assert self.stored(at) == state
        rows = self.bench.leader_and_isr()
        assert set(rows) == {broker for broker in told if broker in self.context.live}
        for each in rows.values():
            assert (each[at].leader, each[at].leader_epoch, each[at].isr) == (
                state.leader,
                state.leader_epoch,
                state.isr,
            )
            assert each[at].is_new is (old is NEW)
        if to is ONLINE:
            assert sorted(self.bench.metadata()) == sorted(self.context.live)
            self.told_by_leader.discard(at)
            self.unclean += before is not None and state.leader not in before.isr

    def outcome(
        self, at: TopicPartition, old: PartitionPhase, to: PartitionPhase, strategy: Strategy, unclean: bool
    ) -> tuple[PartitionState, tuple[int, ...]] | None:
        """The state after a transition and its recipients; None when the transition must fail."""
        before = self.before_ours
        if (old, to) not in PARTITION_MOVES:
            return None
        if to is not ONLINE:
            return before, ()  # type: ignore[return-value]
        if old is NEW:
            live = tuple(broker for broker in self.context.replicas(at) if self.serves(broker, at))
            return (PartitionState(live[0], 0, live, EPOCH), live) if live and before is None else None
        if before is None or at in self.foreign:
            return None
        leader, isr, told = self.picked(at, before, strategy, unclean and strategy is Strategy.OFFLINE)
        return None if leader is None else (PartitionState(leader, before.leader_epoch + 1, isr, EPOCH), told)

    @rule(at=partitions, index=st.integers(0, 2), data=st.data(), flight=st.integers(0, 4))
    def a_replica_moves(self, at: TopicPartition, index: int, data: st.DataObject, flight: int) -> None:
        place = PLACES[at[1]]
        broker = place[index % len(place)]
        replica = (*at, broker)
        before, old = self.stored(at), self.context.replica_phase(replica)
        legal = [new for new in ReplicaPhase if (old, new) in REPLICA_MOVES]
        to = data.draw(st.sampled_from([*legal * 4, *ReplicaPhase]), "to")
        self.before_ours = before
        in_isr = before is not None and broker in before.isr
        if to is ReplicaPhase.DELETION_STARTED and in_isr:
            return  # only done to whole topics and to those that were removed
        if (old, to) in REPLICA_MOVES:
            self.leader_writes_meanwhile(at, flight)
        known = self.context.leadership.get(at)
        self.bench.sent.clear()
        self.bench.do(self.bench.controller.replicas.move([replica], to))
        self.bench.before_write = lambda: None

        new = self.context.replica_phase(replica)
        leads = known is not None and known.state.leader == broker
        if (old, to) not in REPLICA_MOVES or (to is ReplicaPhase.NEW and leads):
            assert new is old and self.bench.sent == [] and self.stored(at) == before
            return
        assert new is to
        stops, rows = self.bench.stops(), self.bench.leader_and_isr()
        alive = {broker} & set(self.context.live)
        if to is ReplicaPhase.OFFLINE:
            self.check_offline(at, broker, known is not None)
        else:
            assert self.stored(at) == self.before_ours
            assert set(stops) == (alive if to is ReplicaPhase.DELETION_STARTED else set())
            tells = to is ReplicaPhase.NEW or (to is ReplicaPhase.ONLINE and old is not ReplicaPhase.NEW)
            assert set(rows) == (alive if tells and known is not None else set())
            assert all(each[at].is_new is (to is ReplicaPhase.NEW) for each in rows.values())
        assert all(each[at].delete_partition is (to is not ReplicaPhase.OFFLINE) for each in stops.values())
        if to is ReplicaPhase.NON_EXISTENT:
            assert broker not in self.context.replicas(at)
        elif (old, to) == (ReplicaPhase.NEW, ReplicaPhase.ONLINE):
            assert broker in self.context.replicas(at)

    def check_offline(self, at: TopicPartition, broker: int, known: bool) -> None:
        """Removed from the ISR, except for the last member; the epoch rises with a write; the others are informed."""
        before, now = self.before_ours, self.stored(at)
        rows = self.bench.leader_and_isr()
        assert set(self.bench.stops()) == {broker} & set(self.context.live)
        if not known or before is None or at in self.foreign:
            assert now == before and rows == {}
            return
        if broker in before.isr:
            rest = tuple(each for each in before.isr if each != broker) or before.isr
            leader = -1 if before.leader == broker else before.leader
            assert now == PartitionState(leader, before.leader_epoch + 1, rest, EPOCH)
        else:
            assert now == before
        others = {each for each in self.context.replicas(at) if each != broker}
        assert set(rows) == others & set(self.context.live)
        assert all(each[at].leader_epoch == now.leader_epoch for each in rows.values())
        self.told_by_leader.discard(at)

    # --- the world ---------------------------------------------------------------------------------------------

    @rule(broker=brokers)
    def a_broker_comes_or_goes(self, broker: int) -> None:
        if broker in self.context.live:
            self.context.remove_brokers([broker])
            self.context.shutting_down.pop(broker, None)
        else:
            self.context.add_brokers({broker: LiveBroker(100 + broker, f"b{broker}", None)})

    @rule(broker=brokers, unclean=st.booleans())
    def a_broker_dies_and_others_lead(self, broker: int, unclean: bool) -> None:
        led = self.context.leads(broker)
        self.context.remove_brokers([broker])
        self.context.shutting_down.pop(broker, None)
        for at in led:
            self.move_partition(at, OFFLINE, Strategy.OFFLINE)
            self.move_partition(at, ONLINE, Strategy.OFFLINE, unclean)

    @rule(broker=brokers)
    def a_broker_shuts_down(self, broker: int) -> None:
        if broker in self.context.live:
            self.context.shutting_down[broker] = None
            for at in self.context.leads(broker):
                self.move_partition(at, ONLINE, Strategy.CONTROLLED_SHUTDOWN)

    @rule(broker=brokers, at=partitions)
    def a_disk_fails_or_is_mended(self, broker: int, at: TopicPartition) -> None:
        failed = self.context.offline_dirs.setdefault(broker, {})
        if failed.pop(at, "fine") == "fine":
            failed[at] = None

    @rule(at=partitions, more=st.booleans())
    def a_leader_changes_its_isr(self, at: TopicPartition, more: bool) -> None:
        state = self.stored(at)
        if state is None or state.leader < 0 or at in self.foreign:
            return
        isr = tuple(dict.fromkeys((*state.isr, *self.context.replicas(at)))) if more else (state.leader,)
        self.bench.write_state(at, PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch))
        self.told_by_leader.add(at)

    @precondition(lambda self: not self.foreign)
    @rule(at=partitions)
    def a_later_controller_writes(self, at: TopicPartition) -> None:
        state = self.stored(at)
        if state is not None:
            self.bench.write_state(at, PartitionState(state.leader, state.leader_epoch + 1, state.isr, EPOCH + 1))
            self.foreign.add(at)

    # --- what must hold always ---------------------------------------------------------------------------------

    @invariant()
    def states_are_legal(self) -> None:
        """A leader is in its ISR, an ISR within the replicas, and each election is legal."""
        for at in PARTITIONS:
            state = self.stored(at)
            if state is not None:
                assert state.isr and len(set(state.isr)) == len(state.isr)
                assert state.leader in (-1, *state.isr)
                assert set(state.isr) <= set(PLACES[at[1]])

    @invariant()
    def the_books_are_kept(self) -> None:
        """The state in memory is the last written one; offline partitions and unclean elections are counted."""
        for at, known in self.context.leadership.items():
            if at not in self.told_by_leader | self.foreign:
                now = self.stored(at)
                assert now is not None and now.leader_epoch == known.state.leader_epoch
                assert (now.leader, now.isr) == (known.state.leader, known.state.isr)
                assert self.bench.tree.nodes[state_path(*at)].version == known.zk_version
        down = [at for at in PARTITIONS if self.context.phase(at) is OFFLINE]
        assert self.context.offline_partitions == len(down)
        assert self.context.unclean_elections == self.unclean

    @invariant()
    def nothing_is_left_in_the_batch_and_only_the_living_were_told(self) -> None:
        """Only live brokers get requests."""
        self.bench.controller.batch.begin()
        for _, request in self.bench.sent:
            assert (request.controller_epoch, request.broker_epoch // 100) == (EPOCH, 1)


TestStates = States.TestCase
TestStates.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
