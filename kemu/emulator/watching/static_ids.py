"""Ids of static members that a coordinator cannot know, although another one gave them.

A coordinator gives a static member that comes back a new id. The id is in the group's log with the next assignment of
the group's leader, or at once where the group is Stable and stays so. A coordinator that loads the group from a log
without that record knows the former id, and fences the member.

Source: Kafka 3.4 ``GroupCoordinator.updateStaticMemberAndRebalance``, ``GroupMetadataManager.storeGroup``.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.epoch_log import Term
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId, MemberId
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, GroupUnloaded, MemberAdded


class _Given:
    """An id that a coordinator gave a static member."""

    __slots__ = ("changes", "counts", "record", "seq", "settled")

    def __init__(self, seq: int, changes: int, record: tuple[int, Term] | None, *, counts: bool) -> None:
        self.seq = seq
        self.changes = changes
        """How often the group had changed its coordinator by then."""
        self.record = record
        """Where the group's log ended, and the term of the next record; None: brokers do not replicate."""
        self.counts = counts
        """False: a deposed coordinator gave it."""
        self.settled = False
        """Its coordinator writes it, or has written it."""


class StaticIds:
    """Its handlers run after those of the panel that it reads."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._given: dict[GroupId, dict[MemberId, _Given]] = {}
        self._changes: dict[GroupId, int] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            MemberAdded: self._added,
            GroupBecame: self._became,
            GroupLoaded: self._changed,
            GroupUnloaded: self._changed,
        }

    def is_forgotten(self, group: GroupId, member_id: MemberId) -> bool:
        """Whether another coordinator than the one that gave this id cannot know it."""
        given = self._given.get(group, {}).get(member_id)
        if given is None:
            return False
        if not given.counts or (not given.settled and self._changes.get(group, 0) > given.changes):
            return True
        if given.record is None:
            return False
        position, term = given.record
        return given.settled and self._panel.logs.of(self._panel.log_of(group)).records.term_at(position) != term

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        if fact.instance_id is None:
            return
        panel, at = self._panel, self._panel.log_of(fact.group)
        log = panel.logs.of(at)
        record = None if at is None else (log.records.end, (max(log.epoch, 0), log.life))
        given = _Given(seen.seq, self._changes.get(fact.group, 0), record, counts=panel.is_current(seen))
        given.settled = given.counts and panel.groups[fact.group].state == "Stable"
        self._given.setdefault(fact.group, {})[fact.member_id] = given

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if self._panel.is_current(seen):
            for given in self._given.get(fact.group, {}).values():
                if fact.new == "Stable":
                    given.settled = True
                elif fact.old == "Stable" and given.seq == seen.seq:  # it came in by this rebalance
                    given.settled = False

    def _changed(self, seen: Seen, fact: GroupLoaded | GroupUnloaded) -> None:
        self._changes[fact.group] = self._changes.get(fact.group, 0) + 1
