"""The control plane under any order of crashes, store faults, leaders' ISR changes and admin work.

Always: leader epochs rise by one with each write of a controller and stay with a leader's. Only the newest controller
writes. A leader is in its ISR, and an ISR is within the replicas (I1 - I3, I12 in the assertions).

At the end, when all brokers are up and no event follows: every partition has a leader. Every broker hosts exactly its
assigned partitions and knows the store's state. No work is left over (Q1 - Q3, Q6 in the assertions).
"""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kemu.actors.controller.rules import RULES, ControllerRules, no_fence
from kemu.protocol.commands import (
    DelayWatches,
    EndStoreFault,
    ExpireSession,
    FreezeSession,
    LoseStoreAnswer,
    RemoveNode,
)
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.control import ControlledShutdown, ElectLeaders
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    ISR_CHANGE_PREFIX,
    ISR_CHANGES,
    PREFERRED_ELECTION,
    PartitionState,
    partition_of_state,
    partitions_data,
    read_state,
    read_topic,
    state_data,
    state_path,
    topic_path,
)
from kemu.protocol.notes.replication import NodeWritten
from tests.actors.controller.control_world import ControlWorld

CONFIG = ControllerConfig(zookeeper_session_timeout_ms=6_000, leader_imbalance_check_interval_seconds=20)
BROKERS = (0, 1, 2)
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(["t", "u"])
PLACES = [(0, 1, 2), (1, 2, 0), (2, 0), (1,)]
places = st.lists(st.sampled_from(PLACES), min_size=1, max_size=3).map(tuple)


class ControlPlane(RuleBasedStateMachine):
    """Three brokers and their world."""

    rules_of_controllers: ControllerRules = RULES

    def __init__(self) -> None:
        super().__init__()
        self.world = ControlWorld(0)
        self.notices = 0
        self.seen = 0
        self.states: dict[TopicPartition, PartitionState] = {}
        self.epoch = 0

    @initialize(rows=places)
    def begin(self, rows: tuple[tuple[int, ...], ...]) -> None:
        """A cluster with a topic."""
        self.world = ControlWorld(3, {"t": rows}, config=CONFIG, rules=self.rules_of_controllers)

    # --- what may happen ---------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 2, 3, 5, 8, 20, 200, 3_000, 9_000]))
    def time_passes(self, ms: int) -> None:
        """From the middle of a procedure to the end of a session."""
        self.world.run(ms)

    @rule(broker=brokers)
    def a_process_dies(self, broker: int) -> None:
        """Both its actors; the session lives on for a while."""
        if self.world.is_up(broker):
            self.world.kill(broker)

    @rule(broker=brokers)
    def a_process_starts(self, broker: int) -> None:
        """With empty memory."""
        if not self.world.is_up(broker):
            self.world.revive(broker)

    @rule(broker=brokers, linger_ms=st.sampled_from([0, 0, 1_000]))
    def a_session_expires(self, broker: int, linger_ms: int) -> None:
        """The former controller learns it later."""
        self.world.tell("zk", ExpireSession(client=f"b{broker}/controller", linger_us=linger_ms * 1_000))

    @rule(broker=brokers, ms=st.sampled_from([500, 3_000, 8_000]))
    def a_session_stands_still(self, broker: int, ms: int) -> None:
        """The session may expire meanwhile."""
        self.world.tell("zk", FreezeSession(client=f"b{broker}/controller", for_us=ms * 1_000))

    @rule(broker=brokers, ms=st.sampled_from([50, 2_000]))
    def watches_come_late(self, broker: int, ms: int) -> None:
        """The next event, and all messages after it."""
        self.world.tell("zk", DelayWatches(client=f"b{broker}/controller", for_us=ms * 1_000))

    @rule(broker=brokers, nth=st.integers(1, 4))
    def an_answer_of_the_store_is_lost(self, broker: int, nth: int) -> None:
        """It may have been executed or not."""
        self.world.tell("zk", LoseStoreAnswer(client=f"b{broker}/controller", nth=nth))

    @rule(broker=brokers, other=st.sampled_from(["zk", "b0", "b1", "b2"]))
    def a_connection_breaks(self, broker: int, other: str) -> None:
        """Of a controller part, to the store or a broker."""
        self.world.break_link(f"b{broker}/controller", other)

    @rule()
    def an_operator_moves_the_office(self) -> None:
        """By removing /controller, while a broker watches it (see test_an_office_vacated_before_anybody_...)."""
        if CONTROLLER in self.world.zk.watches._data:
            self.world.tell("zk", RemoveNode(path=CONTROLLER))

    @rule(topic=topics, rows=places, ms=st.sampled_from([1, 2, 3, 5, 8]))
    def a_controller_is_deposed_in_the_middle_of_work(
        self, topic: str, rows: tuple[tuple[int, ...], ...], ms: int
    ) -> None:
        """It is about to write when its session is frozen, and another broker becomes controller (KAFKA-6082)."""
        active = [broker for broker in BROKERS if self.world.is_up(broker) and self.world.part(broker).is_active]
        self.a_topic_is_created_or_grows(topic=topic, rows=rows)
        self.world.run(ms)
        for broker in active:
            self.a_session_stands_still(broker=broker, ms=3_000)
        self.an_operator_moves_the_office()
        self.world.run(1_000)

    @rule(topic=topics, rows=places)
    def a_topic_is_created_or_grows(self, topic: str, rows: tuple[tuple[int, ...], ...]) -> None:
        """By a tool that writes its node."""
        data = self.world.node(topic_path(topic))
        there = tuple(each.replicas for each in read_topic(data).values()) if data is not None else ()
        if len(there) + len(rows) <= 5:
            self.world.put_topic(topic, *there, *rows)

    @rule(topic=topics)
    def a_topic_is_to_be_deleted(self, topic: str) -> None:
        """By a tool, whether it exists or not."""
        self.world.put(f"{DELETE_TOPICS}/{topic}")

    @rule(topic=topics)
    def a_tool_asks_for_preferred_leaders(self, topic: str) -> None:
        """Through the store."""
        self.world.put(PREFERRED_ELECTION, partitions_data([(topic, 0), (topic, 1)]))

    @rule(sender=brokers, to=brokers, kind=st.sampled_from([0, 1]))
    def an_admin_asks_for_elections(self, sender: int, to: int, kind: int) -> None:
        """Of any broker."""
        self._send(sender, to, ElectLeaders(election_type=kind, topic_partitions=None), 2)

    @rule(broker=brokers, to=brokers)
    def a_broker_asks_for_leave(self, broker: int, to: int) -> None:
        """It may never stop."""
        if self.world.is_up(broker):
            epoch = self.world.broker(broker).broker_epoch
            self._send(broker, to, ControlledShutdown(broker_id=broker, broker_epoch=epoch), 3)

    def _send(self, sender: int, to: int, request: Any, version: int) -> None:
        if self.world.is_up(sender):
            self.world.tell(f"b{sender}", (f"b{to}/controller", request, version))

    @rule(broker=brokers, pick=st.integers(0, 9), shrink=st.booleans())
    def a_leader_changes_its_isr(self, broker: int, pick: int, shrink: bool) -> None:
        """With its known version, which may be outdated."""
        if not self.world.is_up(broker):
            return
        machine = self.world.broker(broker)
        led = [at for at, row in machine.hosted.items() if row.leader == broker]
        if not led:
            return
        at = led[pick % len(led)]
        row = machine.hosted[at]
        node = self.world.zk.tree.nodes.get(state_path(*at))
        if node is None or node.version != row.zk_version:
            return
        in_sync = [each for each in row.replicas if each == broker or self._follows(each, at, row.leader_epoch)]
        isr = (broker,) if shrink else tuple(in_sync)
        state = PartitionState(broker, row.leader_epoch, isr, row.controller_epoch)
        self.world.put(state_path(*at), state_data(state))
        machine.hosted[at] = evolve(row, isr=isr, zk_version=row.zk_version + 1)
        self.world.put(f"{ISR_CHANGE_PREFIX}9{self.notices:09d}", partitions_data([at]))
        self.notices += 1

    def _follows(self, broker: int, at: TopicPartition, epoch: int) -> bool:
        if not self.world.is_up(broker):
            return False
        row = self.world.broker(broker).hosted.get(at)
        return row is not None and row.leader_epoch == epoch

    # --- what must hold always ---------------------------------------------------------------------------------

    @invariant()
    def the_store_tells_a_legal_story(self) -> None:
        """Check every new write, in order."""
        facts = self.world.facts(NodeWritten)
        for fact in facts[self.seen :]:
            self.seen += 1
            at = partition_of_state(fact.path)
            if at is not None:
                self._check_state(at, fact)
            elif fact.path == CONTROLLER_EPOCH and fact.what == "set":
                assert int(fact.data) == self.epoch + 1, "I2: controller epochs go up by one"
                self.epoch = int(fact.data)

    def _check_state(self, at: TopicPartition, fact: Any) -> None:
        if fact.what == "deleted":
            assert self.states.pop(at, None) is not None, f"I1: the unknown state of {at} is deleted"
            return
        state = read_state(fact.data)
        replicas = read_topic(self.world.node(topic_path(at[0])) or b'{"partitions":{}}')
        assert state.isr, "I3: an ISR is never empty"
        assert state.leader in (-1, *state.isr), f"I3: {state}"
        if at[1] in replicas:
            assert set(state.isr) <= set(replicas[at[1]].replicas), f"I3: {state}"
        before = self.states.get(at)
        if fact.client:
            assert state.controller_epoch == self.epoch, f"I2: {fact.client} writes {state} in epoch {self.epoch}"
            assert state.leader_epoch == (0 if before is None else before.leader_epoch + 1), f"I1: {before} {state}"
        else:
            assert before is not None
            assert (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch), "I1: a leader's write"
        self.states[at] = state

    # --- what must be in the end -------------------------------------------------------------------------------

    def teardown(self) -> None:
        """All brokers are up, no event follows: all invariants hold within a minute."""
        world = self.world
        if not world.ids:
            return
        world.tell("zk", EndStoreFault(number=-1))  # lost answers that are still to come would cost 4 s each
        for broker in BROKERS:
            if not world.is_up(broker):
                world.revive(broker)
        world.run(30_000)
        # A broker that requested a shutdown stops now: until then it counts as offline, and deletions wait for it.
        leaving = list(world.active.context.shutting_down)
        for broker in leaving:
            world.kill(broker)
        world.run(9_000)
        for broker in leaving:
            world.revive(broker)
        world.run(30_000)
        self.the_store_tells_a_legal_story()
        active = world.active
        assert sorted(active.context.live) == list(BROKERS)
        for root in (ISR_CHANGES, DELETE_TOPICS):
            assert world.zk.tree.nodes[root].children == {}, f"Q6: left over in {root}"
        assert world.node(PREFERRED_ELECTION) is None, "Q6"
        self._check_brokers()

    def _check_brokers(self) -> None:
        world = self.world
        assigned: dict[int, set[TopicPartition]] = {broker: set() for broker in BROKERS}
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in world.zk.tree.nodes["/brokers/topics"].children:
            for number, assignment in read_topic(world.node(topic_path(topic)) or b"").items():
                at, state = (topic, number), world.state(topic, number)
                assert state.leader in state.isr, f"Q1: {at} {state}"
                leaders[at] = (state.leader, state.leader_epoch)
                for broker in assignment.replicas:
                    assigned[broker].add(at)
        for broker in BROKERS:
            machine = world.broker(broker)
            known = {at: (row.leader, row.leader_epoch) for at, row in machine.metadata.items()}
            if machine.was_out:  # it may have missed that a topic was deleted, and keeps it
                known = {at: row for at, row in known.items() if at in leaders}
            assert known == leaders, f"Q2: b{broker}"
            assert set(machine.hosted) == assigned[broker], f"Q3: b{broker}"
            hosted = {at: (row.leader, row.leader_epoch) for at, row in machine.hosted.items()}
            assert hosted == {at: leaders[at] for at in assigned[broker]}, f"Q2: b{broker}"


def _sweep(machine: type[ControlPlane], most: int, steps: int, *, shrink: bool = True) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=most,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        ),
    )


def test_the_control_plane_under_any_order():
    """All invariants hold in every order of events."""
    _sweep(ControlPlane, 40, 30)


@pytest.mark.soak
def test_the_control_plane_under_any_order_for_long():
    """The same, longer."""
    _sweep(ControlPlane, 1_000, 40)


@pytest.mark.soak
@pytest.mark.parametrize(
    "past",
    [{"fence": no_fence}, {"metadata_before_leadership": False}, {"registers_over_own_former_session": False}],
    ids=["KAFKA-6082", "KAFKA-4443", "KAFKA-7165"],
)
def test_past_bugs_are_found(past: dict[str, Any]):
    """With the old decision an invariant breaks (the other past bugs have tests of their own)."""
    machine = type("WithPastRule", (ControlPlane,), {"rules_of_controllers": evolve(RULES, **past)})
    with pytest.raises(AssertionError):
        _sweep(machine, 300, 40, shrink=False)
