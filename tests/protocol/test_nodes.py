"""Contents of nodes survive encoding and decoding, and paths are Kafka's."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol import nodes
from kemu.protocol.nodes import BadNode, PartitionState, ReplicaAssignment

ids = st.lists(st.integers(0, 9), unique=True, max_size=4).map(tuple)
names = st.text("abc.-_", min_size=1, max_size=5)


@given(leader=st.integers(-1, 9), epoch=st.integers(0, 99), isr=ids, controller=st.integers(0, 99))
def test_a_state_survives_its_node(leader: int, epoch: int, isr: tuple[int, ...], controller: int):
    """Round trip, and Kafka's field names."""
    state = PartitionState(leader, epoch, isr, controller)

    assert nodes.read_state(nodes.state_data(state)) == state
    assert sorted(json.loads(nodes.state_data(state))) == [
        "controller_epoch",
        "isr",
        "leader",
        "leader_epoch",
        "version",
    ]


@given(st.dictionaries(st.integers(0, 20), st.builds(ReplicaAssignment, ids, ids, ids), max_size=12))
def test_an_assignment_survives_its_node_in_order_of_partitions(partitions: dict[int, ReplicaAssignment]):
    """Round trip; numbers, not strings, decide the order."""
    found = nodes.read_topic(nodes.topic_data(partitions, "t-0"))

    assert found == partitions
    assert list(found) == sorted(partitions)


@given(topic=names, partition=st.integers(0, 99))
def test_a_state_path_tells_its_partition(topic: str, partition: int):
    """And no other path is taken for one."""
    assert nodes.partition_of_state(nodes.state_path(topic, partition)) == (topic, partition)
    assert nodes.partition_of_state(nodes.partition_path(topic, partition)) is None
    assert nodes.partition_of_state(nodes.topic_path(topic)) is None


@given(st.lists(st.tuples(names, st.integers(0, 9)), max_size=4), st.dictionaries(names, names, max_size=3))
def test_lists_and_settings_survive_their_nodes(partitions: list[tuple[str, int]], settings: dict[str, str]):
    """ISR notifications, preferred elections, dynamic settings."""
    assert nodes.read_partitions(nodes.partitions_data(partitions)) == tuple(partitions)
    assert nodes.read_config(nodes.config_data(settings.items())) == settings


def test_small_nodes():
    """Controller, epoch, registration with and without rack."""
    assert nodes.read_controller(nodes.controller_data(3, 17)) == 3
    assert nodes.read_epoch(nodes.epoch_data(12)) == 12
    assert nodes.read_broker(nodes.broker_data("b1", None)) == ("b1", None)
    assert nodes.read_broker(nodes.broker_data("b1", "r")) == ("b1", "r")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"7"])
def test_a_node_that_is_not_kafkas_is_one_clear_error(data: bytes):
    """BadNode, whatever the damage."""
    with pytest.raises(BadNode):
        nodes.read_state(data)
    with pytest.raises(BadNode):
        nodes.read_epoch(data + b"x")


def test_an_assignment_tells_where_a_reassignment_began_and_where_it_leads():
    """ControllerContextTest.testReassignTo: the target stands first."""
    assignment = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))

    assert (assignment.target, assignment.origin) == ((4, 5, 6), (1, 2, 3))


def test_a_replica_that_goes_leaves_the_rest_of_a_reassignment_as_it_is():
    """ReplicaStateMachine's move to NonExistentReplica, KIP-455: what else is being added and removed still is."""
    assert ReplicaAssignment((4, 5, 1, 2), (4, 5), (1, 2)).without(1) == ReplicaAssignment((4, 5, 2), (4, 5), (2,))
    assert ReplicaAssignment((4, 5, 1, 2), (4, 5), (1, 2)).without(4) == ReplicaAssignment((5, 1, 2), (5,), (1, 2))
