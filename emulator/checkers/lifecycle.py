"""The dead are silent, the paused stand still, callbacks pair up, and who polls in time stays.

Theory.

1. A crash is a power cut: after ``HostDown`` no actor of the host reports anything in that life. A paused host reports
   nothing until it resumes. A consumer that closed reports nothing more; one that failed for good may still be closed
   by its application (revoked or lost, then CLOSED), but takes and processes nothing.
2. ``onPartitionsAssigned`` names only what the member did not own, ``onPartitionsRevoked`` only what it owned,
   ``onPartitionsLost`` all it owned; what each fact says is owned afterwards is exactly the sum of them. A new life
   owns nothing. After a rebalance a member owns exactly its assignment.
3. A member that goes on in the same life left its group only if its application unsubscribed, or had not polled for
   ``max.poll.interval.ms`` (KIP-62, ``AbstractCoordinator.HeartbeatThread`` 3.4). Between two pieces of work on one
   partition lies a poll.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.commits import UNSUBSCRIBE
from kemu.emulator.facts import FaultApplied, HostDown, HostPaused, HostStarted, MemberReconfigured, Seen
from kemu.emulator.watching.memberships import UNJOINED
from kemu.emulator.watching.panel import Holding
from kemu.emulator.watching.shadow_groups import EARLY
from kemu.protocol.names import ActorName, GroupId, MemberId, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupRequestRead,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import RangeProcessed
from kemu.protocol.notes.streams import ThreadReplaced

WORK = (AssignmentReceived, PartitionsAssigned, PositionSet, Processed, RangeProcessed)
"""What a failed consumer does no more."""


class Lifecycle(Checker):
    """See the module."""

    name = "lifecycle"

    def __init__(self, poll_us: Mapping[GroupId | ActorName, int] | None = None) -> None:
        """A checker of one run; ``poll_us``: ``max.poll.interval.ms`` by group, and by host where it is another."""
        super().__init__()
        self._poll_us = dict(poll_us or {})
        self._unsubscribed: dict[str, None] = {}
        """Hosts that ever unsubscribed."""
        self._worked_us: dict[tuple[ActorName, int], dict[TopicPartition, int]] = {}
        """(actor, life) -> when it was last done with work on each partition."""
        self._polled_us: dict[tuple[ActorName, int], int] = {}
        """(actor, life) -> a time at which, or after which, it polled."""
        self._reset: dict[MemberId, tuple[ActorName, int, str]] = {}
        """Ids that a member gave up although it had polled in time: who, and how long before."""
        self._left: dict[tuple[ActorName, int], str] = {}
        """Those that left their group with that."""
        self._closed: dict[str, tuple[int, int]] = {}
        """Actor -> (life, step) in which its consumer closed."""
        self._failed: dict[str, tuple[int, int]] = {}
        self._free: dict[str, int] = {}
        """Actor -> its life, if nothing forbids it to speak: the common case, answered by one look-up."""
        self.on = {
            HostStarted: self._started,
            HostDown: self._down,
            HostPaused: self._paused,
            MemberBecame: self._became,
            MemberFailed: self._member_failed,
            ThreadReplaced: self._thread_replaced,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
            Processed: self._processed,
            GroupRequestRead: self._requested,
            AssignmentReceived: self._goes_on,
            FaultApplied: self._fault,
            MemberReconfigured: self._reconfigured,
        }
        self.every = self._speaks

    # --- lives -------------------------------------------------------------------------------------------------

    def _speaks(self, seen: Seen, _: Any) -> None:
        actor = seen.actor
        if actor and self._free.get(actor) != seen.life:
            self._is_allowed(seen)

    def _is_allowed(self, seen: Seen) -> None:
        host = host_of(seen.actor)
        known = self.panel.hosts.get(host)
        life = None if known is None else known.life if known.runs else 0
        before = len(self.violations) + self.suppressed
        if life is not None and life != seen.life:
            self._say(
                seen,
                "works-when-down",
                f"reported {_name(seen)} in life {seen.life}; {f'life {life} runs' if life else 'it is down'}",
            )
        if known is not None and known.paused:
            self._say(seen, "works-when-down", f"reported {_name(seen)} while it stood still")
        closed = self._closed.get(seen.actor)
        if closed is not None and closed[0] == seen.life and closed[1] != seen.seq:
            self._say(seen, "works-when-closed", f"reported {_name(seen)} after it had closed")
        if type(seen.fact) in WORK:
            failed = self._failed.get(seen.actor)
            if failed is not None and failed[0] == seen.life and failed[1] != seen.seq:
                self._say(seen, "works-when-failed", f"reported {_name(seen)} after it had failed for good")
        if len(self.violations) + self.suppressed == before and closed is None and seen.actor not in self._failed:
            self._free[seen.actor] = seen.life

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._free.clear()
        if self.panel.ran_already:
            self.violation(seen, "started-twice", (fact.host,), f"{fact.host} started while it ran")
        for ended in (self._closed, self._failed):
            for actor in [actor for actor in ended if host_of(actor) == fact.host]:
                del ended[actor]

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._free.clear()

    def _paused(self, seen: Seen, fact: HostPaused) -> None:
        self._free.clear()

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new == "CLOSED":
            self._closed[seen.actor] = (seen.life, seen.seq)
            self._free.pop(seen.actor, None)
        elif fact.new == "FAILED":
            self._failed[seen.actor] = (seen.life, seen.seq)
            self._free.pop(seen.actor, None)
        elif fact.new == UNJOINED:
            self._resets(seen, fact)

    def _thread_replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        """Another of the same name is not the one that failed."""
        self._failed.pop(part_on(fact.instance, fact.thread), None)

    def _member_failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._failed.setdefault(seen.actor, (seen.life, seen.seq))
        self._free.pop(seen.actor, None)

    # --- polls -------------------------------------------------------------------------------------------------

    def _processed(self, seen: Seen, fact: Processed) -> None:
        life, at = (seen.actor, seen.life), (fact.topic, fact.partition)
        worked_us = self._worked_us.setdefault(life, {})
        if at in worked_us:
            self._polled_us[life] = max(self._polled_us.get(life, 0), worked_us[at])
        worked_us[at] = seen.at_us

    def _resets(self, seen: Seen, fact: MemberBecame) -> None:
        host, polled_us = host_of(seen.actor), self._polled_us.get((seen.actor, seen.life))
        limit_us = self._poll_us.get(host, self._poll_us.get(fact.group, 0))
        free_us = self.panel.disturbances.undisturbed_since_us([host])
        if polled_us is None or free_us is None or free_us > polled_us or host in self._unsubscribed:
            return
        if seen.at_us - polled_us < limit_us * EARLY:
            text = f"{(seen.at_us - polled_us) / 1e6:.1f} s after it polled, within max.poll.interval.ms"
            self._reset[fact.member_id] = (seen.actor, seen.life, text)

    def _requested(self, seen: Seen, fact: GroupRequestRead) -> None:
        for member_id, _ in fact.ids if fact.api == "LeaveGroup" else ():
            actor, life, text = self._reset.pop(member_id, ("", 0, ""))
            if actor and actor == fact.client:
                self._left[actor, life] = text

    def _goes_on(self, seen: Seen, fact: AssignmentReceived) -> None:
        text = self._left.pop((seen.actor, seen.life), "")
        if text and host_of(seen.actor) not in self._unsubscribed:
            self._say(seen, "left-in-time", f"left its group {text}")

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind == UNSUBSCRIBE:
            self._unsubscribed[fact.text.partition(" ")[0]] = None

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._poll_us[fact.host] = 0

    # --- callbacks ---------------------------------------------------------------------------------------------

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        holding = self.panel.holding(seen)
        gained = frozenset(self.panel.gained)
        again = [partition for partition in fact.added if partition not in gained]
        if again:
            self._say(seen, "callback", f"onPartitionsAssigned named {_names(again)}, which it owned already")
        self._owns(seen, holding, fact.owned)
        if holding.assignment is not None and holding.owned.keys() != holding.assignment:
            wrong = sorted(holding.owned.keys() ^ holding.assignment)
            self._say(
                seen, "owned", f"what it owns after the rebalance is not its assignment; they differ in {_names(wrong)}"
            )

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        holding = self.panel.holding(seen)
        given_up = frozenset(self.panel.given_up)
        foreign = [partition for partition in fact.revoked if partition not in given_up]
        if foreign:
            self._say(seen, "callback", f"onPartitionsRevoked named {_names(foreign)}, which it did not own")
        self._owns(seen, holding, fact.owned)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        wrong = sorted(set(self.panel.given_up) ^ set(fact.lost))
        if wrong:
            self._say(
                seen, "callback", f"onPartitionsLost did not name exactly what it owned; they differ in {_names(wrong)}"
            )

    def _owns(self, seen: Seen, holding: Holding, owned: Collection[TopicPartition]) -> None:
        wrong = sorted(holding.owned.keys() ^ set(owned))
        if wrong:
            self._say(
                seen, "owned", f"{_name(seen)} says it owns something else than its callbacks do: {_names(wrong)}"
            )

    def _say(self, seen: Seen, kind: str, text: str) -> None:
        self.violation(seen, kind, (seen.actor,), f"{seen.actor} {text}")


def _name(seen: Seen) -> str:
    return type(seen.fact).__name__


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
