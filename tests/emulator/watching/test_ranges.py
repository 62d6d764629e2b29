"""Ranges against a plain set."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.watching.ranges import Ranges

EDGES = st.tuples(st.integers(0, 40), st.integers(0, 12))
STEPS = st.lists(st.one_of(st.tuples(st.just("add"), EDGES), st.tuples(st.just("cut"), EDGES)), max_size=25)


@given(steps=STEPS, asked=EDGES)
def test_ranges_answer_as_a_set_of_numbers_would(steps, asked):
    """The model: a Python set."""
    ranges, model = Ranges(), set()
    for kind, (first, length) in steps:
        if kind == "add":
            numbers = set(range(first, first + length))
            assert ranges.add(first, first + length) == len(model & numbers)
            model |= numbers
        else:
            kept = {number for number in model if number < first}
            assert ranges.truncate(first) == len(model - kept)
            model = kept

    listed = list(ranges)
    assert {number for first, last in listed for number in range(first, last)} == model
    assert all(before[1] < after[0] for before, after in pairwise(listed))
    assert ranges.total == len(model)
    first, length = asked
    missing = [number for low, high in ranges.gaps(first, first + length) for number in range(low, high)]
    assert missing == [number for number in range(first, first + length) if number not in model]
    assert ranges.end_below(first) == max([number + 1 for number in model if number < first], default=0)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8), st.integers(0, 40), st.integers(0, 40))
def test_ranges_give_what_is_taken_out_of_them(added: list[tuple[int, int]], first: int, last: int) -> None:
    ranges, numbers = Ranges(), set()
    for start, end in added:
        ranges.add(start, end)
        numbers |= set(range(start, end))
    taken = {number for start, end in ranges.remove(first, last) for number in range(start, end)}

    assert taken == numbers & set(range(first, last))
    assert {number for start, end in ranges for number in range(start, end)} == numbers - taken
