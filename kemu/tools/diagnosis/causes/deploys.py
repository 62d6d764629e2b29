"""``rolling-restart``, ``rolling-scale-of-workers``: a group changes member by member."""

from itertools import pairwise
from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, MemberRejoin, apart_us
from kemu.tools.incident.words import ID_REQUIRED, error_of
from kemu.tools.logs.events import Event

NEAR_US = 120 * SECOND
"""Changes at most this far apart belong to one deployment."""
_CHANGES = ("rebalance-begins", "member-joins", "member-leaves", "member-id-issued", "join-failed")
FEWEST = 2
"""Fewest members that left and came back, one after the other."""


class RestartInTurn(KnownCause):
    """Members leave and come back, one after the other."""

    id: ClassVar[str] = "rolling-restart"
    means: ClassVar[str] = "The members restart one after the other, and each restart costs two rebalances."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "group.instance.id, and session.timeout.ms longer than a restart", "KIP-345"),
        Remedy("setting", "cooperative-sticky, so that members keep their partitions", "KIP-429"),
        Remedy(
            "setting", "internal.leave.group.on.close=false: one rebalance for each restart", "ConsumerConfig (3.9)"
        ),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("max-poll-interval-exceeded", "application-crash-loop")

    def find(self, incident: Incident) -> Finding | None:
        """A coordinator's log in which leaves and joins of a group alternate."""
        for group in incident.groups:
            changes: list[tuple[str, Event]] = []
            for event in incident.of(*_CHANGES, group=group):
                what = _change(event)
                if what and not (changes and changes[-1][0] == what and _near(changes[-1][1], event, SECOND)):
                    changes.append((what, event))
            pairs = [
                (left, joined)
                for (was, left), (now, joined) in pairwise(changes)
                if (was, now) == ("leave", "join") and _near(left, joined, NEAR_US)
            ]
            if len(pairs) >= FEWEST and all(_near(a[1], b[0], NEAR_US) for a, b in pairwise(pairs)):
                return Finding(
                    says=f"in group {group}, {len(pairs)} members left and members joined, one after the other",
                    confidence=0.8,
                    evidence=tuple(event for pair in pairs for event in pair),
                )
        return None


class RollingScaleOfWorkers(KnownCause):
    """A member's own log shows several rebalances in a row that other members cause."""

    id: ClassVar[str] = "rolling-scale-of-workers"
    means: ClassVar[str] = "Other members stop or start one after the other, and each change is a rebalance for all."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "change the number of members in one step", "KIP-134"),
        Remedy("setting", "group.instance.id, so that a restart is no rebalance", "KIP-345"),
        Remedy("setting", "cooperative-sticky, so that members keep their partitions", "KIP-429"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """Two completed rebalances within ``NEAR_US``, and one in which the member kept its partitions or got more."""
        if incident.begins:
            return None
        for group in incident.groups:
            own = [each for each in incident.rejoins if each.group == group]
            if len({(each.heard.file, each.heard.process, each.heard.client) for each in own}) > 1:
                continue  # several members' logs would show the changes themselves
            done = [each for each in own if each.done is not None and _same(each)]
            near = [
                (a, b)
                for a, b in pairwise(done)
                if _near(a.heard, b.heard, NEAR_US) and (a.done is None or incident.comes_after(a.done, b.heard))
            ]
            if near and any(_kept(each) for each in done):
                return Finding(
                    says=f"{len(done)} rebalances of group {group} within"
                    f" {(apart_us(done[0].heard, done[-1].heard) or 0) / SECOND:.0f} s, for changes of other members",
                    confidence=0.5,
                    evidence=tuple(event for each in done for event in (each.heard, each.done) if event is not None),
                    against=("only one member's log: the changes themselves are not in it",),
                )
        return None


def _change(event: Event) -> str:
    """The words join and leave, or "": a new dynamic member is told to come again with its id (KIP-394)."""
    if event.kind in ("member-joins", "member-id-issued") or error_of(event) == ID_REQUIRED:
        return "join"
    if event.kind == "member-leaves":
        return "leave"
    return event.cause if event.kind == "rebalance-begins" and event.cause in ("join", "leave") else ""


def _near(first: Event, second: Event, most_us: int) -> bool:
    gap_us = apart_us(first, second)
    return gap_us is None or abs(gap_us) <= most_us


def _same(each: MemberRejoin) -> bool:
    return each.joined is not None and not any(event.kind == "poll-timeout" for event in each.again)


def _kept(each: MemberRejoin) -> bool:
    return each.before is not None and each.after is not None and set(each.before) <= set(each.after)
