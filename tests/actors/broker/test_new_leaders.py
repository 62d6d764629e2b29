"""The leaders that a broker names in its errors (KIP-951)."""

import pytest

from kemu.actors.broker.new_leaders import NewLeaders
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, FetchedPartition, NewLeader

B2 = BrokerMetadata(node_id=2, host="b2")
NOT_LEADER, FENCED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("believed", "cached", "error", "named"),
    [
        ((2, 7), (1, 6), NOT_LEADER, (2, 7, B2)),
        (None, (2, 6), NOT_LEADER, (2, 6, B2)),
        (None, (1, 6), FENCED, (1, 6, None)),
        ((-1, 7), (2, 6), NOT_LEADER, None),
        (None, (-1, -1), NOT_LEADER, None),
        ((2, 7), (2, 7), ErrorCode.OFFSET_OUT_OF_RANGE, None),
    ],
    ids=["its replica", "no replica here", "a leader that is not live", "no leader", "unknown", "another error"],
)
def test_an_error_names_the_leader_that_the_replica_or_else_the_metadata_cache_knows(believed, cached, error, named):
    """KafkaApis.getCurrentLeader (3.7): the address is that of a live broker."""
    leaders = NewLeaders(lambda topic, partition: believed, lambda topic, partition: cached, {2: B2}.get)
    row = FetchedPartition(topic="t", partition=3, error=error)
    expected = ()
    if named is not None:
        leader, epoch, broker = named
        expected = (NewLeader(topic="t", partition=3, leader_id=leader, leader_epoch=epoch, broker=broker),)

    assert leaders.of((row,)) == expected
