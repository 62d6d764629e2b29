"""Kafka's assignment if members subscribe to different topics: deal partitions, then move one after the other.

Each partition of a list is examined in turn. If some subscriber has at least two partitions fewer than the partition's
owner, the lightest subscriber gets the partition. If another partition of the topic moved in the opposite direction
before, the subscriber gets that partition instead. Rounds repeat until a whole round moves no partition. No single move
improves the result, but another assignment may have a better balance or fewer moves.

Source: KIP-54; ``AbstractStickyAssignor.generalAssign``, ``balance``, ``performReassignments``, ``isBalanced`` and its
``PartitionMovements`` (2.4 to 3.4), the same methods in ``GeneralAssignmentBuilder`` (since 3.5, KIP-881).
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import TypeAlias

from attrs import field

from kemu.protocol.assign.search.failure import KafkaFails
from kemu.protocol.assign.search.hash_maps import PartitionSet
from kemu.protocol.assign.search.numbering import Numbering
from kemu.protocol.assign.search.racks import Racks, RackSet
from kemu.protocol.assign.search.score import balance_score
from kemu.protocol.frozen import define, frozen

_Lists: TypeAlias = list[dict[int, None]]
"""Per member its numbers in the order of the result; new numbers are added at the end."""
_Pair: TypeAlias = tuple[int, int]
"""Two members: (from, to)."""


@frozen
class ToShareOut:
    """The input. Members have the index of their position in the sorted ids, partitions have numbers.

    ``held``: per member its numbers, as listed. ``previous``: number -> the owner before the current owner, if a member
    still claims the number with an older generation. ``order``: the numbers in the order of examination; None: topics
    with few subscribers first, then by name. ``margin``: the allowed difference between a subscriber and an owner in a
    balanced assignment, 1 since 3.5.
    """

    subscribed: Sequence[tuple[str, ...]]
    held: Sequence[Sequence[int]]
    previous: Mapping[int, int]
    numbering: Numbering
    margin: int = 1
    racks: Racks | None = None
    order: Sequence[int] | None = None


def share_out(group: ToShareOut) -> list[list[int]]:
    """The numbers of each member's partitions, in Kafka's order.

    Raises:
        KafkaFails: Kafka's class fails on this input.
    """
    run = _Run(group)
    run.keep()
    run.deal()
    run.balance()
    return [list(numbers) for numbers in run.lists]


class _Movements:
    """The moves so far. A partition that moved in the opposite direction is moved back first."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._pairs: dict[int, _Pair] = {}
        self._by_topic: dict[str, dict[_Pair, PartitionSet]] = {}

    def to_move(self, number: int, old: int, new: int) -> int:
        """The number, or a number of its topic that moved from ``new`` to the number's first owner before."""
        pairs = self._by_topic.get(self._numbering.partitions[number][0])
        if pairs is None:
            return number
        first, _ = self._pairs.get(number, (old, new))
        opposite = pairs.get((new, first))
        return number if opposite is None else opposite.first()

    def move(self, number: int, old: int, new: int) -> None:
        """Record the first and the current owner of a moved number, unless both are the same."""
        partition = self._numbering.partitions[number]
        topic = partition[0]
        before = self._pairs.pop(number, None)
        if before is not None:
            pairs = self._by_topic[topic]
            pairs[before].remove(number)
            if not pairs[before]:
                del pairs[before]
            if not pairs:
                del self._by_topic[topic]
            if before[0] == new:
                return
            old = before[0]
        self._pairs[number] = (old, new)
        self._by_topic.setdefault(topic, {}).setdefault((old, new), PartitionSet()).add(number, partition)

    def state(self) -> tuple[tuple[int, _Pair], ...]:
        """The complete state, for comparison with an earlier state."""
        return tuple(sorted(self._pairs.items()))


@define
class _Run:
    """The state of one run."""

    group: ToShareOut
    lists: _Lists = field(init=False)
    owner: list[int | None] = field(init=False)
    sizes: list[int] = field(init=False)
    subscribers: dict[str, list[int]] = field(init=False)
    topic_of: list[str] = field(init=False)
    most: list[int] = field(init=False)
    """Per member the number of partitions in its topics."""
    order: list[int] = field(init=False)
    unassigned: list[int] = field(init=False, factory=list)
    revoking: bool = field(init=False, default=False)
    fresh: bool = field(init=False, default=False)
    """Whether no member keeps a partition."""
    moved: bool = field(init=False, default=False)
    movements: _Movements = field(init=False)
    moving: frozenset[int] = field(init=False, default=frozenset())
    """Members that may gain or lose partitions."""
    lightest: list[tuple[int, int]] = field(init=False, factory=list)
    """(size, member) of the members in ``moving``, ascending."""
    owners: dict[str, Counter[int]] = field(init=False, factory=dict)
    balanced: bool | None = field(init=False, default=None)
    """Whether the assignment is balanced; None after a move, when the answer is unknown."""
    lightest_by_topic: dict[str, tuple[int, int]] = field(init=False, factory=dict)
    """The lightest subscriber of each topic; valid until the next move."""

    def __attrs_post_init__(self) -> None:
        group, numbering = self.group, self.group.numbering
        self.lists = [{} for _ in group.held]
        self.owner = [None] * numbering.total
        self.subscribers = {topic: [] for topic in numbering.topics}
        for member, topics in enumerate(group.subscribed):
            for topic in topics:
                if topic in self.subscribers:
                    self.subscribers[topic].append(member)
        self.topic_of = [topic for topic, _ in numbering.partitions]
        self.most = [sum(numbering.sizes.get(topic, 0) for topic in topics) for topics in group.subscribed]
        by_subscribers = sorted(numbering.topics, key=lambda topic: (len(self.subscribers[topic]), topic))
        first = (number for topic in by_subscribers for number in numbering.of_topic(topic))
        self.order = list(first if group.order is None else group.order)
        self.movements = _Movements(numbering)

    def keep(self) -> None:
        """Preserve each partition whose owner still subscribes to its topic and, if racks are used, is on a replica's
        rack.
        """
        group = self.group
        for member, numbers in enumerate(group.held):
            for number in numbers:
                near = group.racks is None or group.racks.near(member, number)
                if near and self.topic_of[number] in group.subscribed[member]:
                    self.lists[member][number] = None
                    self.owner[number] = member
                else:
                    self.revoking = True
        self.sizes = [len(numbers) for numbers in self.lists]

    def deal(self) -> None:
        """Assign each free partition to its lightest subscriber.

        If racks are used, subscribers on a rack with a replica are preferred.
        """
        racks = self.group.racks
        self.fresh = not any(self.sizes)
        self.unassigned = [number for number in self.order if self.owner[number] is None]
        left = self.unassigned
        if racks is not None:
            near: dict[tuple[str, RackSet], list[tuple[int, int]]] = {}
            for number in left:
                topic, on = self.topic_of[number], racks.partitions[number]
                if (topic, on) not in near:
                    near[topic, on] = self._heap(one for one in self.subscribers[topic] if racks.near(one, number))
                self._give_lightest(number, near[topic, on])
            left = [number for number in left if self.owner[number] is None]
        heaps: dict[str, list[tuple[int, int]]] = {}
        for number in left:
            topic = self.topic_of[number]
            if topic not in heaps:
                heaps[topic] = self._heap(self.subscribers[topic])
            self._give_lightest(number, heaps[topic])

    def _heap(self, members: Iterable[int]) -> list[tuple[int, int]]:
        heap = [(self.sizes[member], member) for member in members]
        heapify(heap)
        return heap

    def _give_lightest(self, number: int, heap: list[tuple[int, int]]) -> None:
        if not heap:
            return
        # Sizes only grow here, so an outdated entry is too light: correct entries until the first entry is right.
        while (size := self.sizes[heap[0][1]]) != heap[0][0]:
            heapreplace(heap, (size, heap[0][1]))
        member = heap[0][1]
        self.lists[member][number] = None
        self.owner[number] = member
        self.sizes[member] += 1

    def balance(self) -> None:
        """Move the dealt partitions, then all partitions.

        All moves are reverted if members owned partitions and the balance did not improve. A member takes no part if it
        has all partitions of its topics and no other member subscribes to these topics.
        """
        movable = [number for number in self.order if len(self.subscribers[self.topic_of[number]]) > 1]
        taking = [member for member in range(len(self.lists)) if self._may_take_part(member)]
        self.moving = frozenset(taking)
        self.lightest = sorted((self.sizes[member], member) for member in taking)
        for number in range(len(self.owner)):
            self.owners.setdefault(self.topic_of[number], Counter())[self._owner_of(number)] += 1
        lists, score = [dict(numbers) for numbers in self.lists], self._score(taking)
        if not self.lightest:
            return
        if not self.revoking:
            dealt = frozenset(self.unassigned)
            self._move([number for number in movable if number in dealt])
        if self._move(movable) and not self.fresh and self._score(taking) >= score:
            self.lists = lists
        elif self.moved and not self._valid():
            raise KafkaFails("a member got a partition without a subscription to it")

    def _may_take_part(self, member: int) -> bool:
        return self.sizes[member] < self.most[member] or any(
            len(self.subscribers[self.topic_of[number]]) > 1 for number in self.lists[member]
        )

    def _score(self, members: Iterable[int]) -> int:
        return balance_score(self.sizes[member] for member in members)

    def _owner_of(self, number: int) -> int:
        owner = self.owner[number]
        assert owner is not None, "a partition of a subscribed topic was not dealt"
        return owner

    def _valid(self) -> bool:
        return all(
            self.topic_of[number] in self.group.subscribed[member]
            for member, numbers in enumerate(self.lists)
            for number in numbers
        )

    def _move(self, numbers: Sequence[int]) -> bool:
        """Repeat rounds until a round moves no partition; returns whether any partition moved."""
        seen = set()
        anything = False
        while True:
            state = (tuple(self.owner), self.movements.state())
            if state in seen:
                raise KafkaFails("the same partitions move in an endless loop")
            seen.add(state)
            if not self._round(numbers):
                return anything
            anything = True

    def _round(self, numbers: Sequence[int]) -> bool:
        modified = False
        for number in numbers:
            if self._is_balanced():
                break
            owner = self._owner_of(number)
            before = self.group.previous.get(number)
            if before is not None:
                if before not in self.moving:
                    raise KafkaFails("a partition was owned by a member that takes no part in the balancing")
                if self.sizes[owner] > self.sizes[before] + 1:
                    self._give(number, before)
                    modified = True
                    continue
            topic = self.topic_of[number]
            if self.sizes[owner] > self._lightest_of(topic)[0] + 1:
                self._give(number, self._lightest_of(topic)[1])
                modified = True
        return modified

    def _lightest_of(self, topic: str) -> tuple[int, int]:
        """(size, member) of the topic's lightest subscriber."""
        if topic not in self.lightest_by_topic:
            subscribed = self.group.subscribed
            self.lightest_by_topic[topic] = next(one for one in self.lightest if topic in subscribed[one[1]])
        return self.lightest_by_topic[topic]

    def _is_balanced(self) -> bool:
        """Whether the assignment is balanced: sizes differ by at most one, or no move would reduce a difference.

        A move reduces a difference if a subscriber of the topic is below the owner by more than the margin.
        """
        if self.balanced is None:
            self.balanced = self.lightest[0][0] >= self.lightest[-1][0] - 1 or self._no_subscriber_below()
        return self.balanced

    def _no_subscriber_below(self) -> bool:
        seen = set()
        highest: dict[str, int] = {}
        for size, member in self.lightest:
            topics = self.group.subscribed[member]
            if topics in seen or size == self.most[member]:
                continue
            seen.add(topics)
            for topic in topics:
                if topic not in highest:
                    highest[topic] = max((self.sizes[owner] for owner in self.owners.get(topic, ())), default=0)
                if highest[topic] > size + self.group.margin:
                    return False
        return True

    def _give(self, number: int, new: int) -> None:
        """Give the member the number, or a number of its topic that moved in the opposite direction before."""
        number = self.movements.to_move(number, self._owner_of(number), new)
        old = self._owner_of(number)
        self.movements.move(number, old, new)
        del self.lists[old][number]
        self.lists[new][number] = None
        self.owner[number] = new
        owners = self.owners[self.topic_of[number]]
        owners[old] -= 1
        if not owners[old]:
            del owners[old]
        owners[new] += 1
        for member, by in ((old, -1), (new, 1)):
            place = bisect_left(self.lightest, (self.sizes[member], member))
            del self.lightest[place]
            self.sizes[member] += by
            insort(self.lightest, (self.sizes[member], member))
        self.moved = True
        self.balanced = None
        self.lightest_by_topic.clear()
