"""The assignors of the coordinator for groups with the consumer protocol (KIP-848): ``uniform`` and ``range``.

An assignor sees the former target of each member, not what the member owns. Neither assignor uses racks (4.0 to 4.3).

Source: Kafka 4.1 ``UniformAssignor``, ``UniformHomogeneousAssignmentBuilder``,
``UniformHeterogeneousAssignmentBuilder``, ``RangeAssignor``. All releases from 4.0.1 to 4.3.0 give equal targets.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from kemu.protocol.config import SERVER_ASSIGNORS
from kemu.protocol.consumer_group.balancing import balanced
from kemu.protocol.consumer_group.shares import (
    ChangedShare,
    TargetMember,
    Targets,
    hash_order,
    partitions_of,
    table_for,
    table_of_copy,
    topic_hash,
)
from kemu.protocol.consumer_group.states import TopicId
from kemu.protocol.names import MemberId

ServerAssignor: TypeAlias = Callable[[Mapping[MemberId, TargetMember], Mapping[TopicId, int], bool], Targets]
"""(members in the order of their hash map, number of partitions of each topic, whether all members have the same
subscription) -> the target of each member. A target that did not change is the member's former target.
"""


def uniform(
    members: Mapping[MemberId, TargetMember],
    partitions: Mapping[TopicId, int],
    alike: bool,
    *,
    yields_extras: bool = True,
) -> Targets:
    """Sizes of shares that differ by at most one for equal subscriptions; few partitions move.

    ``yields_extras``: whether a member that does not have an extra partition leaves it to a later member (since 4.0.1).
    """
    if not members:
        return {}
    return _for_equal_subscriptions(members, partitions, yields_extras) if alike else balanced(members, partitions)


def range_by_topic(members: Mapping[MemberId, TargetMember], partitions: Mapping[TopicId, int], alike: bool) -> Targets:
    """Consecutive ranges of each topic's partitions, with static members first; the former target does not matter."""
    order = sorted(members, key=lambda member: _static_first(member, members[member].instance_id))
    topics = {member: members[order[0] if alike else member].topics for member in order}
    subscribers: dict[TopicId, list[MemberId]] = {}
    for member in order:
        for topic in topics[member]:
            subscribers.setdefault(topic, []).append(member)
    targets: dict[MemberId, dict[TopicId, tuple[int, ...]]] = {member: {} for member in order}
    for topic, mine in subscribers.items():
        size, extra = divmod(partitions[topic], len(mine))
        first = 0
        for place, member in enumerate(mine):
            last = first + size + (place < extra)
            if first < last:
                targets[member][topic] = tuple(range(first, last))
            first = last
    found: Targets = {}
    for member, share in targets.items():
        count = len(topics[member]) if alike else members[member].names
        ordered = [topic for topic in topics[member] if topic in share]
        table = table_for(count * 4 // 3 + 1)
        found[member] = {topic: share[topic] for topic in hash_order(ordered, topic_hash, table)}
    return found


def _static_first(member: MemberId, instance_id: str | None) -> tuple[int, str]:
    return (1, member) if instance_id is None else (0, instance_id)


def _for_equal_subscriptions(
    members: Mapping[MemberId, TargetMember], partitions: Mapping[TopicId, int], yields_extras: bool
) -> Targets:
    some = next(iter(members.values()))
    topics = hash_order(some.topics, topic_hash, table_of_copy(some.names))
    if not topics:
        return {}
    targeted = {partition for member in members.values() for partition in partitions_of(member.target)}
    free = [each for topic in topics for each in _all_of(topic, partitions[topic]) if each not in targeted]
    least, extras = divmod(sum(partitions[topic] for topic in topics), len(members))
    targets: Targets = {}
    copies: dict[MemberId, ChangedShare] = {}
    wanted: dict[MemberId, int] = {}
    for place, (name, member) in enumerate(members.items()):
        takes_extra = extras > 0
        room = least + takes_extra
        targets[name] = member.target
        for topic, numbers in member.target.items():
            surplus = numbers[room:] if topic in topics else numbers
            room -= len(numbers) - len(surplus)
            if surplus and name not in copies:
                copies[name] = ChangedShare(member.target)
            for number in surplus:
                copies[name].remove(topic, number)
            if topic in topics:
                free += [(topic, number) for number in surplus]
        if yields_extras and room > 0 and takes_extra and len(members) - place > extras:
            # A later member may have the extra partition already.
            room, takes_extra = room - 1, False
        if room > 0:
            wanted[name] = room
        extras -= takes_extra
    rest = iter(free)
    for name, room in wanted.items():
        copy = copies.setdefault(name, ChangedShare(targets[name]))
        for _, (topic, number) in zip(range(room), rest, strict=False):
            copy.add(topic, number)
    return targets | {name: copy.share() for name, copy in copies.items()}


def _all_of(topic: TopicId, count: int) -> Iterable[tuple[TopicId, int]]:
    return ((topic, number) for number in range(count))


ASSIGNORS: Mapping[str, ServerAssignor] = dict(zip(SERVER_ASSIGNORS, (uniform, range_by_topic), strict=True))
"""The assignors of a broker by name."""

ASSIGNORS_4_0_0: Mapping[str, ServerAssignor] = {**ASSIGNORS, "uniform": partial(uniform, yields_extras=False)}
"""The assignors of 4.0.0, whose first members take extra partitions from later members."""
