"""Balancing by counts: the number of partitions of each kind for every member.

Partitions with the same subscribers are interchangeable; such a group is one ``Pool``. So this module never looks at
single partitions: the state is each member's count in every pool. One step levels one pool as far as the loads from
other pools allow. When every pool is level, no move of a partition to another of its subscribers improves the balance.
Such an assignment is balanced by KIP-54's definition.

Termination. In each step with a change, a partition moves to a member whose load is lower by at least two. So each such
step lowers the sum of the squared loads by at least 2. The sum is S at the start and never below P * (P // C), so
``step_bound`` is half the difference. ``level`` checks its number of steps against this bound, as do the chains of
protocol.assign.search.chains.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from kemu.protocol.frozen import define


@define
class Pool:
    """Partitions with the same subscribers.

    ``members``: the subscribers, ascending. ``count`` and ``own``: per subscriber, in the same order, its number of
    partitions now, and its number of rightfully owned partitions before.
    """

    members: tuple[int, ...]
    count: list[int]
    own: list[int]

    @property
    def taken(self) -> int:
        """The number of partitions that their owners no longer hold."""
        return sum(own - count for own, count in zip(self.own, self.count, strict=True) if own > count)


def step_bound(loads: Sequence[int]) -> int:
    """The largest number of steps that can improve the balance, starting from these loads."""
    partitions = sum(loads)
    least = partitions * (partitions // len(loads)) if loads else 0
    return (sum(load * load for load in loads) - least) // 2


def level(pools: Sequence[Pool], loads: list[int], keep_owned: bool) -> int:
    """Level all pools, repeatedly, until no pool can be improved.

    Args:
        pools: the pools, changed in place.
        loads: per member the number of its partitions in all pools; changed in place.
        keep_owned: move only partitions that are not at their owners.

    Returns:
        The number of steps with a change; at most ``step_bound`` of the loads at the start.
    """
    if not loads or max(loads) - min(loads) <= 1:
        return 0
    bound = step_bound(loads)
    steps = 0
    waiting = [pool for pool in pools if len(pool.members) > 1]
    while True:
        changed = [pool for pool in waiting if _level_one(pool, loads, keep_owned)]
        steps += len(changed)
        assert steps <= bound, "leveling ran past its bound"
        if not changed:
            return steps


def _level_one(pool: Pool, loads: list[int], keep_owned: bool) -> bool:
    """Level one pool; returns whether a count changed."""
    members, count, own = pool.members, pool.count, pool.own
    here = [loads[member] for member in members]
    fixed = [min(pair) for pair in zip(own, count, strict=True)] if keep_owned else [0] * len(members)
    low = min(here)
    if all(load <= low + 1 or held <= stays for load, held, stays in zip(here, count, fixed, strict=True)):
        return False
    floors = [load - held + stays for load, held, stays in zip(here, count, fixed, strict=True)]
    moving = sum(count) - sum(fixed)
    after = _pour(floors, moving, lambda place, total: _preference(pool, place, total - floors[place] + fixed[place]))
    for place, member in enumerate(members):
        count[place] = after[place] - floors[place] + fixed[place]
        loads[member] = after[place]
    return True


def _preference(pool: Pool, place: int, without: int) -> tuple[bool, bool]:
    """The sort key for the odd partitions: members that would keep an owned partition first, then members that hold the
    partition now.
    """
    return (pool.own[place] <= without, pool.count[place] <= without)


def _pour(floors: Sequence[int], amount: int, preference: Callable[[int, int], tuple[bool, bool]]) -> list[int]:
    """Raise the lowest floors by ``amount`` in all, as evenly as possible.

    ``preference`` orders the members for the odd partitions.
    """
    order = sorted(range(len(floors)), key=floors.__getitem__)
    sums = list(accumulate(floors[place] for place in order))
    reached = len(order)
    while reached > 1 and floors[order[reached - 1]] * reached - sums[reached - 1] > amount:
        reached -= 1
    height, odd = divmod(sums[reached - 1] + amount, reached)
    after = list(floors)
    for place in order[:reached]:
        after[place] = height
    if odd:
        candidates = [place for place in order if floors[place] <= height]
        candidates.sort(key=lambda place: (*preference(place, height), place))
        for place in candidates[:odd]:
            after[place] = height + 1
    return after
