"""Reassignment up to Kafka 2.3, and the node with its requests, which later controllers support, too.

Mirrors Kafka 2.3's ControllerIntegrationTest.testPartitionReassignment* and ReassignPartitionsClusterTest; of 2.4
ReassignPartitionsClusterTest.should*Znode*.
"""

import pytest
from attrs import evolve

from kemu.actors.controller.rules import RULES
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import AlterPartitionReassignments, ListPartitionReassignments, NewReplicas
from kemu.protocol.nodes import (
    REASSIGN_PARTITIONS,
    PartitionState,
    ReplicaAssignment,
    read_topic,
    state_data,
    state_path,
    topic_path,
)
from kemu.protocol.notes.replication import NodeWritten, ReassignmentStarted, StateChangeRefused
from kemu.protocol.replication import ReassignmentAlgorithm
from tests.actors.controller.test_reassignment import Moves

AT_ONCE = evolve(RULES, reassignment=ReassignmentAlgorithm.ALL_AT_ONCE)


class AtOnce(Moves):
    """Reassignments under controllers of 2.3; the test acts as the leaders."""

    def __init__(self, brokers: int, *rows: tuple[int, ...]) -> None:
        super().__init__(brokers, *rows, rules=AT_ONCE)

    def join(self, *brokers: int, number: int = 0) -> None:
        """The leader takes these into the ISR."""
        state = self.world.state("t", number)
        isr = (*state.isr, *(broker for broker in brokers if broker not in state.isr))
        grown = PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch)
        self.world.put(state_path("t", number), state_data(grown))
        self.world.run(400)

    def written(self, number: int = 0) -> list[ReplicaAssignment]:
        """All values of the topic's node, one after the other."""
        found: list[ReplicaAssignment] = []
        for _, fact in self.world.notes[self.began :]:
            if isinstance(fact, NodeWritten) and fact.path == topic_path("t") and fact.what != "deleted":
                each = read_topic(fact.data)[number]
                if [each] != found[-1:]:
                    found.append(each)
        return found


def test_all_new_replicas_are_there_beside_all_old_ones_then_only_the_new():
    """onPartitionReassignment: OAR + RAR, wait, RAR; no adding or removing lists; the node is deleted last."""
    moves = AtOnce(6, (0, 1, 2))
    before = moves.world.state("t").leader_epoch

    moves.leave_in_store({0: (3, 4, 5)})
    assert moves.assignments == {0: ReplicaAssignment((3, 4, 5, 0, 1, 2))}
    assert moves.world.state("t").leader_epoch == before + 1
    moves.join(3, 4)
    assert len(moves.written()) == 1, "one is missing"
    assert moves.left_in_store() == {("t", 0): (3, 4, 5)}
    moves.join(5)

    assert moves.written() == [ReplicaAssignment((3, 4, 5, 0, 1, 2)), ReplicaAssignment((3, 4, 5))]
    state = moves.world.state("t")
    assert (state.leader, state.isr) == (3, (3, 4, 5))
    assert state.leader_epoch == before + 2 + 3, "an election, and three replicas that leave the ISR one by one"
    assert moves.left_in_store() is None
    assert [moves.world.broker(broker).stopped for broker in (0, 1, 2)] == [{("t", 0): True}] * 3


def test_there_is_no_request_for_it_and_nothing_is_cancelled():
    """AlterPartitionReassignments came with 2.4."""
    moves = AtOnce(2, (0,))
    rows = (NewReplicas(topic_name="t", partition_index=0, replicas=(1,)),)

    asked = moves.world.ask(AlterPartitionReassignments(partitions=rows), 0, sender=moves.up)
    listed = moves.world.ask(ListPartitionReassignments(topic_partitions=None), 0, sender=moves.up)

    assert asked.error_code is listed.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert moves.assignments == {0: ReplicaAssignment((0,))}


def test_what_cannot_be_done_is_struck_out_so_that_the_rest_ends():
    """maybeTriggerPartitionReassignment: "to unblock the tool"; an unknown partition, and one at its target."""
    moves = AtOnce(3, (0, 1), (1, 0))

    moves.leave_in_store({0: (2, 1), 1: (1, 0), 7: (0,)})
    assert moves.left_in_store() == {("t", 0): (2, 1)}
    moves.join(2)

    assert moves.left_in_store() is None
    assert {fact.why for fact in moves.world.facts(StateChangeRefused)} >= {
        "there is no such partition",
        "it is there already",
    }


def test_the_next_list_is_seen_when_the_last_one_is_done():
    """A new watch on the node is set when it is deleted."""
    moves = AtOnce(3, (0,))
    moves.leave_in_store({0: (1,)})
    moves.join(1)

    moves.leave_in_store({0: (2,)})
    moves.join(2)

    assert moves.assignments == {0: ReplicaAssignment((2,))}


def test_a_list_that_nobody_can_read_changes_nothing():
    """The controller notes it, and continues."""
    moves = AtOnce(3, (0,))
    moves.world.put(REASSIGN_PARTITIONS, b'{"partitions": [{"topic": "t"}]}')
    moves.world.run(400)

    assert moves.assignments == {0: ReplicaAssignment((0,))}
    assert any(fact.what == REASSIGN_PARTITIONS for fact in moves.world.facts(StateChangeRefused))


@pytest.mark.parametrize("joined", [(), (3,), (3, 4)])
def test_a_new_controller_finds_the_target_in_the_node_and_goes_on(joined: tuple[int, ...]):
    """OAR is within the list that was written: the steps are repeated, nothing is lost (KAFKA-4214's plan)."""
    moves = AtOnce(5, (0, 1))
    moves.leave_in_store({0: (3, 4)})
    moves.join(*joined[:1])
    dead = moves.world.active.broker_id
    moves.world.kill(dead)
    if joined[1:]:
        moves.join(*joined[1:])
    moves.world.run(10_000)
    moves.world.revive(dead)
    moves.world.run(8_000)
    moves.join(3, 4)

    assert moves.assignments == {0: ReplicaAssignment((3, 4))}
    assert moves.left_in_store() is None


def test_it_waits_for_a_target_that_is_down_and_goes_on_when_it_is_back():
    """testPartitionReassignmentWithOfflineReplicaHaltingProgress, ...ResumesAfterReplicaComesOnline."""
    moves = AtOnce(3, (0,))
    moves.world.kill(2)
    moves.world.run(10_000)

    moves.leave_in_store({0: (2,)})
    assert moves.assignments == {0: ReplicaAssignment((2, 0))}
    moves.world.revive(2)
    moves.world.run(8_000)
    moves.join(2)

    assert moves.assignments == {0: ReplicaAssignment((2,))}


# --- the node under later controllers --------------------------------------------------------------------------------


def test_later_controllers_heed_the_node_and_say_what_comes_and_goes():
    """KIP-455: "the controller continues to watch the znode"; its lists may name brokers that are down."""
    moves = Moves(3, (0, 1))

    moves.leave_in_store({0: (2, 1)})
    assert moves.assignments == {0: ReplicaAssignment((2, 1, 0), (2,), (0,))}
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((2, 1))}
    assert moves.left_in_store() is None


def test_a_request_overrides_the_list_and_strikes_it_out():
    """processApiPartitionReassignment: the latest request counts (KAFKA-9089)."""
    moves = Moves(4, (0, 1))
    moves.leave_in_store({0: (2, 1)})

    assert moves.alter({0: (3, 1)}) == {0: ErrorCode.NONE}
    assert moves.left_in_store() is None
    moves.crash_controller()
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((3, 1))}


def test_a_cancel_strikes_the_list_out_too():
    """Otherwise the next controller would start it again."""
    moves = Moves(4, (0, 1))
    moves.leave_in_store({0: (2, 1)})

    assert moves.alter({0: None}) == {0: ErrorCode.NONE}
    moves.crash_controller()

    assert moves.assignments == {0: ReplicaAssignment((1, 0))}
    assert moves.left_in_store() is None


def test_a_new_controller_lets_the_list_override_what_was_asked_for_by_requests():
    """ReassignPartitionsClusterTest.shouldTriggerReassignmentWithZnodePrecedenceOnControllerStartup."""
    moves = Moves(4, (0, 1))
    moves.alter({0: (2, 1)})
    dead = moves.world.active.broker_id
    moves.world.kill(dead)
    moves.leave_in_store({0: (3, 1)})
    moves.world.run(10_000)
    moves.world.revive(dead)
    moves.world.run(8_000)
    moves.sync_all()

    assert moves.assignments == {0: ReplicaAssignment((3, 1))}
    assert any(fact.resumed for fact in moves.world.facts(ReassignmentStarted))


def test_plain_kip_455_knows_no_limits():
    """As shipped: KIP-435's settings have no effect."""
    moves = Moves(4, (0, 1), rules=evolve(RULES, reassignment=ReassignmentAlgorithm.KIP_455), replica=1)

    moves.alter({0: (2, 3)})

    assert moves.assignments == {0: ReplicaAssignment((2, 3, 0, 1), (2, 3), (0, 1))}
