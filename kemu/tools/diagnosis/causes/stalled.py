"""``process-or-network-stalled``, ``network-hiccup``: a member heard nothing of its coordinator for some time."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, How, Incident
from kemu.tools.incident.words import UNKNOWN_MEMBER, error_of, plural
from kemu.tools.logs.events import Event

SILENT_US = 6 * SECOND
"""The least session.timeout.ms that brokers accept by default (group.min.session.timeout.ms)."""
BEATS = 3
"""A session usually lasts at least three heartbeat intervals."""


def gave_up(incident: Incident) -> list[Event]:
    """Events in which a member gave up its coordinator, because no heartbeat was answered within its session."""
    lost = [event for event in incident.of("coordinator-lost") if "session" in (event.reason or "").lower()]
    return [event for event in incident.events if event.kind == "session-timeout" or event in lost]


class ProcessOrNetworkStalled(KnownCause):
    """A member was silent for longer than its session, and was then unknown."""

    id: ClassVar[str] = "process-or-network-stalled"
    means: ClassVar[str] = "A process or its network was paused for longer than the session, so the membership ended."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action", "find the pause: garbage collection, a suspended machine, throttled CPU, a cut network", "KIP-62"
        ),
        Remedy("setting", "session.timeout.ms longer than the pauses of the process", "KIP-735"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = (
        *("client-bug-kafka-python-iterator", "max-poll-interval-exceeded", "coordinator-unreachable"),
        *("broker-restart", "coordinator-loading", "coordinator-moved", "application-does-not-poll"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """A silence between heartbeats before UNKNOWN_MEMBER_ID, or a member that gave up and was then unknown."""
        for gone in incident.departures_by(How.UNKNOWN):
            told = gone.events[0]
            silence = incident.silence_before_us(told)
            if silence is not None and silence[1] >= max(SILENT_US, BEATS * silence[2]):
                last, silent_us, usual_us = silence
                return Finding(
                    says=f"no heartbeat for {silent_us / SECOND:.1f} s (before: one each {usual_us / SECOND:.1f} s),"
                    " then the coordinator did not know the member",
                    confidence=0.85,
                    evidence=(last, *gone.events),
                    against=("a paused process and a cut network look alike in the member's log",),
                )
            timeouts = [
                event for event in gave_up(incident) if incident.comes_after(event, told) and event.group == told.group
            ]
            if timeouts:
                return Finding(
                    says="no heartbeat was answered within the session, then the coordinator did not know the member",
                    confidence=0.7,
                    evidence=(timeouts[-1], *gone.events),
                    against=("the broker may have been away instead",),
                )
        return self._silent(incident)

    def _silent(self, incident: Incident) -> Finding | None:
        """A member's log without a line for several heartbeat intervals."""
        paused = [each for each in incident.silences if each[1] is not None]
        if not paused:
            return None
        last, following, silent_us, usual_us = max(paused, key=lambda each: each[2])
        return Finding(
            says=f"{last.client} wrote no line for {silent_us / SECOND:.1f} s (before: a heartbeat each"
            f" {usual_us / SECOND:.1f} s)",
            confidence=0.7,
            evidence=(last,) if following is None else (last, following),
            against=("lines may be missing in the log",),
        )


class NetworkHiccup(KnownCause):
    """A member lost its coordinator for a moment, without consequences in the log."""

    id: ClassVar[str] = "network-hiccup"
    means: ClassVar[str] = "A member received no answer of its coordinator within its session, and then continued."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "look at the network and at the broker's pauses at this time", "AbstractCoordinator (3.9)"),
        Remedy("setting", "session.timeout.ms longer than such a pause", "KIP-735"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("*",)

    def find(self, incident: Incident) -> Finding | None:
        """Members that gave up their coordinator and were not told UNKNOWN_MEMBER_ID."""
        timeouts = gave_up(incident)
        if not timeouts or any(error_of(event) == UNKNOWN_MEMBER for event in incident.events):
            return None
        return Finding(
            says=f"no heartbeat was answered within the session, {plural(len(timeouts), 'time')}",
            confidence=0.5,
            evidence=tuple(timeouts),
            against=("the log shows no consequence for the membership",),
        )
