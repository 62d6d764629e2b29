"""The topics that a group subscribes to, and how a change of these topics raises the group's epoch.

The group's log has the topics up to Kafka 4.0, and a hash of the topics since 4.1. The hash also covers the racks of
each partition's replicas. Brokers of all these releases compare topics only at the next heartbeat of a member.

Source: ``GroupMetadataManager.updateSubscriptionMetadata``, ``ModernGroup.computeSubscriptionMetadata`` 4.0.2,
``ModernGroup.computeMetadataHash``, ``Utils.computeGroupHash``, ``computeTopicHash`` 4.1.1.
"""

from collections.abc import Iterable
from hashlib import blake2b

from kemu.actors.coordinator.consumer_group.state import (
    ConsumerGroup,
    ConsumerMember,
    GroupEpochRecord,
    RecordedChange,
    TopicsRecord,
)
from kemu.protocol.consumer_group.rules import ConsumerGroupRules
from kemu.protocol.consumer_group.states import Topic, Topics

_HASH_BYTES = 8


def subscribed_names(group: ConsumerGroup, member: ConsumerMember) -> tuple[str, ...]:
    """The subscribed names of a member: its topics, then the topics of its expression."""
    regex = group.regexes.get(member.regex)
    if regex is None or regex.topics is None:
        return member.topics
    return tuple(dict.fromkeys((*member.topics, *regex.topics)))


def raise_epoch(
    change: RecordedChange, topics: Topics | None, rules: ConsumerGroupRules, *, bump: bool, least: int = 1
) -> bool:
    """Raise the group's epoch, at least to ``least``, if ``bump`` or if the subscribed topics have changed.

    ``topics``: the cluster's topics; None if they are unknown, so that they count as unchanged.

    Returns:
        Whether the epoch was raised.
    """
    group = change.group
    if rules.hashes_topics:
        told = group.metadata_hash if topics is None else topics_hash(_subscribed_topics(group, topics))
        bump = bump or told != group.metadata_hash
    else:
        told = 0
        known = {each.name: each for each in group.topics} if topics is None else topics
        seen = _subscribed_topics(group, known)
        if seen != group.topics:
            change.add(TopicsRecord(seen))
            bump = True
    if bump:
        change.add(GroupEpochRecord(max(group.epoch + 1, least), told))
    return bump


def topics_hash(topics: Iterable[Topic]) -> int:
    """A hash of ids, names, numbers of partitions and racks, sorted by name: a signed 64-bit number; 0 without topics.

    Only equality matters, so that kemu's function may differ from Kafka's (XXH3).
    """
    rows = tuple(sorted([(each.name, each.topic_id, each.partitions, each.racks) for each in topics]))
    return int.from_bytes(blake2b(repr(rows).encode(), digest_size=_HASH_BYTES).digest(), signed=True) if rows else 0


def _subscribed_topics(group: ConsumerGroup, topics: Topics) -> tuple[Topic, ...]:
    """The existing topics that members subscribe to, by name or by expression, sorted by name."""
    names = {name for member in group.members.values() for name in member.topics}
    names.update([name for record in group.regexes.values() for name in record.topics or ()])
    return tuple([topics[name] for name in sorted(names) if name in topics])
