"""The conversion of a classic group to a group of the consumer protocol, and back (KIP-848).

The first member of the consumer protocol that joins a classic group converts the group. The group is converted back
when its last member of the consumer protocol leaves, and classic members remain. Members keep their ids.

Source: Kafka 4.0 ``ConsumerGroup.fromClassicGroup``, ``ClassicGroup.fromConsumerGroup``,
``GroupMetadataManager.validateOnlineUpgrade``, ``validateOnlineDowngradeWithFencedMembers``,
``validateOnlineDowngradeWithReplacedMember``.
"""

from collections.abc import Callable, Collection, Iterable

from kemu.actors.coordinator.consumer_group.heartbeats import HeartbeatRefused
from kemu.actors.coordinator.consumer_group.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
    share_of,
)
from kemu.actors.coordinator.consumer_group.subscribed import topics_hash
from kemu.actors.coordinator.members import Member, Members
from kemu.protocol.config import BrokerConfig
from kemu.protocol.consumer_group.reconciling import CurrentAssignment
from kemu.protocol.consumer_group.rules import ConsumerGroupRules
from kemu.protocol.consumer_group.shares import partitions_of
from kemu.protocol.consumer_group.states import Partition, ReconcilingState, Topics
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import (
    HIGHEST_VERSION,
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from kemu.protocol.names import CONSUMER, GroupId, MemberId, TopicPartition
from kemu.protocol.wire.codec import CodecError

_E = ErrorCode
UPGRADES, DOWNGRADES = ("bidirectional", "upgrade"), ("bidirectional", "downgrade")
"""The values of ``group.consumer.migration.policy`` that permit each conversion."""


def check_upgrade(group: GroupId, protocol_type: str | None, members: int, config: BrokerConfig) -> None:
    """Check whether a classic group with this number of members may become a group of the consumer protocol.

    Raises:
        HeartbeatRefused: GROUP_ID_NOT_FOUND.
    """
    if config.group_consumer_migration_policy not in UPGRADES:
        raise _not_upgraded(group, "online upgrade is disabled")
    if protocol_type != CONSUMER:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if members > config.group_consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")


def _not_upgraded(group: GroupId, why: str) -> HeartbeatRefused:
    """The refusal of an upgrade, with Kafka's message: real clients log it, and ``kemu diagnose`` reads it."""
    text = f"Cannot upgrade classic group {group} to consumer group because {why}."
    return HeartbeatRefused(_E.GROUP_ID_NOT_FOUND, text=text)


def upgraded(
    group: GroupId,
    protocol: str | None,
    generation: int,
    members: Iterable[Member],
    topics: Topics,
    rules: ConsumerGroupRules,
) -> tuple[GroupRecord, ...]:
    """The records of the group with the members of a classic group, in the order of the classic group's map.

    Each member keeps its assignment, and is STABLE at the generation.

    Args:
        group: the group's name.
        protocol: the assignor that the members voted for; None before the first generation.
        generation: the classic group's generation.
        members: the members.
        topics: the cluster's topics by name.
        rules: of the release.

    Raises:
        HeartbeatRefused: the group cannot be converted: GROUP_ID_NOT_FOUND, or UNKNOWN_SERVER_ERROR before the first
            generation and if the leader gave a partition twice (``ConsumerGroup.addPartitionEpochs``).
    """
    converted: list[tuple[ConsumerMember, tuple[Partition, ...]]] = []
    given: set[Partition] = set()
    for one in members:
        if protocol is None:
            raise HeartbeatRefused(_E.UNKNOWN_SERVER_ERROR)
        try:
            assigned = _assigned(group, one, topics)
            converted.append((_as_consumer(one, protocol), assigned))
        except CodecError:
            raise _not_upgraded(group, "the embedded consumer protocol is malformed") from None
        if not given.isdisjoint(assigned):
            raise HeartbeatRefused(_E.UNKNOWN_SERVER_ERROR)
        given.update(assigned)
    names = sorted({name for member, _ in converted for name in member.topics})
    known = tuple(topics[name] for name in names if name in topics)
    records: list[GroupRecord] = [MemberRecord(member.member_id, member) for member, _ in converted]
    hashes = rules.hashes_topics
    records += [] if hashes else [TopicsRecord(known)]
    records.append(GroupEpochRecord(generation, topics_hash(known) if hashes else 0))
    records += [TargetRecord(member.member_id, share_of(assigned)) for member, assigned in converted]
    records.append(TargetEpochRecord(generation))
    for member, assigned in converted:
        held = {(topic, n): generation for topic, numbers in share_of(assigned).items() for n in sorted(numbers)}
        current = CurrentAssignment(ReconcilingState.STABLE, generation, generation, held)
        records.append(CurrentRecord(member.member_id, current))
    return tuple(records)


def _as_consumer(member: Member, protocol: str) -> ConsumerMember:
    subscription = decode_subscription(member.metadata(protocol))
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(group: GroupId, member: Member, topics: Topics) -> tuple[Partition, ...]:
    """The partitions of existing topics in a member's assignment.

    Raises:
        HeartbeatRefused: the assignment has user data, which would be lost.
    """
    if not member.assignment:
        return ()
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _not_upgraded(group, "an unsupported custom assignor is in use")
    assigned = [(topics[name].topic_id, number) for name, number in assignment.partitions if name in topics]
    return tuple(dict.fromkeys(assigned))


def may_downgrade(group: ConsumerGroup, leaving: Collection[MemberId], members: int, config: BrokerConfig) -> bool:
    """Whether a group becomes a classic group without these members. ``members``: the number of members afterwards."""
    permitted = config.group_consumer_migration_policy in DOWNGRADES and 0 < members <= config.group_max_size
    return permitted and group.is_classic_without(leaving)


def downgraded(
    group: ConsumerGroup,
    members: Iterable[tuple[ConsumerMember, MemberId]],
    named: Callable[[Iterable[Partition]], tuple[TopicPartition, ...]],
    into: Members,
) -> str:
    """Add the members of a group to a classic group. Their assignments are their targets.

    Args:
        group: the group.
        members: each member that remains, and the member whose target it gets: the same member, or the static member
            that it replaces.
        named: gives partitions the names of their topics.
        into: the members of the classic group.

    Returns:
        The assignor that the members vote for.
    """
    targets: dict[MemberId, tuple[TopicPartition, ...]] = {}
    for member, heir_of in members:
        classic = member.classic
        assert classic is not None, f"{member.member_id} speaks the consumer protocol"
        targets[member.member_id] = named(partitions_of(group.target_of(heir_of)))
        into.add(
            Member(
                group.name,
                member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=classic.session_timeout_ms,
                protocols=classic.protocols,
            )
        )
    protocol = into.vote()
    for member_id, target in targets.items():
        one = into.by_id[member_id]
        one.assignment = assignment_of(target, one.metadata(protocol))
    return protocol


def assignment_of(partitions: tuple[TopicPartition, ...], subscription: bytes) -> bytes:
    """An assignment as bytes, in the version of the member's subscription."""
    return encode_assignment(Assignment(partitions), min(version_of(subscription), HIGHEST_VERSION))
