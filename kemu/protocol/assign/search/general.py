"""Assignment if members subscribe to different topics: KIP-54's algorithm, by counts.

The algorithm has the steps of KIP-54's page. Preserve rightful partitions (1). Assign each partition without an owner
to the least loaded of its subscribers; partitions with the fewest subscribers are first (2). Exclude partitions and
members without a choice from the search (3). Move partitions until no move improves the balance (4). The page also
reverts moves without a gain and adds partitions again (5, 6). Here each move has a gain, so these two steps are
unnecessary.

Partitions with the same subscribers are interchangeable, which makes the algorithm fast. Such partitions form a stock.
Consecutive partitions of a stock are assigned together, by counts alone (protocol.assign.search.leveling). At the end
counts become partitions again: members keep as many of their own partitions as their count allows.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace
from itertools import compress, groupby

from attrs import field

from kemu.protocol.assign.search.chains import relieve, return_to_owners
from kemu.protocol.assign.search.leveling import Pool, level
from kemu.protocol.assign.search.numbering import Numbering
from kemu.protocol.assign.search.racks import NO_RACKS, Racks, RackSet
from kemu.protocol.frozen import define


@define
class _Stock:
    """Interchangeable partitions: the same subscribers and, if racks are used, the same racks.

    ``kept`` and ``dealt``: per subscriber the numbers that it keeps, and the newly assigned numbers.
    """

    members: tuple[int, ...]
    on: RackSet
    kept: list[list[int]] = field(init=False)
    dealt: list[list[int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.kept = [[] for _ in self.members]
        self.dealt = [[] for _ in self.members]

    def place_of(self, member: int) -> int | None:
        """The member's index among the subscribers; None if the member does not subscribe."""
        place = bisect_left(self.members, member)
        return place if place < len(self.members) and self.members[place] == member else None


@define
class _Sharing:
    """The state of one run."""

    numbering: Numbering
    racks: Racks | None
    loads: list[int]
    stocks: list[_Stock]
    stock_of: list[int]
    """Number -> index of the number's stock."""

    def keep(self, held: Sequence[Sequence[int]]) -> None:
        """Preserve each partition whose owner still subscribes to its topic."""
        for member, numbers in enumerate(held):
            by_stock: dict[int, list[int]] = {}
            for number in numbers:
                by_stock.setdefault(self.stock_of[number], []).append(number)
            for index, own in by_stock.items():
                stock = self.stocks[index]
                place = stock.place_of(member)
                if place is not None:
                    stock.kept[place] = own
                    self.loads[member] += len(own)

    def left(self) -> Iterator[int]:
        """The numbers without a member: topics with few subscribers first, then by name, then by number."""
        free = bytearray(b"\x01") * self.numbering.total
        for stock in self.stocks:
            for kept in stock.kept:
                for number in kept:
                    free[number] = 0

        def subscribers(topic: str) -> tuple[int, str]:
            return len(self.stocks[self.stock_of[self.numbering.first[topic]]].members), topic

        for topic in sorted(self.numbering.topics, key=subscribers):
            numbers = self.numbering.of_topic(topic)
            yield from compress(numbers, free[numbers.start : numbers.stop])

    def deal(self, numbers: Sequence[int]) -> None:
        """Assign each number to the least loaded subscriber, in runs of one stock."""
        for index, run in groupby(numbers, key=self.stock_of.__getitem__):
            _deal_run(self.stocks[index], list(run), self.loads)

    def deal_by_rack(self, numbers: Sequence[int]) -> list[int]:
        """Assign each number to the least loaded subscriber on a rack with a replica.

        Returns the numbers without such a subscriber.
        """
        assert self.racks is not None
        lightest: dict[int, list[tuple[int, int]]] = {}
        unplaced = []
        for number in numbers:
            index = self.stock_of[number]
            stock = self.stocks[index]
            heap = lightest.get(index)
            if heap is None:
                near = (place for place, one in enumerate(stock.members) if self.racks.members[one] in stock.on)
                heap = lightest[index] = [(self.loads[stock.members[place]], place) for place in near]
                heapify(heap)
            if not heap:
                unplaced.append(number)
                continue
            # Loads only grow, so an outdated entry is too light: correct entries until the first entry is right.
            while (load := self.loads[stock.members[heap[0][1]]]) != heap[0][0]:
                heapreplace(heap, (load, heap[0][1]))
            place = heap[0][1]
            stock.dealt[place].append(number)
            self.loads[stock.members[place]] += 1
        return unplaced

    def balance(self, keep_owned: bool) -> None:
        """Move partitions while a move improves the balance: first partitions away from their owners, then all
        partitions.
        """
        pools = [
            Pool(
                stock.members,
                [len(kept) + len(dealt) for kept, dealt in zip(stock.kept, stock.dealt, strict=True)],
                [len(kept) for kept in stock.kept],
            )
            for stock in self.stocks
        ]
        changes = level(pools, self.loads, keep_owned=True)
        # A chain moves several partitions to other racks where one move would be enough. So with racks, chains are
        # tried last.
        if self.racks is None or keep_owned:
            changes += relieve(pools, self.loads, keep_owned=True)
        if not keep_owned:
            changes += level(pools, self.loads, keep_owned=False) + relieve(pools, self.loads, keep_owned=False)
        if not keep_owned and self.racks is None:
            changes += return_to_owners(pools, self.loads)
        if changes:
            for stock, pool in zip(self.stocks, pools, strict=True):
                self._apply_counts(stock, pool.count)

    def _apply_counts(self, stock: _Stock, count: Sequence[int]) -> None:
        """Choose the partitions of each member for these counts. A member above its count loses dealt partitions first,
        then its own partitions.

        A member loses its lowest numbers first.
        """
        spare: list[int] = []
        for place, wanted in enumerate(count):
            kept, dealt = stock.kept[place], stock.dealt[place]
            if len(kept) > wanted:
                kept.sort()
                spare += kept[: len(kept) - wanted]
                del kept[: len(kept) - wanted]
            extra = max(0, len(kept) + len(dealt) - wanted)
            spare += dealt[:extra]
            del dealt[:extra]
        spare.sort()
        start = 0
        for place, wanted in enumerate(count):
            missing = wanted - len(stock.kept[place]) - len(stock.dealt[place])
            stock.dealt[place] += spare[start : start + missing]
            start += missing
        assert start == len(spare), "counts and partitions of a stock differ"


def share_out(
    subscribed: Sequence[tuple[str, ...]],
    held: Sequence[Sequence[int]],
    numbering: Numbering,
    racks: Racks | None = None,
    keep_owned: bool = False,
) -> list[list[int]]:
    """The numbers of each member's partitions.

    Args:
        subscribed: per member its topics, by name, without duplicates.
        held: per member the numbers that it rightfully owns.
        numbering: the numbers of all subscribed topics.
        racks: None to ignore racks.
        keep_owned: prefer stickiness to balance: a partition whose owner still subscribes to its topic never moves.

    Returns:
        Per member first the kept numbers, ascending, then the new numbers, in the order of dealing.
    """
    sharing = _start(subscribed, numbering, racks)
    sharing.keep(held)
    numbers = list(sharing.left())
    if racks is not None:
        numbers = sharing.deal_by_rack(numbers)
    sharing.deal(numbers)
    sharing.balance(keep_owned)
    return _results(sharing, len(subscribed))


def _start(subscribed: Sequence[tuple[str, ...]], numbering: Numbering, racks: Racks | None) -> _Sharing:
    """Sort the partitions into stocks. Members with the same topics are examined once."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for member, topics in enumerate(subscribed):
        alike.setdefault(topics, []).append(member)
    groups = list(alike.items())
    by_topic: dict[str, list[int]] = {topic: [] for topic in numbering.topics}
    for group, (topics, _) in enumerate(groups):
        for topic in topics:
            if topic in by_topic:
                by_topic[topic].append(group)
    stocks: list[_Stock] = []
    index_of: dict[tuple[tuple[int, ...], RackSet], int] = {}
    stock_of: list[int] = []
    for topic in numbering.topics:
        subscribers = tuple(by_topic[topic])
        places = racks.partitions[len(stock_of) :][: numbering.sizes[topic]] if racks else (NO_RACKS,)
        found = []
        for on in places:
            if (subscribers, on) not in index_of:
                index_of[subscribers, on] = len(stocks)
                stocks.append(_Stock(tuple(sorted(one for group in subscribers for one in groups[group][1])), on))
            found.append(index_of[subscribers, on])
        stock_of += found if racks else found * numbering.sizes[topic]
    return _Sharing(numbering, racks, [0] * len(subscribed), stocks, stock_of)


def _deal_run(stock: _Stock, numbers: Sequence[int], loads: list[int]) -> None:
    """Deal in rounds: all least loaded members get one partition each, until they have the load of the next members."""
    order = sorted((loads[member], place) for place, member in enumerate(stock.members))
    circle: list[int] = []
    joined = start = 0
    height = order[0][0]
    while start < len(numbers):
        while joined < len(order) and order[joined][0] == height:
            circle.append(order[joined][1])
            joined += 1
        circle.sort()
        rounds = max(1, (len(numbers) - start) // len(circle))
        if joined < len(order):
            rounds = min(rounds, order[joined][0] - height)
        end = min(start + rounds * len(circle), len(numbers))
        for turn, place in enumerate(circle[: end - start]):
            given = numbers[start + turn : end : len(circle)]
            stock.dealt[place] += given
            loads[stock.members[place]] += len(given)
        height += rounds
        start = end


def _results(sharing: _Sharing, members: int) -> list[list[int]]:
    results: list[list[int]] = [[] for _ in range(members)]
    for stock in sharing.stocks:
        for member, kept in zip(stock.members, stock.kept, strict=True):
            results[member] += kept
    for result in results:
        result.sort()
    for stock in sorted(sharing.stocks, key=lambda one: len(one.members)):
        for member, dealt in zip(stock.members, stock.dealt, strict=True):
            results[member] += dealt
    return results
