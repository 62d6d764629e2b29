"""Every scenario of Kafka's own tests of groups has a test here that cites it, the coordinator's and the consumer's."""

from tests.actors.consumer import test_consumer_heartbeat, test_consumer_join, test_consumer_rebalance
from tests.actors.coordinator import (
    test_group_failover,
    test_group_join,
    test_group_offsets,
    test_group_static,
    test_group_sync,
)
from tests.actors.coordinator.scenarios import COVERED, VECTORS

NOT_EMULATED = {"S091": "transactional offset commits: no producer sends them"}

MODULES = (
    test_consumer_heartbeat,
    test_consumer_join,
    test_consumer_rebalance,
    test_group_failover,
    test_group_join,
    test_group_offsets,
    test_group_static,
    test_group_sync,
)


def test_every_scenario_of_kafkas_tests_has_a_test() -> None:
    """tests/vectors/group_scenarios.json, those of the topic "client" too."""
    wanted = [vector["id"] for vector in VECTORS if vector["id"] not in NOT_EMULATED]

    assert len(wanted) > 75
    assert not NOT_EMULATED.keys() & COVERED.keys()
    assert [name for name in wanted if name not in COVERED] == []
    for name in wanted:
        assert all(any(hasattr(module, test) for module in MODULES) for test in COVERED[name])
