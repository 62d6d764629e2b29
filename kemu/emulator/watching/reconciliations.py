"""The members of the consumer protocol (KIP-848), and the times in which members of a group give up partitions.

Source: Kafka 4.0 to 4.3 ``CurrentAssignmentBuilder``, ``GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.actors.machine import Received
from kemu.emulator.facts import Seen, received
from kemu.emulator.watching.memberships import CoordinatorsGroup
from kemu.protocol.consumer_group.states import ReconcilingState
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.names import ActorName, GroupId, MemberId
from kemu.protocol.notes.consumer_groups import MemberReconciled
from kemu.protocol.notes.groups import GroupLoaded, MemberRemoved


def no_coordinator(coordinator: ActorName) -> bool:
    """False: the coordinators of all releases before 4.3."""
    return False


class Reconciliations:
    """The revocations of all groups, as their coordinators report them.

    ``follows_target``: coordinator -> ``ConsumerGroupRules.classic_members_follow_target`` of its release.
    """

    def __init__(self, *, follows_target: Callable[[ActorName], bool]) -> None:
        self._follows_target = follows_target
        self.loaded_us: dict[GroupId, int] = {}
        """Group -> time at which a coordinator last loaded the group, in us."""
        self._of_consumer_protocol: dict[MemberId, None] = {}
        self._revoking: dict[GroupId, dict[MemberId, int]] = {}
        """Group -> member that must give up partitions -> time since which it must, in us."""
        self._began_us: dict[GroupId, int] = {}
        """Group with such a member -> time since which it has one, in us."""
        self._over: dict[GroupId, list[tuple[int, int]]] = {}
        """Group -> earlier times with such a member: (start, end) in us."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            received(ConsumerGroupHeartbeat): self._heartbeat,
            received(JoinGroup): self._join,
            GroupLoaded: self._loaded,
            MemberReconciled: self._reconciled,
            MemberRemoved: self._removed,
        }

    def has_consumer_protocol(self, member_id: MemberId) -> bool:
        """Whether the member's last request was one of the consumer protocol."""
        return member_id in self._of_consumer_protocol

    def hears_of_no_epoch(self, group: CoordinatorsGroup) -> bool:
        """Whether no heartbeat computes a target for the group's epoch: all its members are classic members, which no
        heartbeat asks to rejoin before the target has the epoch.

        Source: Kafka 4.3 ``GroupMetadataManager.classicGroupHeartbeatToConsumerGroup``. A group with classic members
        only is not converted if it is larger than ``group.max.size``, or if ``group.consumer.migration.policy`` forbids
        it (``validateOnlineDowngradeWithFencedMembers``).
        """
        members = group.entries
        is_classic = bool(members) and not any(map(self.has_consumer_protocol, members))
        return is_classic and group.state == "Assigning" and self._follows_target(group.speaker[0])

    def revoking(self, group: GroupId) -> dict[MemberId, int]:
        """The members that must give up partitions, and the times since which they must, in us."""
        return self._revoking.get(group, {})

    def revoked_us(self, group: GroupId, since_us: int, now_us: int) -> int:
        """How long some member of the group gave up partitions since ``since_us``, in us."""
        over = self._over[group] = [each for each in self._over.get(group, []) if each[1] > since_us]
        began_us = self._began_us.get(group)
        spans = over if began_us is None else [*over, (began_us, now_us)]
        return sum(until_us - max(from_us, since_us) for from_us, until_us in spans)

    def _heartbeat(self, seen: Seen, fact: Received) -> None:
        self._of_consumer_protocol[fact.message.member_id] = None

    def _join(self, seen: Seen, fact: Received) -> None:
        self._of_consumer_protocol.pop(fact.message.member_id, None)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self.loaded_us[fact.group] = seen.at_us

    def _reconciled(self, seen: Seen, fact: MemberReconciled) -> None:
        if fact.state == ReconcilingState.UNREVOKED_PARTITIONS.name:
            self._revoking.setdefault(fact.group, {})[fact.member_id] = seen.at_us
            self._began_us.setdefault(fact.group, seen.at_us)
        else:
            self._ends(fact.group, fact.member_id, seen.at_us)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._ends(fact.group, fact.member_id, seen.at_us)

    def _ends(self, group: GroupId, member_id: MemberId, at_us: int) -> None:
        revoking = self._revoking.get(group, {})
        if revoking.pop(member_id, None) is not None and not revoking:
            self._over.setdefault(group, []).append((self._began_us.pop(group), at_us))
