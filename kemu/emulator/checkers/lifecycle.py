"""Rules about one member alone: no facts while stopped, matching callbacks, records in order.

- works-when-down: a stopped or paused host reports nothing.
- works-when-closed: a closed consumer reports nothing.
- works-when-failed: a failed consumer receives and processes nothing; its application may close the consumer.
- started-twice: a host starts only when it is down.
- callback: onPartitionsAssigned names new partitions, onPartitionsRevoked owned partitions, onPartitionsLost all owned
  partitions.
- owned: the owned partitions are the sum of the callbacks. After a rebalance, the owned partitions equal the
  assignment.
- not-owned: a member processes only owned and assigned partitions.
- out-of-order: processing begins at the position and continues without a gap or a repetition.
- left-in-time: a member leaves its group only if its application
  unsubscribed, closed, or did not poll for ``max.poll.interval.ms``
  (KIP-62).

A zombie (paused, isolated or busy) continues with its partitions until it polls. Fencing stops the zombie's commits,
but not its processing; the figure ``zombie_records`` counts the processed records.

Source: Kafka 3.4 ``ConsumerCoordinator``, ``AbstractCoordinator``.
"""

from collections.abc import Collection, Mapping
from typing import Any, Self

from kemu.emulator.checkers.assignments import COOPERATIVE
from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.commits import UNSUBSCRIBE
from kemu.emulator.facts import (
    FaultApplied,
    HostDown,
    HostPaused,
    HostStarted,
    MemberReconfigured,
    Seen,
    once,
    only_news,
)
from kemu.emulator.watching.memberships import UNJOINED
from kemu.emulator.watching.panel import Holding
from kemu.emulator.watching.settings import Settings
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
"""Facts that a failed consumer never reports."""
ENDED_MEMBERSHIP = ("FENCED", "STALE", "FATAL")
"""The states of a member of the consumer protocol whose next callback is onPartitionsLost."""
AS_SHIPPED = (2, 4)
"""The release that shipped KIP-429. The KIP's page calls a listener at each rebalance."""
Life = tuple[ActorName, int]


class Lifecycle(Checker):
    """Judges the facts of each member alone."""

    name = "lifecycle"
    unknown_of_real_clients = "callbacks, polls and the end of its process"
    kinds = (
        "callback",
        "left-in-time",
        "not-owned",
        "out-of-order",
        "owned",
        "started-twice",
        "works-when-closed",
        "works-when-down",
        "works-when-failed",
    )

    def __init__(
        self, poll_us: Mapping[GroupId | ActorName, int] | None = None, settings: Settings | None = None
    ) -> None:
        """Create a checker of one run. ``poll_us``: ``max.poll.interval.ms`` by group, and by host if different."""
        super().__init__()
        self._poll_us = dict(poll_us or {})
        self._settings = settings
        self._left: dict[Life, str] = {}
        """Member that left its group -> description of the time between its last poll and its leave."""
        self._unsubscribed: dict[str, None] = {}
        """Hosts whose application ever unsubscribed."""
        self._reset: dict[MemberId, tuple[Life, str]] = {}
        """Member id that a member gave up although it had polled in time -> (life, description of the time)."""
        self._cooperates: dict[ActorName, bool] = {}
        """Member -> whether the member joined only with cooperative assignors."""
        self._ended: dict[ActorName, None] = {}
        """Members of the consumer protocol whose membership has ended, until they rejoin."""
        self._revoked_late: dict[ActorName, tuple[TopicPartition, ...]] = {}
        """Member -> the partitions whose onPartitionsRevoked returned after the end of the membership. onPartitionsLost
        names them again (``AbstractMembershipManager.transitionToFenced``, 4.0 to 4.3).
        """
        self._closed: dict[ActorName, tuple[int, int]] = {}
        """Actor -> (life, step) in which the consumer closed."""
        self._failed: dict[ActorName, tuple[int, int]] = {}
        self._may_report: dict[ActorName, int] = {}
        """Actor -> life that may report facts. One look-up decides the common case."""
        self.on = {
            HostStarted: self._started,
            HostDown: self._stopped,
            HostPaused: self._stopped,
            MemberBecame: self._became,
            MemberFailed: self._member_failed,
            ThreadReplaced: self._thread_replaced,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._partitions_lost,
            Processed: self._processed,
            GroupRequestRead: self._requested,
            AssignmentReceived: self._rejoined,
            FaultApplied: self._fault,
            MemberReconfigured: self._reconfigured,
        }
        self.every = self._reports

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings.by_member(lambda of: of.max_poll_interval_ms * 1_000), settings)

    def _say(self, seen: Seen, kind: str, text: str) -> None:
        self.violation(seen, kind, (seen.actor,), f"{seen.actor} {text}")

    # --- lives -------------------------------------------------------------------------------------------------

    @once
    @only_news
    def _reports(self, seen: Seen, _: Any) -> None:
        actor = seen.actor
        if actor and self._may_report.get(actor) != seen.life:
            self._is_allowed(seen)

    def _is_allowed(self, seen: Seen) -> None:
        known, reported = self.panel.hosts.get(host_of(seen.actor)), f"reported {type(seen.fact).__name__}"
        life = None if known is None else known.life if known.runs else 0
        before = len(self.violations) + self.suppressed
        if life is not None and life != seen.life:
            now = f"life {life} runs" if life else "it is down"
            self._say(seen, "works-when-down", f"{reported} in life {seen.life}; {now}")
        if known is not None and known.paused:
            self._say(seen, "works-when-down", f"{reported} while it was paused")
        closed, failed = self._closed.get(seen.actor), self._failed.get(seen.actor)
        if closed is not None and closed[0] == seen.life and closed[1] != seen.seq:
            self._say(seen, "works-when-closed", f"{reported} after it had closed")
        if failed is not None and failed[0] == seen.life and failed[1] != seen.seq and type(seen.fact) in WORK:
            self._say(seen, "works-when-failed", f"{reported} after it had failed for good")
        if len(self.violations) + self.suppressed == before and closed is None and failed is None:
            self._may_report[seen.actor] = seen.life

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._may_report.clear()
        if self.panel.was_running:
            self.violation(seen, "started-twice", (fact.host,), f"{fact.host} started while it ran")
        for ended in (self._closed, self._failed):
            for actor in [actor for actor in ended if host_of(actor) == fact.host]:
                del ended[actor]

    def _stopped(self, seen: Seen, fact: HostDown | HostPaused) -> None:
        self._may_report.clear()

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new in ENDED_MEMBERSHIP:
            self._ended[seen.actor] = None
        elif seen.actor in self._ended:
            del self._ended[seen.actor]
            self._revoked_late.pop(seen.actor, None)
        if fact.new == "CLOSED":
            self._closed[seen.actor] = (seen.life, seen.seq)
            self._may_report.pop(seen.actor, None)
        elif fact.new == "FAILED":
            self._failed[seen.actor] = (seen.life, seen.seq)
            self._may_report.pop(seen.actor, None)
        elif fact.new == UNJOINED:
            self._resets(seen, fact)

    def _thread_replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        """Restart the rules for the thread that replaced a failed thread of the same name."""
        self._failed.pop(part_on(fact.instance, fact.thread), None)

    def _member_failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._failed.setdefault(seen.actor, (seen.life, seen.seq))
        self._may_report.pop(seen.actor, None)

    # --- polls -------------------------------------------------------------------------------------------------

    def _resets(self, seen: Seen, fact: MemberBecame) -> None:
        host = host_of(seen.actor)
        # A member that finished records of a partition twice polled in between.
        readers = self.panel.progress.readers(seen.actor, seen.life)
        polled_us = max([reader.done_before_us for reader in readers.values()], default=-1)
        limit_us = self._poll_us.get(host, self._poll_us.get(fact.group, 0))
        free_us, waited_us = self.panel.disturbances.undisturbed_since_us([host]), seen.at_us - polled_us
        if free_us is not None and polled_us >= max(free_us, 0) and waited_us < limit_us * EARLY:
            text = f"{waited_us / 1e6:.1f} s after it polled, within max.poll.interval.ms"
            self._reset[fact.member_id] = (seen.actor, seen.life), text

    def _requested(self, seen: Seen, fact: GroupRequestRead) -> None:
        if fact.api == "JoinGroup":
            self._cooperates[fact.client] = all(name in COOPERATIVE for name, _ in fact.rows)
        for member_id, _ in fact.ids if fact.api == "LeaveGroup" else ():
            life, text = self._reset.pop(member_id, (("", 0), ""))
            if text and life[0] == fact.client:
                self._left[life] = text

    def _rejoined(self, seen: Seen, fact: AssignmentReceived) -> None:
        left = self._left.pop((seen.actor, seen.life), "")
        if left and host_of(seen.actor) not in self._unsubscribed:
            self._say(seen, "left-in-time", f"left its group {left}")

    def _fault(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.kind == UNSUBSCRIBE:
            self._unsubscribed[fact.text.partition(" ")[0]] = None

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        self._poll_us[fact.host] = 0

    # --- work --------------------------------------------------------------------------------------------------

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        holding, at = self.panel.holding(seen), (fact.topic, fact.partition)
        position = self.panel.progress.position_before
        kind, why = "out-of-order", ""
        if at not in holding.owned:
            kind, why = "not-owned", "which it does not own"
        elif holding.assignment is not None and at not in holding.assignment:
            kind, why = "not-owned", f"which it was not assigned in generation {holding.generation}"
        elif position is None:
            why = "but never set a position there"
        elif position != fact.first:
            why = f"but its position was {position}"
        elif fact.last <= fact.first:
            why = "which is an empty range"
        if why:
            self._say(seen, kind, f"processed records {fact.first} to {fact.last - 1} of {_names([at])}, {why}")
            self.panel.progress.judge_again(seen, fact)

    # --- callbacks ---------------------------------------------------------------------------------------------

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        holding, gained = self.panel.holding(seen), frozenset(self.panel.gained)
        repeated = [partition for partition in fact.added if partition not in gained]
        if repeated:
            self._say(seen, "callback", f"onPartitionsAssigned named {_names(repeated)}, which it owned already")
        self._owns(seen, holding, fact.owned)
        if holding.assignment is not None and holding.owned.keys() != holding.assignment:
            wrong = _names(holding.owned.keys() ^ holding.assignment)
            self._say(seen, "owned", f"its owned partitions after the rebalance differ from its assignment in {wrong}")

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        given_up = frozenset(self.panel.given_up)
        if seen.actor in self._ended:
            self._revoked_late[seen.actor] = fact.revoked
        foreign = [partition for partition in fact.revoked if partition not in given_up]
        if foreign:
            self._say(seen, "callback", f"onPartitionsRevoked named {_names(foreign)}, which it did not own")
        elif not fact.revoked and self._cooperates.get(seen.actor) and self._release(seen.actor) >= AS_SHIPPED:
            self._say(seen, "callback", "got onPartitionsRevoked without a partition")
        self._owns(seen, self.panel.holding(seen), fact.owned)

    def _release(self, actor: ActorName) -> tuple[int, int]:
        return AS_SHIPPED if self._settings is None else self._settings.profile(actor).release

    def _partitions_lost(self, seen: Seen, fact: PartitionsLost) -> None:
        wrong = {*self.panel.given_up, *self._revoked_late.pop(seen.actor, ())} ^ set(fact.lost)
        if wrong:
            text = f"onPartitionsLost and its owned partitions differ in {_names(wrong)}"
            self._say(seen, "callback", text)

    def _owns(self, seen: Seen, holding: Holding, owned: Collection[TopicPartition]) -> None:
        wrong = holding.owned.keys() ^ set(owned)
        if wrong:
            text = f"{type(seen.fact).__name__} and its callbacks differ in the owned partitions: {_names(wrong)}"
            self._say(seen, "owned", text)


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
