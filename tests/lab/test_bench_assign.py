"""The bench of the assignors: that it measures what it says."""

import pytest

from kemu.protocol.assign.sticky import STICKY
from lab.bench.assign import BenchCase, changes, measure
from lab.bench.groups import SHAPES
from lab.bench.other_clients import CLIENTS, understood

# kafka-python reads its message schemas in a way Python 3.11 deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.usefixtures("few_objects")]


def test_the_shapes_are_those_of_kafkas_large_tests() -> None:
    """AbstractStickyAssignorTest: uniform, one with another subscription, two halves; and random subscriptions."""
    groups = {name: shape(8, 5, 12) for name, shape in SHAPES.items()}

    assert all(group.partitions == 40 and len(group.members) == 12 for group in groups.values())
    kinds = {name: len({one.topics for one in group.members.values()}) for name, group in groups.items()}
    assert kinds["uniform"] == 1
    assert kinds["odd-one"] == kinds["halves"] == 2
    assert kinds["mixed"] > 6
    assert SHAPES["mixed"](8, 5, 12) == groups["mixed"]


def test_other_clients_get_what_members_own_and_the_group_changes_by_one_member() -> None:
    """A client that cannot read the previous assignment would be measured on an easier problem."""
    situations = dict(changes(BenchCase("mixed", 6, 4, 6), STICKY))

    assert {name: len(group.members) for name, group in situations.items()} == {"fresh": 6, "leave": 5, "join": 7}
    for name, client in CLIENTS.items():
        assert understood(situations["join"], name)
        assert client(situations["join"])()


def test_a_quick_run_has_every_kind_of_figure() -> None:
    """``python -m lab.bench assign --quick``."""
    said: list[str] = []

    figures = measure(said.append, quick=True)

    assert said
    assert {key.partition(".")[0] for key in figures} == {"clients", "java", "growth", "optimal_gap", "peak_memory_mib"}
    assert all(value >= 0 for value in figures.values())
    assert figures["optimal_gap.cases"] == 100
