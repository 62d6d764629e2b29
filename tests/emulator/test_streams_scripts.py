"""Random lives of Streams applications in both loops, and Kafka's convergence test on running instances: samples.

``python -m tests.soak_streams`` runs as many as one likes.
"""

import pytest

from tests.soak_streams import (
    Convergence,
    cluster,
    converges,
    one_convergence,
    one_convergence_of_learners,
    one_script,
)

OUTSIDE_ITS_BAND = [154, 210, 250]
"""A tolerance and weights: somebody was outside its band where no move evened loads out."""

STATELESS_BY_WEIGHT = [280]
"""Tasks without state were as even as the assignor makes them, and not a fair share rounded up or down."""


@pytest.mark.parametrize("seed", [1, 4, 10, *OUTSIDE_ITS_BAND, *STATELESS_BY_WEIGHT])
def test_a_random_life_breaks_nothing_and_comes_to_rest_the_same_in_both_loops(seed: int) -> None:
    """KIP-429 v99, stages 1 to 4: joins, crashes, leaders that crash, instances that leave or stay after all."""
    assert one_script(seed) == ("holds", "")


def joins(count: int) -> tuple[dict[str, object], ...]:
    return tuple({"at": "40s", "do": "add-members", "group": "app"} for _ in range(count))


ADD_A_CLIENT = cluster(7, 11, 1, 2, 0, joins(1), 40 + 4 * 6 + 20)
DROP_THE_FIRST = cluster(
    11, 13, 7, 2, 0, [{"at": "40s", "do": "crash", "host": "c1", "mode": "process"}], 40 + 4 * 8 + 30
)
CASES = {
    "one client, one task with state and one without": Convergence(cluster(1, 1, 1, 2, 0, (), 40), (0,), 1),
    "a client is added to one with 7 + 11 tasks": Convergence(ADD_A_CLIENT, (40,), 11 // 2 + 1),
    "the first of seven with 11 + 13 tasks is dropped": Convergence(DROP_THE_FIRST, (40,), 13 // 2 + 2),
}
"""``TaskAssignorConvergenceTest`` (3.4), with its bounds."""


@pytest.mark.parametrize("name", CASES)
def test_the_high_availability_assignor_converges_within_kafka_s_bound(name: str) -> None:
    """Two warm-ups at a time: the application is even after so many probing rebalances at most, and needs no more."""
    assert converges(CASES[name], seed=1) == ("holds", "")


@pytest.mark.parametrize("seed", [2, 6])
def test_clients_that_come_and_go_at_random_converge(seed: int) -> None:
    """``randomClusterPerturbationsShouldConverge``: within 2 * (tasks with state + their standbys) after each event."""
    assert one_convergence(seed) == ("holds", "")


@pytest.mark.parametrize("seed", [2, 6])
def test_learners_converge_within_the_same_bound(seed: int) -> None:
    """KIP-429's page: as many rebalances of learners that are ready, and then tasks of each kind are even."""
    assert one_convergence_of_learners(seed) == ("holds", "")
