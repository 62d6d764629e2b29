"""Assignment if all members subscribe to the same topics: every member gets the common share or one more partition.

With P partitions and C members the sizes of a balanced assignment are known. Every member has P // C partitions, and
P mod C members have one more. So the steps of KIP-54 need no search: members keep partitions up to their share, and
members below their share get the other partitions.

Source: KIP-54's goals; Kafka has used the method since 2.6 (KAFKA-9987). Members keep their first partitions by
(partition, topic), so that each member's partitions are spread over the topics (KAFKA-16277).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress

from attrs import field

from kemu.protocol.assign.search.failure import KafkaFails
from kemu.protocol.assign.search.racks import Racks, RackSet
from kemu.protocol.frozen import define


@define
class Shares:
    """The state of one run. Members have the index of their position in the sorted ids, partitions have numbers."""

    members: int
    partitions: int
    kept: list[list[int]]
    """Per member the kept numbers, in the order of the result."""
    given: list[list[int]] = field(init=False)
    """Per member the additional numbers."""
    low: int = field(init=False)
    """The common share."""
    extras: int = field(init=False)
    """The number of further members that may exceed the common share by one."""
    under: list[int] = field(init=False, factory=list)
    exact: deque[int] = field(init=False, factory=deque)

    def __attrs_post_init__(self) -> None:
        self.given = [[] for _ in range(self.members)]
        self.low, self.extras = divmod(self.partitions, self.members)

    def keep(self, order: Iterable[int]) -> None:
        """KIP-54's steps 1 and 2: members keep partitions up to the share. The first members in the order keep one
        more.
        """
        with_extra = self.extras
        at_low: list[int] = []
        for member in order:
            kept = self.kept[member]
            size = len(kept)
            if size < self.low:
                self.under.append(member)
            elif size > self.low and with_extra:
                with_extra -= 1
                del kept[self.low + 1 :]
            else:
                del kept[self.low :]
                at_low.append(member)
        self.extras = with_extra
        self.under.sort()
        self.exact.extend(sorted(at_low))

    def left(self) -> list[int]:
        """The numbers without a member, ascending."""
        free = bytearray(b"\x01") * self.partitions
        for kept in self.kept:
            for number in kept:
                free[number] = 0
        return list(compress(range(self.partitions), free))

    def deal(self, numbers: Sequence[int]) -> None:
        """Deal numbers in a circle to members below the share, then one extra number each to some members.

        A member leaves the circle when it has its share.
        """
        circle, start = self.under, 0
        missing = {member: self.low - len(self.kept[member]) - len(self.given[member]) for member in circle}
        while circle and start < len(numbers):
            # Each pass deals as many whole rounds as possible before a member leaves the circle.
            rounds = min(missing[member] for member in circle)
            end = start + rounds * len(circle)
            if end > len(numbers):
                raise KafkaFails("too few partitions are left for the members below the share")
            for place, member in enumerate(circle):
                self.given[member].extend(numbers[start + place : end : len(circle)])
                missing[member] -= rounds
            start = end
            self.exact.extend(member for member in circle if not missing[member])
            circle = [member for member in circle if missing[member]]
        self.under = circle
        assert len(numbers) - start <= self.extras, "more partitions are left than members may take"
        for number in numbers[start:]:
            self.given[self.exact.popleft()].append(number)
            self.extras -= 1

    def deal_by_rack(
        self, numbers: Sequence[int], racks: Sequence[str | None], replicas: Sequence[RackSet], bounded: bool
    ) -> list[int]:
        """Deal numbers only to members whose rack has a replica; returns the numbers without such a member.

        Partitions with few possible members are dealt first. Members below the share take turns. If all suitable
        members have their share, the first of them gets the partition, while extras remain. Without ``bounded`` there
        may be too many extras (KAFKA-15170).
        """
        users: dict[RackSet, int] = {}
        for number in numbers:
            if replicas[number] not in users:
                users[replicas[number]] = sum(1 for rack in racks if rack in replicas[number])
        turn, unplaced = 0, []
        if not self.extras:
            self.exact.clear()
        for number in sorted(numbers, key=lambda one: users[replicas[one]]):
            on = replicas[number]
            if users[on] and (found := _next_on(self.under, turn, racks, on)) is not None:
                turn = self._give_under(found, number)
            elif (
                users[on] and (self.extras or not bounded) and (found := _next_on(self.exact, 0, racks, on)) is not None
            ):
                self.given[self.exact[found]].append(number)
                del self.exact[found]
                self.extras -= bounded
            else:
                unplaced.append(number)
        return unplaced

    def _give_under(self, place: int, number: int) -> int:
        """Assign a number to a member below the share; returns the position of the next member in the circle."""
        member = self.under[place]
        self.given[member].append(number)
        if len(self.kept[member]) + len(self.given[member]) < self.low:
            return (place + 1) % len(self.under)
        del self.under[place]
        if self.low * self.members < self.partitions:
            self.exact.append(member)
        return place % len(self.under) if self.under else 0


def share_out(
    kept: list[list[int]],
    partitions: int,
    order: Iterable[int],
    racks: Racks | None = None,
    bounded: bool = True,
) -> Shares:
    """Assign the numbers 0..partitions-1 to the members.

    Args:
        kept: per member its rightful numbers, in the order of preference; shortened to the member's share.
        partitions: the number of partitions.
        order: the order in which members may keep one more than the common share.
        racks: None to ignore racks.
        bounded: whether the number of extras is a limit (``Shares.deal_by_rack``).

    Raises:
        KafkaFails: without ``bounded``, too many members exceeded the share, and other members remain below the share.
    """
    shares = Shares(len(kept), partitions, kept)
    shares.keep(order)
    numbers = shares.left()
    if racks is not None:
        numbers = shares.deal_by_rack(numbers, racks.members, racks.partitions, bounded)
    shares.deal(numbers)
    return shares


def _next_on(places: Sequence[int], turn: int, racks: Sequence[str | None], on: RackSet) -> int | None:
    """The first position from ``turn`` on, cyclically, whose member is on one of the racks."""
    for step in range(len(places)):
        place = (turn + step) % len(places)
        if racks[places[place]] in on:
            return place
    return None
