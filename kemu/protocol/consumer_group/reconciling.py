"""One step of a member from its current assignment towards its target, as the coordinator computes it (KIP-848).

A member that must give up partitions keeps its epoch until it reports that it no longer owns them. Any other member
takes the epoch of the target at once, with the partitions that no other member holds.

Source: Kafka ``CurrentAssignmentBuilder`` 4.0 to 4.3, ``ConsumerGroupMember.Builder.updateMemberEpoch``.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from kemu.protocol.consumer_group.rules import ReconcilingRules
from kemu.protocol.consumer_group.shares import computed_order, hash_order, table_of_copy, topic_hash
from kemu.protocol.consumer_group.states import Partition, ReconcilingState, TopicId
from kemu.protocol.frozen import evolve, frozen

Held: TypeAlias = Mapping[Partition, int]
"""Partition -> the member epoch at which the member got the partition. Kafka records this epoch since 4.3."""


@frozen
class CurrentAssignment:
    """The partitions that a member may own, and partitions that it must give up and has not reported as given up."""

    state: ReconcilingState = ReconcilingState.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Held = {}
    revoking: Held = {}


class UnknownState(Exception):
    """A member whose state is unknown must give up all partitions first: FENCED_MEMBER_EPOCH."""


@frozen
class TargetAssignment:
    """The target of a member.

    ``subscribed``: the ids of the topics of its subscription that exist. ``names``: the number of subscribed names.
    ``changed``: whether the request changed the subscription.
    """

    epoch: int
    partitions: Collection[Partition]
    subscribed: Collection[TopicId] = ()
    names: int = 0
    changed: bool = False


def reconciled(
    member: CurrentAssignment,
    target: TargetAssignment,
    owned: Collection[Partition] | None,
    is_free: Callable[[Partition], bool],
    rules: ReconcilingRules,
) -> CurrentAssignment:
    """The next current assignment of a member; the same object if nothing changes.

    Args:
        member: the current assignment.
        target: the target.
        owned: the partitions that the request reports as owned; None if the request does not tell.
        is_free: whether no member holds a partition.
        rules: the release's rules.

    Raises:
        UnknownState: the state is unknown, and the member may still own partitions.
    """
    if member.state is ReconcilingState.STABLE and member.epoch == target.epoch:
        return _followed(member, target, owned, rules)
    if member.state is ReconcilingState.UNREVOKED_PARTITIONS:
        if _owns(owned, member.revoking):
            return _followed(member, target, owned, rules)
        return _next(member, member.epoch + rules.next_epoch_after_revocation, target, owned, is_free, rules)
    if member.state is ReconcilingState.UNKNOWN:
        if owned is None or owned:
            raise UnknownState
        return _next(member, target.epoch, target, owned, is_free, rules)
    return _next(member, member.epoch, target, owned, is_free, rules)


def _owns(owned: Collection[Partition] | None, some: Held) -> bool:
    return owned is None or any(partition in some for partition in owned)


def _followed(
    member: CurrentAssignment, target: TargetAssignment, owned: Collection[Partition] | None, rules: ReconcilingRules
) -> CurrentAssignment:
    """The member without the partitions of topics that it no longer subscribes to."""
    if not (rules.follows_subscription and target.changed):
        return member
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition[0] in target.subscribed}
    if len(kept) == len(member.assigned) and (target.names or member.revoking):
        return member
    revoking = {**member.revoking, **{each: member.assigned[each] for each in member.assigned if each not in kept}}
    previous_epoch = member.epoch if rules.following_repeats_epoch else member.previous_epoch
    if not revoking or not _owns(owned, revoking):
        return evolve(member, previous_epoch=previous_epoch, assigned=kept)
    state = ReconcilingState.UNREVOKED_PARTITIONS
    return evolve(member, state=state, previous_epoch=previous_epoch, assigned=kept, revoking=_sorted(revoking))


def _next(
    member: CurrentAssignment,
    epoch: int,
    target: TargetAssignment,
    owned: Collection[Partition] | None,
    is_free: Callable[[Partition], bool],
    rules: ReconcilingRules,
) -> CurrentAssignment:
    wanted = dict.fromkeys(target.partitions)
    if rules.follows_subscription:
        wanted = {partition: None for partition in wanted if partition[0] in target.subscribed}
    kept = {partition: since for partition, since in member.assigned.items() if partition in wanted}
    revoking = {partition: since for partition, since in member.assigned.items() if partition not in wanted}
    if revoking and _owns(owned, revoking):
        return CurrentAssignment(ReconcilingState.UNREVOKED_PARTITIONS, epoch, member.epoch, kept, revoking)
    added = [partition for partition in wanted if partition not in kept]
    free = {
        partition: target.epoch
        for partition in added
        if is_free(partition) or (rules.own_revoked_is_free and partition in member.revoking)
    }
    state = ReconcilingState.STABLE if len(free) == len(added) else ReconcilingState.UNRELEASED_PARTITIONS
    return CurrentAssignment(state, target.epoch, member.epoch, _in_map_order(member, target, kept, free), {})


def _in_map_order(member: CurrentAssignment, target: TargetAssignment, kept: Held, free: Held) -> Held:
    """The new partitions of a member, by topic as in Kafka's maps, which a classic member sees.

    Source: ``CurrentAssignmentBuilder.computeNextAssignment`` 4.0 to 4.3.
    """
    wanted = dict.fromkeys([topic for topic, _ in target.partitions])
    both = dict.fromkeys((*wanted, *(topic for topic, _ in member.assigned)))
    topics = hash_order(both, topic_hash, table_of_copy(len(wanted)))
    put = hash_order([each for each in topics if any(topic == each for topic, _ in kept)], topic_hash)
    added = hash_order([each for each in topics if any(topic == each for topic, _ in free)], topic_hash)
    order = computed_order((*put, *added), [each for each in added if each not in put])
    held = _sorted({**kept, **free})
    return {partition: held[partition] for each in order for partition in held if partition[0] == each}


def _sorted(held: Held) -> Held:
    return {partition: held[partition] for partition in sorted(held)}
