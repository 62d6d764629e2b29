"""``unclean-leave-then-session-timeout``: a consumer ended without LeaveGroup, and its group waits for its session."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import How, Incident
from kemu.tools.logs.events import Event

OLD_STATE = "wait-rebalance_cb"
"""A join state that only librdkafka 0.9 has; later releases have one state for each callback."""


class UncleanLeave(KnownCause):
    """A consumer ended without LeaveGroup and came back; all members wait until its old session expires."""

    id: ClassVar[str] = "unclean-leave-then-session-timeout"
    means: ClassVar[str] = (
        "A consumer ended without LeaveGroup, and the rebalance for its return waits for its session."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "close consumers before the process ends", "KafkaConsumer.close (3.9)"),
        Remedy(
            "setting", "session.timeout.ms shorter: a rebalance lasts as long as the session", "librdkafka issue 568"
        ),
        Remedy("setting", "group.instance.id: the returning member replaces the old one at once", "KIP-345"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("max-poll-interval-exceeded", "application-does-not-poll")

    def find(self, incident: Incident) -> Finding | None:
        """A join whose rebalance lasts until a member of the same client id expires; or words of librdkafka 0.9."""
        found = self._waited(incident)
        if found:
            return Finding(
                says="a rebalance for a new member lasted until the session of a member with the same client id ended",
                confidence=0.8,
                evidence=tuple(found),
            )
        old = [event for event in incident.of("client-state") if OLD_STATE in (event.to, event.from_)]
        told = [each for each in incident.rejoins if each.done is None and each.joined is None]
        if not old or not told:
            return None
        return Finding(
            says="a member of librdkafka 0.9 gave its partitions back, and a rebalance of that release lasts as long as"
            " the session of a member that is gone",
            confidence=0.3,
            evidence=tuple(
                event for each in told for event in (each.heard, *((each.revoked,) if each.revoked else ()))
            ),
            against=("the log of the member that left is missing", "the release is known from its words only"),
        )

    def _waited(self, incident: Incident) -> list[Event]:
        for gone in incident.departures_by(How.EXPIRED, How.NOT_REJOINED):
            last = gone.events[0]
            begins = incident.before(last, "rebalance-begins", group=gone.group)
            done = incident.before(last, "rebalance-completes", group=gone.group)
            if not begins or begins[-1].cause != "join" or (done and incident.comes_after(begins[-1], done[-1])):
                continue
            new = begins[-1].member or ""
            if gone.client_id and new != gone.member and new.startswith(gone.client_id):
                return [begins[-1], *gone.events]
        return []
