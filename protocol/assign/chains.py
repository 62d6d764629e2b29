"""Balancing and stickiness by chains: moves that only pay together.

When every pool is level (protocol.assign.leveling) a heavy member may still be relieved through a third one: A
passes a partition to B, which is hardly lighter, and B one of another topic to C, which is lighter by two than A.
``relieve`` looks for such chains until there are none, and then the sum of the squared loads is the smallest
possible: the classical argument for flows with convex costs, that whoever is not optimal has an improving path. The
least sum of squares is also the least balance score (protocol.assign.levels has the argument).

``send_home`` then looks for chains that keep the sizes and bring a partition back to its owner. It looks at chains that
cost nothing on the way, within a budget of work, so it finds most of what can be saved, and not provably all.
"""

from collections import deque
from collections.abc import Sequence

from attrs import define, field

from protocol.assign.leveling import Pool, step_bound

HOME_BUDGET = 200_000
"""How many (member, pool) pairs ``send_home`` looks at in any case."""
HOME_PASSES = 40
"""And how many times all of them, in large groups."""
MOST_DISTURBED = 2
"""How many owners a way home may disturb before it repays them."""


@define
class _Web:
    """Who can pass something to whom. ``places``: per member (pool, place in it) for each pool it subscribes to."""

    pools: Sequence[Pool]
    loads: list[int]
    keep_owned: bool
    places: list[list[tuple[int, int]]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.places = [[] for _ in self.loads]
        for index, pool in enumerate(self.pools):
            if len(pool.members) > 1:
                for place, member in enumerate(pool.members):
                    self.places[member].append((index, place))

    def shift(self, source: int, links: dict[int, tuple[int, int, int, int]]) -> None:
        """Move one partition along each link from the source on, to the end of the chain."""
        member = source
        while member in links:
            index, giver, taker, onward = links[member]
            pool = self.pools[index]
            assert pool.count[giver] > 0, "a link without a partition to pass on"
            pool.count[giver] -= 1
            pool.count[taker] += 1
            member = onward
        self.loads[source] -= 1
        self.loads[member] += 1


def relieve(pools: Sequence[Pool], loads: list[int], keep_owned: bool) -> int:
    """Pass partitions along chains while that improves the balance; the result cannot be improved by any.

    Works upwards from the lightest members: all that can pass something to them, directly or not, are either heavier by
    at most one, and then settled for good with everything they can take, or a chain is found.

    Args:
        pools: changed in place.
        loads: per member how many partitions it holds in all pools; changed in place.
        keep_owned: leave owners what they hold of their own.

    Returns:
        How many chains were used; at most ``step_bound`` of the loads at the start.
    """
    if not loads or max(loads) - min(loads) <= 1:
        return 0
    bound = step_bound(loads)
    web = _Web(pools, loads, keep_owned)
    open_members = dict.fromkeys(range(len(loads)))
    open_pools = bytearray(b"\x01") * len(pools)
    chains = 0
    while open_members:
        lowest = min(loads[member] for member in open_members)
        targets = [member for member in open_members if loads[member] == lowest]
        found, links, seen_members, seen_pools = _upstream(web, targets, open_members, open_pools)
        if found is not None:
            web.shift(found, links)
            chains += 1
            assert chains <= bound, "chains ran past their bound"
            continue
        for member in seen_members:
            del open_members[member]
        for index in seen_pools:
            open_pools[index] = 0
    return chains


def _upstream(
    web: _Web, targets: Sequence[int], open_members: dict[int, None], open_pools: bytearray
) -> tuple[int | None, dict[int, tuple[int, int, int, int]], list[int], list[int]]:
    """Search from the lightest members against the direction of passing on, fewest owners disturbed first.

    Returns:
        A member heavier by two than the target its links lead to, or None; the links; what was seen.
    """
    enough = web.loads[targets[0]] + 2
    links: dict[int, tuple[int, int, int, int]] = {}
    seen = dict.fromkeys(targets)
    seen_pools: list[int] = []
    visited = bytearray(len(web.pools))
    front: deque[tuple[int, int, int, int, int] | int] = deque(targets)
    while front:
        entry = front.popleft()
        if isinstance(entry, tuple):
            member, *link = entry
            if member in seen:
                continue
            seen[member] = None
            links[member] = (link[0], link[1], link[2], link[3])
            if web.loads[member] >= enough:
                return member, links, [], []
        else:
            member = entry
        for index, taker in web.places[member]:
            if visited[index] or not open_pools[index]:
                continue
            visited[index] = 1
            seen_pools.append(index)
            pool = web.pools[index]
            for giver, other in enumerate(pool.members):
                if pool.count[giver] and other not in seen and other in open_members:
                    if pool.count[giver] > pool.own[giver]:
                        front.appendleft((other, index, giver, taker, member))
                    elif not web.keep_owned:
                        front.append((other, index, giver, taker, member))
    return None, links, list(seen), seen_pools


def send_home(pools: Sequence[Pool], loads: list[int]) -> int:
    """Bring partitions back to their owners where sizes stay as they are, up to their order.

    Returns:
        How many partitions are fewer away from their owners; at most as many as were.
    """
    web = _Web(pools, loads, keep_owned=False)
    budget = max(HOME_BUDGET, HOME_PASSES * sum(len(places) for places in web.places))
    saved = 0
    for index, pool in enumerate(pools):
        for place in range(len(pool.members)):
            while pool.count[place] < pool.own[place] and budget > 0:
                search = _WayHome(web, index, place)
                found = search.run(budget)
                budget -= search.work
                if not found:
                    break
                saved += 1
    return saved


@define
class _WayHome:
    """The search for what an owner can pass on, to take back one of its own and be as heavy as before.

    The owner gains one; everybody it disturbs on the way costs one, and everybody else who gets one of its own back
    pays for one. The search ends at a member that gives one of the owner's home and so stays as heavy as it is, or
    that is lighter by one than such a member, which then takes its place. ``cost``: member -> owners disturbed on
    the way there less those repaid.
    """

    web: _Web
    home: int
    place: int
    work: int = 0
    cost: dict[int, int] = field(init=False)
    links: dict[int, tuple[int, int, int, int]] = field(init=False, factory=dict)

    @property
    def owner(self) -> int:
        """Whose partition is to come home."""
        return self.web.pools[self.home].members[self.place]

    def run(self, budget: int) -> bool:
        """Find a way and take it; False when there is none that pays, or not within the budget."""
        loads = self.web.loads
        pool = self.web.pools[self.home]
        givers = {one: at for at, one in enumerate(pool.members) if pool.count[at] > pool.own[at]}
        by_load = {loads[one]: at for one, at in reversed(givers.items())}
        self.work += len(pool.members)
        self.cost = {self.owner: 0}
        reached = {self.home: -len(loads)}
        queue = deque([self.owner])
        while queue and self.work < budget:
            member = queue.popleft()
            giver = givers.get(member, by_load.get(loads[member] + 1))
            if giver is not None and self.cost[member] <= 0:
                self._take(giver, member)
                return True
            for index, at in self.web.places[member]:
                self._pass_on(member, index, at, reached, queue)
        return False

    def _pass_on(self, member: int, index: int, at: int, reached: dict[int, int], queue: deque[int]) -> None:
        """Look at what follows when the member passes on a partition of one pool."""
        pool = self.web.pools[index]
        if not pool.count[at]:
            return
        disturbed = self.cost[member] + (pool.count[at] <= pool.own[at])
        if disturbed > MOST_DISTURBED or disturbed >= reached.get(index, MOST_DISTURBED + 1):
            return
        reached[index] = disturbed
        self.work += len(pool.members)
        for taker, other in enumerate(pool.members):
            cost = disturbed - (pool.count[taker] < pool.own[taker])
            if cost < self.cost.get(other, MOST_DISTURBED + 1) and not self._before(other, member):
                self.cost[other] = cost
                self.links[other] = (index, at, taker, member)
                queue.append(other)

    def _before(self, one: int, member: int) -> bool:
        """Whether the way to ``member`` leads through ``one``."""
        while member != one and member in self.links:
            member = self.links[member][3]
        return member == one

    def _take(self, giver: int, last: int) -> None:
        """Move one partition home, and one along each link from the owner to the last member."""
        pool = self.web.pools[self.home]
        pool.count[giver] -= 1
        pool.count[self.place] += 1
        self.web.loads[pool.members[giver]] -= 1
        self.web.loads[last] += 1
        member = last
        while member in self.links:
            index, at, taker, member = self.links[member]
            self.web.pools[index].count[at] -= 1
            self.web.pools[index].count[taker] += 1
        assert member == self.owner, "the way home does not start at its owner"
