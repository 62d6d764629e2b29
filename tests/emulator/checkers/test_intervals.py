"""Intervals against a plain set."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from emulator.checkers.intervals import Intervals

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(added=RANGES, asked=st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_gaps_are_what_a_set_of_numbers_lacks(added, asked):
    intervals, numbers = Intervals(), set()
    for first, last in added:
        intervals.add(first, last)
        numbers |= set(range(first, last))

    gaps = intervals.gaps(*asked)

    assert {number for first, last in gaps for number in range(first, last)} == set(range(*asked)) - numbers
    assert all(first < last for first, last in gaps)
    assert all(before[1] < after[0] for before, after in pairwise(gaps))
