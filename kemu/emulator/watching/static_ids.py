"""Member ids of static members that a coordinator cannot know, although another coordinator assigned the ids.

A coordinator assigns a new id to a static member that rejoins. The id is written to the group's log with the next
assignment, or at once if the group is Stable and remains so. A coordinator that loads the group from a log without this
record knows the former id and fences the member. In a group of the consumer protocol, the id is written at once.

Source: Kafka 3.4 ``GroupCoordinator.updateStaticMemberAndRebalance``, ``GroupMetadataManager.storeGroup``; Kafka 4.0
``GroupMetadataManager.replaceMember``, ``throwIfInstanceIdIsFenced``.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.epoch_log import Term
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId, MemberId
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, GroupUnloaded, MemberAdded

_WRITES_AT_ONCE = ("Stable", "Assigning", "Reconciling")
"""States in which a coordinator writes a new id at once; the last two are of the consumer protocol."""


class _AssignedId:
    """A member id that a coordinator assigned to a static member."""

    __slots__ = ("changes", "is_current", "is_written", "record", "seq")

    def __init__(self, seq: int, changes: int, record: tuple[int, Term] | None, *, is_current: bool) -> None:
        self.seq = seq
        self.changes = changes
        """Number of earlier coordinator changes of the group."""
        self.record = record
        """(end of the group's log, term of its next record); None without replication."""
        self.is_current = is_current
        """Whether the current coordinator assigned the id; False for a deposed coordinator."""
        self.is_written = False
        """Whether the coordinator writes the id, or has written the id."""


class StaticIds:
    """All member ids that coordinators assigned to static members. The handlers of this class run after the panel's
    handlers.
    """

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._assigned: dict[GroupId, dict[MemberId, _AssignedId]] = {}
        self._changes: dict[GroupId, int] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            MemberAdded: self._added,
            GroupBecame: self._became,
            GroupLoaded: self._changed,
            GroupUnloaded: self._changed,
        }

    def is_forgotten(self, group: GroupId, member_id: MemberId) -> bool:
        """Whether only the coordinator that assigned the id can know the id."""
        assigned = self._assigned.get(group, {}).get(member_id)
        if assigned is None:
            return False
        if not assigned.is_current or (not assigned.is_written and self._changes.get(group, 0) > assigned.changes):
            return True
        if assigned.record is None:
            return False
        position, term = assigned.record
        return assigned.is_written and self._panel.logs.of(self._panel.log_of(group)).records.term_at(position) != term

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        if fact.instance_id is None:
            return
        panel, at = self._panel, self._panel.log_of(fact.group)
        log = panel.logs.of(at)
        record = None if at is None else (log.records.end, (max(log.epoch, 0), log.life))
        assigned = _AssignedId(seen.seq, self._changes.get(fact.group, 0), record, is_current=panel.is_current(seen))
        assigned.is_written = assigned.is_current and panel.groups[fact.group].state in _WRITES_AT_ONCE
        self._assigned.setdefault(fact.group, {})[fact.member_id] = assigned

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if self._panel.is_current(seen):
            for assigned in self._assigned.get(fact.group, {}).values():
                if fact.new == "Stable":
                    assigned.is_written = True
                elif fact.new == "PreparingRebalance" and fact.old == "Stable" and assigned.seq == seen.seq:
                    assigned.is_written = False  # the member's rejoin caused this rebalance

    def _changed(self, seen: Seen, fact: GroupLoaded | GroupUnloaded) -> None:
        self._changes[fact.group] = self._changes.get(fact.group, 0) + 1
