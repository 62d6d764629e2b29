"""Balance and stickiness by chains of moves that improve the assignment only together.

When every pool is level (protocol.assign.search.leveling), a chain of moves may still improve the balance. A heavy
member A passes a partition to a member B with about the same load. B passes a partition of another topic to a member C,
whose load is lower than A's by two. ``relieve`` applies such chains until no chain improves the balance. The sum of the
squared loads is minimal at the end. All flows with convex costs have this property: a flow that is not optimal has an
improving path. The least sum of squares is also the least balance score (protocol.assign.search.levels has the
argument).

``return_to_owners`` then looks for chains that keep the sizes and return a partition to its owner. The function
searches chains without intermediate cost, within a budget of work. So the function finds most possible returns, but not
always all.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from attrs import field

from kemu.protocol.assign.search.leveling import Pool, step_bound
from kemu.protocol.frozen import define

RETURN_SEARCHES = ((0, 100_000, 10), (2, 20_000, 1))
"""The searches of ``return_to_owners``: (most owners that may lose a partition on the way, least budget, budget per
pair).

The budget is a number of (member, pool) pairs to examine. The larger of the least budget and the budget per pair
applies.
"""

Link: TypeAlias = tuple[int, int, int, int]
"""(pool, index of the giver in the pool, index of the taker, the member at the other end)."""


@define
class _Web:
    """The possible moves. ``places``: per member (pool, index in the pool) for each pool of the member."""

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

    def shift(self, source: int, links: dict[int, Link]) -> None:
        """Move one partition along each link, from the source to the end of the chain."""
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
    """Pass partitions along chains while a chain improves the balance; no chain can improve the result.

    The function starts with the lightest members and continues upwards. The function examines all members that can pass
    partitions to the lightest members, directly or not. Either a chain is found, or these members are heavier by at
    most one, and then their loads are final.

    Args:
        pools: the pools, changed in place.
        loads: per member the number of its partitions in all pools; changed in place.
        keep_owned: do not move partitions away from their owners.

    Returns:
        The number of chains applied; at most ``step_bound`` of the loads at the start.
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
) -> tuple[int | None, dict[int, Link], list[int], list[int]]:
    """Search from the lightest members against the direction of the moves, with the fewest affected owners first.

    Returns:
        A member whose links lead to a target that is lighter by two, or None; the links; the examined members and
        pools.
    """
    enough = web.loads[targets[0]] + 2
    links: dict[int, Link] = {}
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


def return_to_owners(pools: Sequence[Pool], loads: list[int]) -> int:
    """Return partitions to their owners; sizes do not change, except for their order.

    Returns:
        The decrease in the number of partitions away from their owners.
    """
    web = _Web(pools, loads, keep_owned=False)
    edges = sum(len(places) for places in web.places)
    deficits = _Deficits(web)
    return sum(
        _return_all(web, deficits, most_disturbed, max(least, passes * edges))
        for most_disturbed, least, passes in RETURN_SEARCHES
    )


def _return_all(web: _Web, deficits: "_Deficits", most_disturbed: int, budget: int) -> int:
    """Search chains for every owner with fewer partitions than it owned, repeatedly while a search succeeds."""
    saved = 0
    for owner in range(len(web.loads)):
        while budget > 0 and any(deficits.is_short(index, place) for index, place in web.places[owner]):
            search = _ReturnSearch(web, deficits, owner, most_disturbed)
            gain = search.run(budget)
            budget -= search.work
            if not gain:
                break
            saved += gain
    return saved


@define
class _Deficits:
    """Per pool the members with fewer partitions than they owned, and the members with more."""

    web: _Web
    short: list[list[int]] = field(init=False)
    spare: list[list[int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.short = [[] for _ in self.web.pools]
        self.spare = [[] for _ in self.web.pools]
        for index in range(len(self.web.pools)):
            self.recount(index)

    def is_short(self, index: int, place: int) -> bool:
        pool = self.web.pools[index]
        return pool.count[place] < pool.own[place]

    def recount(self, index: int) -> None:
        """Compute one pool's lists again after a change."""
        pairs = list(zip(self.web.pools[index].count, self.web.pools[index].own, strict=True))
        self.short[index] = [place for place, (count, own) in enumerate(pairs) if count < own]
        self.spare[index] = [place for place, (count, own) in enumerate(pairs) if count > own]


@define
class _ReturnSearch:
    """The search for a chain of moves that returns a partition to its owner.

    The owner gains a partition that it owned before. Each owner that loses a partition adds one to the cost of the
    chain. Each other member that gains a partition that it owned reduces the cost by one. The search ends at a member
    that returns a partition to the owner, and so keeps its load. Or the search ends at a member whose load is lower by
    one; this member and the returning member exchange their loads. ``cost``: member -> the cost of the chain up to the
    member. ``work``: the number of examined (member, pool) pairs.
    """

    web: _Web
    deficits: _Deficits
    owner: int
    most_disturbed: int
    work: int = 0
    cost: dict[int, int] = field(init=False)
    links: dict[int, Link] = field(init=False, factory=dict)

    def run(self, budget: int) -> int:
        """Find and apply a chain; returns the number of returned partitions, 0 without a useful chain within the
        budget.
        """
        loads = self.web.loads
        givers = self._givers()
        by_load = {loads[member]: home for member, home in reversed(givers.items())}
        self.cost = {self.owner: 0}
        reached: dict[int, int] = {}
        queue = deque([self.owner])
        while queue and self.work < budget:
            member = queue.popleft()
            home = givers.get(member, by_load.get(loads[member] + 1))
            if home is not None and self.cost[member] <= 0:
                return self._take(home, member)
            if not self.most_disturbed and member == self.owner and not self._holds_others():
                # The owner could pass on only partitions that it owned. A search that starts at another owner finds any
                # chain by which that owner gains.
                return 0
            self.work += len(self.web.places[member])
            for index, place in self.web.places[member]:
                if self.web.pools[index].count[place]:
                    self._pass_on(member, index, place, reached, queue)
        return 0

    def _holds_others(self) -> bool:
        places = self.web.places[self.owner]
        return any(self.web.pools[index].count[place] > self.web.pools[index].own[place] for index, place in places)

    def _givers(self) -> dict[int, Link]:
        """Members that could return a partition to the owner, each with the link of this return. Such a member
        has more partitions of a pool than it owned, and the owner lacks some.
        """
        givers: dict[int, Link] = {}
        for index, place in self.web.places[self.owner]:
            if self.deficits.is_short(index, place):
                members = self.web.pools[index].members
                self.work += len(self.deficits.spare[index])
                for giver in self.deficits.spare[index]:
                    givers.setdefault(members[giver], (index, giver, place, self.owner))
        return givers

    def _pass_on(self, member: int, index: int, at: int, reached: dict[int, int], queue: deque[int]) -> None:
        """Extend the search by one pool: the member passes on a partition of the pool."""
        pool = self.web.pools[index]
        disturbed = self.cost[member] + (pool.count[at] <= pool.own[at])
        if disturbed >= reached.get(index, self.most_disturbed + 2):
            return
        reached[index] = disturbed
        # Beyond the limit, only a taker that owned partitions of the pool is useful, as it reduces the cost at once.
        takers = range(len(pool.members)) if disturbed <= self.most_disturbed else self.deficits.short[index]
        self.work += len(takers)
        for taker in takers:
            other = pool.members[taker]
            cost = disturbed - (pool.count[taker] < pool.own[taker])
            if cost < self.cost.get(other, self.most_disturbed + 1) and not self._before(other, member):
                self.cost[other] = cost
                self.links[other] = (index, at, taker, member)
                queue.append(other)

    def _before(self, one: int, member: int) -> bool:
        """Whether the path to ``member`` leads through ``one``."""
        while member != one and member in self.links:
            member = self.links[member][3]
        return member == one

    def _take(self, home: Link, last: int) -> int:
        """Move one partition to the owner, and one along each link from the owner to the last member.

        A chain may use the same partition in two links: one link returns the partition, another link passes it on. A
        chain without a gain is reverted.
        """
        way = [home]
        member = last
        while member in self.links:
            way.append(self.links[member])
            member = self.links[member][3]
        assert member == self.owner, "the path does not start at its owner"
        gain = sum(self._move(index, giver, taker) for index, giver, taker, _ in way)
        if gain <= 0:
            for index, giver, taker, _ in reversed(way):
                self._move(index, taker, giver)
            return 0
        for index, *_ in way:
            self.deficits.recount(index)
        self.web.loads[self.web.pools[home[0]].members[home[1]]] -= 1
        self.web.loads[last] += 1
        return gain

    def _move(self, index: int, giver: int, taker: int) -> int:
        """Move one partition of a pool; returns the change in the number of partitions at their owners (-1, 0 or 1)."""
        pool = self.web.pools[index]
        gain = (pool.count[taker] < pool.own[taker]) - (pool.count[giver] <= pool.own[giver])
        pool.count[giver] -= 1
        pool.count[taker] += 1
        return gain
