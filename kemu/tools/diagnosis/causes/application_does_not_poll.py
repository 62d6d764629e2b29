"""``application-does-not-poll``, ``rebalance-callback-slow``: a member knows of a rebalance, and joins late."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, MemberRejoin, apart_us
from kemu.tools.logs.events import Event

LATE_US = 10 * SECOND
"""A member that polls joins within a second of the news; the default of max.poll.interval.ms allows 300 s."""


def _late_us(incident: Incident, each: MemberRejoin, start: str) -> int | None:
    """Time from the news (or the revocation) until the next step of the member; the last refusal if no step follows."""
    first = each.heard if start == "heard" else each.revoked
    if first is None:
        return None
    ends = [
        event for event in (each.joined, *each.again[-1:]) if event is not None and incident.comes_after(first, event)
    ]
    spans = [us for end in ends if (us := apart_us(first, end)) is not None]
    return max(spans, default=None)


class ApplicationDoesNotPoll(KnownCause):
    """Heartbeats are refused for long, and nobody serves the rebalance."""

    id: ClassVar[str] = "application-does-not-poll"
    means: ClassVar[str] = (
        "A member's heartbeats say that the group rebalances, but its application does not poll, so the group waits."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "poll more often, or work in another thread with the partitions paused", "KIP-62"),
        Remedy("setting", "max.poll.interval.ms below the time that other members may wait", "KIP-62"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("max-poll-interval-exceeded", "rebalance-callback-slow")

    def find(self, incident: Incident) -> Finding | None:
        """Members between the news and their revocation or join for more than ``LATE_US``."""
        late = [(each, us) for each in incident.rejoins if (us := _late_us(incident, each, "heard")) and us >= LATE_US]
        if not late:
            return None
        worst = max(us for _, us in late)
        return Finding(
            says=f"a member heard of a rebalance and did not join for {worst / SECOND:.1f} s",
            confidence=0.8 if any(each.again for each, _ in late) else 0.6,
            evidence=tuple(event for each, _ in late for event in (each.heard, *each.again, *_some(each.joined))),
            against=() if any(each.joined for each, _ in late) else ("the log ends before the member joins",),
        )


class RebalanceCallbackSlow(KnownCause):
    """The application's rebalance listener takes long."""

    id: ClassVar[str] = "rebalance-callback-slow"
    means: ClassVar[str] = "onPartitionsRevoked or onPartitionsAssigned of an application takes seconds, and all wait."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "less work in the rebalance listener", "ConsumerRebalanceListener (3.9)"),
        Remedy("setting", "cooperative-sticky, so that members keep reading in a rebalance", "KIP-429"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("max-poll-interval-exceeded",)

    def find(self, incident: Incident) -> Finding | None:
        """Java members that join more than ``LATE_US`` after "Revoke previously assigned partitions"."""
        late = [
            (each, us)
            for each in incident.rejoins
            if each.revoked is not None and each.revoked.kind in ("revoke-begins", "partitions-revoked")
            if each.joined is not None and (us := apart_us(each.revoked, each.joined)) and us >= LATE_US
        ]
        if not late:
            return None
        worst = max(us for _, us in late)
        return Finding(
            says=f"a member joined {worst / SECOND:.1f} s after its revocation began",
            confidence=0.7,
            evidence=tuple(event for each, _ in late for event in (*_some(each.revoked), *_some(each.joined))),
            against=("a commit before the join can take long, too",),
        )


def _some(event: Event | None) -> tuple[Event, ...]:
    return () if event is None else (event,)
