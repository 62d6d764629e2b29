"""Balancing by counts: how many partitions of each kind every member should hold.

Partitions are interchangeable for balance when the same members may take them; such a group is one ``Pool``. So
nothing here looks at single partitions: the state is how many of each pool every member holds. One step levels one
pool as far as the loads from other pools allow, like water poured into a vessel with an uneven floor. When every pool
is level, no partition can go to another of its subscribers and improve the balance: KIP-54's definition of balanced.

Termination. A step that changes anything lowers the sum of the squared loads by at least 2, because something moves
from a member to one with at least two less. That sum is S at the start and never below P * (P // C), so ``step_bound``
is half the difference. ``level`` counts its steps against it, and so do the chains of protocol.assign.chains.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from attrs import define


@define
class Pool:
    """Partitions with the same subscribers.

    ``members``: the subscribers, ascending. ``count`` and ``own``: per subscriber, in that order, how many it holds
    now and how many it rightfully owned before.
    """

    members: tuple[int, ...]
    count: list[int]
    own: list[int]

    @property
    def taken(self) -> int:
        """How many partitions their owners no longer hold."""
        return sum(own - count for own, count in zip(self.own, self.count, strict=True) if own > count)


def step_bound(loads: Sequence[int]) -> int:
    """The most steps that can improve the balance from these loads on."""
    partitions = sum(loads)
    least = partitions * (partitions // len(loads)) if loads else 0
    return (sum(load * load for load in loads) - least) // 2


def level(pools: Sequence[Pool], loads: list[int], keep_owned: bool) -> int:
    """Level pool after pool, again and again, until none can be improved.

    Args:
        pools: changed in place.
        loads: per member how many partitions it holds in all pools; changed in place.
        keep_owned: leave owners what they hold of their own; only the others' partitions move.

    Returns:
        How many steps changed something; at most ``step_bound`` of the loads at the start.
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
    """Level one pool; whether anything changed."""
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
    """Who should get one of the odd partitions: who would keep one of its own by it, then who holds it now."""
    return (pool.own[place] <= without, pool.count[place] <= without)


def _pour(floors: Sequence[int], amount: int, preference: Callable[[int, int], tuple[bool, bool]]) -> list[int]:
    """Raise the lowest floors by ``amount`` in all, as evenly as can be; ``preference`` says who gets the odd ones
    first.
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
