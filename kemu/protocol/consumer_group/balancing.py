"""The uniform assignor for members with different subscriptions.

Members keep their former targets. Unassigned partitions go to the least loaded subscribers, topic by topic. Then
partitions of each topic move from its most loaded to its least loaded subscribers, in rounds.

Source: Kafka 4.1 ``UniformHeterogeneousAssignmentBuilder``.
"""

from collections.abc import Callable, Iterable, Mapping

from kemu.protocol.consumer_group.shares import ChangedShare, Share, TargetMember, Targets, table_for, topic_order
from kemu.protocol.consumer_group.states import TopicId
from kemu.protocol.names import MemberId

_MOST_ROUNDS = 16
_NOBODY = -1


class PartitionOutOfRange(Exception):
    """A member has a partition that its topic lacks: the leader of a classic group assigned the partition, and then a
    smaller topic of the same name replaced the topic. Kafka's assignor fails (``ArrayIndexOutOfBoundsException``).
    """


def balanced(members: Mapping[MemberId, TargetMember], partitions: Mapping[TopicId, int]) -> Targets:
    """The targets of members in the order of their hash map.

    Raises:
        PartitionOutOfRange: a member has a partition that its topic lacks.
    """
    group = _Group(members, partitions)
    if not group.subscribers:
        return {}
    group.assign_free()
    group.balance()
    return group.targets()


class _Group:
    """The members by index, with the owner of each partition and the size of each share."""

    def __init__(self, members: Mapping[MemberId, TargetMember], partitions: Mapping[TopicId, int]) -> None:
        self._names = list(members)
        self._shares: list[Share] = [member.target for member in members.values()]
        self._copies: dict[int, ChangedShare] = {}
        self._sizes = [0] * len(members)
        self.subscribers: dict[TopicId, list[int]] = {}
        """Topic -> indices of its subscribers, ascending."""
        for index, member in enumerate(members.values()):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(index)
        self._owners = {topic: [_NOBODY] * partitions[topic] for topic in self.subscribers}
        for index, member in enumerate(members.values()):
            for topic, numbers in member.target.items():
                if topic not in member.topics:
                    self._copy(index).remove_topic(topic)
                    continue
                self._sizes[index] += len(numbers)
                if max(numbers, default=-1) >= partitions[topic]:
                    raise PartitionOutOfRange
                for number in numbers:
                    self._owners[topic][number] = index

    def targets(self) -> Targets:
        """The share of each member."""
        return {
            name: self._copies[index].share() if index in self._copies else self._shares[index]
            for index, name in enumerate(self._names)
        }

    def assign_free(self) -> None:
        """Give the partitions without an owner to the least loaded subscribers."""
        free = {
            topic: [number for number, owner in enumerate(owners) if owner == _NOBODY]
            for topic, owners in self._owners.items()
        }
        for topic in self._ordered(topic for topic, numbers in free.items() if numbers):
            loads = _Loads(self.subscribers[topic], self._sizes)
            for number in free[topic]:
                self._assign(topic, number, loads.least())

    def balance(self) -> None:
        """Move partitions, topic by topic, until a round of all topics moves no partition."""
        topics = self._ordered(topic for topic, members in self.subscribers.items() if len(members) > 1)
        last_change = _NOBODY
        for _ in range(_MOST_ROUNDS):
            for place, topic in enumerate(topics):
                if place == last_change:
                    return
                if self._balance_topic(topic) or last_change == _NOBODY:
                    last_change = place

    def _balance_topic(self, topic: TopicId) -> bool:
        loads = _Loads(self.subscribers[topic], self._sizes)
        if loads.imbalance <= 1:
            return False
        movable: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic]):
            movable.setdefault(owner, []).append(number)
        moved = False
        while not loads.is_balanced():
            giver = loads.most(lambda member: bool(movable.get(member)))
            if giver == _NOBODY:
                break
            number = movable[giver].pop()
            taker = loads.least()
            if loads.is_balanced():
                break
            self._assign(topic, number, taker)
            moved = True
        return moved

    def _ordered(self, topics: Iterable[TopicId]) -> list[TopicId]:
        """Topics with the most partitions for each subscriber first."""

        def key(topic: TopicId) -> tuple[float, int, tuple[int, int, str]]:
            subscribers = len(self.subscribers[topic])
            return -(len(self._owners[topic]) / subscribers), subscribers, topic_order(topic)

        return sorted(topics, key=key)

    def _copy(self, index: int) -> ChangedShare:
        copy = self._copies.get(index)
        if copy is None:
            copy = self._copies[index] = ChangedShare(self._shares[index])
        return copy

    def _assign(self, topic: TopicId, number: int, index: int) -> None:
        owners = self._owners[topic]
        if owners[number] != _NOBODY:
            self._copy(owners[number]).remove(topic, number)
            self._sizes[owners[number]] -= 1
        for_each = -(-len(owners) // len(self.subscribers[topic]))
        self._copy(index).add(topic, number, table_for(for_each * 4 // 3 + 1))
        owners[number] = index
        self._sizes[index] += 1


class _Loads:
    """The subscribers of a topic by load, while partitions move from the most loaded to the least loaded.

    The least loaded subscribers are visited in rounds. All subscribers of a round have the same load, and each gets one
    partition; the next round adds the subscribers that had one partition more. The most loaded subscribers are visited
    in the same way, from the other end. A subscriber that can give nothing leaves the rounds.
    """

    def __init__(self, subscribers: Iterable[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._order = order = sorted(subscribers, key=lambda index: (sizes[index], index))
        self._least, self._most = sizes[order[0]] - 1, sizes[order[-1]] + 1
        self.imbalance = sizes[order[-1]] - sizes[order[0]]
        """The largest load without the smallest."""
        self._low_end = 0
        self._next_low = 0
        self._high_start = self._high_end = len(order)
        self._next_high = len(order) - 1

    def is_balanced(self) -> bool:
        """Whether the loads of the current rounds differ by at most one."""
        return self._most - self._least <= 1

    def least(self) -> int:
        """The next of the least loaded subscribers, which gets a partition."""
        if self._next_low >= self._low_end:
            self._least += 1
            while self._low_end < len(self._order) and self._load(self._low_end) == self._least:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._order[self._next_low - 1]

    def most(self, can_give: Callable[[int], bool]) -> int:
        """The next of the most loaded subscribers that can give a partition; -1 if no subscriber can."""
        while True:
            if self._next_high < self._high_start:
                if self._high_end <= self._high_start and self._high_start > 0:
                    self._most = self._load(self._high_start - 1)
                else:
                    self._most -= 1
                while self._high_start > 0 and self._load(self._high_start - 1) == self._most:
                    self._high_start -= 1
                self._next_high = self._high_end - 1
            if self._next_high < 0:
                return _NOBODY
            found = self._order[self._next_high]
            self._next_high -= 1
            if can_give(found):
                return found
            place = self._next_high + 1
            self._high_end -= 1
            self._order[place], self._order[self._high_end] = self._order[self._high_end], found

    def _load(self, place: int) -> int:
        return self._sizes[self._order[place]]
