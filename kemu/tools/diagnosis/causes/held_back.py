"""``partitions-held-back``: a member of the consumer protocol (KIP-848) gives up partitions late."""

from typing import ClassVar

from kemu.protocol.consumer_group.states import ReconcilingState
from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, apart_us, client_of
from kemu.tools.incident.words import plural
from kemu.tools.logs.events import Event

SLOW_US = 10 * SECOND
"""A member hears of a revocation within a heartbeat interval, 5 s by default, and tells the coordinator at once."""
_ENDS = ("member-leaves", "member-expires", "member-fenced", "static-replaced")


class PartitionsHeldBack(KnownCause):
    """A member stays in the state UNREVOKED_PARTITIONS."""

    id: ClassVar[str] = "partitions-held-back"
    means: ClassVar[str] = (
        "A member of the consumer protocol gives up partitions late, and other members wait for these partitions."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "poll more often: a member gives up partitions and calls its listener in poll()", "KIP-848"),
        Remedy("setting", "max.poll.interval.ms lower: the coordinator waits for this time at most", "KIP-848"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("max-poll-interval-exceeded",)

    def find(self, incident: Incident) -> Finding | None:
        """Members that were told to give up partitions, and did so after ``SLOW_US`` at least, or not at all."""
        held = [
            (first, until, us)
            for first, until in _revocations(incident)
            if (us := apart_us(first, until)) is not None and us >= SLOW_US
        ]
        if not held:
            return None
        first, until, us = max(held, key=lambda each: each[2])
        names = ", ".join(first.revoked or ()) or "partitions"
        how, own = _how(incident, first, until)
        others = f"; {plural(len(held), 'such revocation')} in all" if len(held) > 1 else ""
        return Finding(
            says=f"{_who(incident, first)} held back {names} for {us / SECOND:.1f} s: {how}{others}",
            confidence=0.8 if own else 0.7,
            evidence=(first, *own, until),
            against=() if own else ("no line of the member says whether it polled, or was in a callback",),
        )


def _revocations(incident: Incident) -> list[tuple[Event, Event]]:
    """Each revocation from the coordinator's first line about it to its end, or to the end of the lines."""
    found: list[tuple[Event, Event]] = []
    open_: dict[str, Event] = {}
    for event in incident.events:
        member = event.member or ""
        if event.kind == "member-reconciled" and event.state == ReconcilingState.UNREVOKED_PARTITIONS.name and member:
            open_.setdefault(member, event)
        elif event.kind in (*_ENDS, "member-reconciled") and member in open_:
            found.append((open_.pop(member), event))
    timed = [event for event in incident.events if event.at_us is not None]
    return [*found, *((first, timed[-1]) for first in open_.values() if timed)]


def _own_lines(incident: Incident, first: Event, until: Event, *kinds: str) -> list[Event]:
    """The member's own lines of these kinds during a revocation."""
    return [
        event
        for event in incident.of(*kinds, group=first.group)
        if event.client is not None and event.member == first.member
        if incident.comes_after(first, event) and incident.comes_after(event, until)
    ]


def _how(incident: Incident, first: Event, until: Event) -> tuple[str, tuple[Event, ...]]:
    """The reason of the delay: the member did not poll, or its listener ran. With the lines that say so."""
    heard = _own_lines(incident, first, until, "assignment-synced")[:1]
    gave = _own_lines(incident, first, until, "partitions-revoked")[:1]
    if not heard:
        return "it did not take its assignment in poll()", ()
    late_us = apart_us(first, heard[0]) or 0
    after_us = apart_us(heard[0], until) or 0
    if late_us >= after_us:
        return f"it did not poll for {late_us / SECOND:.1f} s", tuple(heard)
    return f"its revocation, with the callback, took {after_us / SECOND:.1f} s", (*heard, *gave)


def _who(incident: Incident, first: Event) -> str:
    """The member by its client id if a line has it, else by its id."""
    clients = [event.client for event in incident.events if event.member == first.member and event.client]
    return clients[0] if clients else client_of(first.member) or first.member or "a member"
