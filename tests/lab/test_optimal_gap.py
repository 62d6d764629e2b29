"""The bench's comparison of ``sticky`` with ``optimal``."""

from random import Random

from lab.bench.optimal_gap import OPTIMAL, optimal_gap, random_group
from tests.protocol.assign.certificate import certify


def test_the_same_seed_gives_the_same_figures():
    """Figures in a report can be repeated."""
    first = optimal_gap(cases=60, seed=3)

    assert first == optimal_gap(cases=60, seed=3)
    assert first != optimal_gap(cases=60, seed=4)
    assert first["cases"] == 60
    assert first["compared_moves"] == 60 - first["score"]["worse_cases"]


def test_the_yardstick_of_the_comparison_is_certified_in_its_own_cases():
    """What ``sticky`` is measured against is the optimum, by a judge that shares no code with it."""
    random = Random(0)
    for _ in range(60):
        group = random_group(random)
        assert certify(group.topics, group.members, OPTIMAL.assign(group.topics, group.members)) is None
