"""Every coordinator scenario of Kafka's own tests has a test here that cites it."""

from tests.actors.coordinator import (
    test_group_failover,
    test_group_join,
    test_group_offsets,
    test_group_static,
    test_group_sync,
)
from tests.actors.coordinator.scenarios import COVERED, VECTORS

NOT_EMULATED = {"S091": "transactional offset commits: no producer sends them"}

MODULES = (test_group_failover, test_group_join, test_group_offsets, test_group_static, test_group_sync)


def test_every_coordinator_scenario_has_a_test() -> None:
    """tests/vectors/group_scenarios.json; the topic "client" is the consumer's."""
    wanted = [vector["id"] for vector in VECTORS if vector["topic"] != "client" and vector["id"] not in NOT_EMULATED]

    assert len(wanted) > 70
    assert not NOT_EMULATED.keys() & COVERED.keys()
    assert [name for name in wanted if name not in COVERED] == []
    for name in wanted:
        assert all(any(hasattr(module, test) for module in MODULES) for test in COVERED[name])
