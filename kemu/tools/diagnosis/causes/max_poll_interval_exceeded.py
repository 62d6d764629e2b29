"""``max-poll-interval-exceeded``: the application did not poll in time, so its member left."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Departure, How, Incident, apart_us
from kemu.tools.incident.words import plural

SHOWN = 3
"""Most members whose work is estimated in the text."""


class MaxPollIntervalExceeded(KnownCause):
    """A member left, or was not waited for, because its application did not poll."""

    id: ClassVar[str] = "max-poll-interval-exceeded"
    means: ClassVar[str] = (
        "The application needed longer than max.poll.interval.ms between two polls, so its member left the group."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "max.poll.interval.ms longer than the work on the records of one poll", "KIP-62"),
        Remedy("setting", "max.poll.records lower, so that the work on one poll is shorter", "KIP-41"),
        Remedy("action", "less work per record, or a pause of the partitions while another thread works", "KIP-62"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Members that left after their poll timeout, or that did not rejoin within the rebalance timeout.

        Lines of some clients do not name the group, such as librdkafka's MAXPOLL.
        """
        gone = incident.departures_by(How.POLL_TIMEOUT, How.NOT_REJOINED)
        if gone:
            stated = [each for each in gone if each.how is How.POLL_TIMEOUT]
            work = "; ".join([text for each in gone if (text := self._work(incident, each))][:SHOWN])
            return Finding(
                says=f"{plural(len(gone), 'member')} did not poll in time{': ' + work if work else ''}",
                confidence=0.95 if stated else 0.7,
                evidence=tuple(event for each in gone for event in each.events),
                against=() if stated else ("the rebalance timeout is max.poll.interval.ms only for Java consumers",),
            )
        nameless = [event for event in incident.of("poll-timeout") if event.group is None]
        if nameless:
            return Finding(
                says=f"{plural(len(nameless), 'member')} of an unnamed group did not poll in time",
                confidence=0.9,
                evidence=tuple(nameless),
            )
        failed = [
            event
            for event in incident.of("commit-failed", "error-to-application")
            if "max.poll.interval" in f"{event.reason} {event.error}".lower()
        ]
        if not failed:
            return None
        return Finding(
            says=f"{plural(len(failed), 'commit')} failed because the member was no longer in its group",
            confidence=0.5,
            evidence=tuple(failed),
            against=("the text of the error guesses at the poll interval; no line says that the member left",),
        )

    def _work(self, incident: Incident, gone: Departure) -> str:
        """The estimated time without a poll: from the last assignment to the departure, and on to the return."""
        first = gone.events[0]
        own = [
            event
            for event in incident.before(first, "partitions-assigned", group=gone.group)
            if (event.file, event.process, event.client) == (first.file, first.process, first.client)
        ]
        back = [
            event
            for event in incident.after(first, "join-sent", "partitions-lost", group=gone.group)
            if (event.file, event.process, event.client) == (first.file, first.process, first.client)
        ]
        parts = []
        if first.ms is not None:
            parts.append(f"max.poll.interval.ms was exceeded by {first.ms} ms")
        if own and (us := apart_us(own[-1], first)) is not None:
            parts.append(f"it left {us / SECOND:.1f} s after its last assignment")
        if back and (us := apart_us(first, back[0])) is not None:
            parts.append(f"the application polled again {us / SECOND:.1f} s later")
        return " and ".join(parts)
