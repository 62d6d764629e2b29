"""``broker-restart``: a broker stopped and came back."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, apart_us
from kemu.tools.logs.events import Event

AWAY_US = 3 * SECOND
"""A coordinator that is found again only after this time was away; a lost connection is found at the next try."""
_GROUP_WORK = (
    *("rebalance-begins", "rebalance-completes", "assignment-synced", "coordinator-found", "join-sent", "group-loaded"),
    *("broker-started", "leader-starts", "isr-expanded", "leader-elected"),
)


class BrokerRestart(KnownCause):
    """Leaders move away from a broker, and the broker is later in sync again; or a broker stops and starts."""

    id: ClassVar[str] = "broker-restart"
    means: ClassVar[str] = (
        "A broker stopped and came back: leaders and coordinators moved, and clients looked for them."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action", "stop brokers with controlled shutdown, one at a time", "KafkaConfig controlled.shutdown.enable"
        ),
        Remedy("setting", "at least three replicas, so that leaders can move", "KIP-966"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """A stop with later life, a replica that leaves or returns with a change of leaders, or both."""
        stops = incident.of("broker-stops", "controlled-shutdown", "coordinator-stops")
        later = incident.after(stops[-1], *_GROUP_WORK) if stops else []
        started = [event for event in incident.of("broker-started") if stops and incident.comes_after(stops[0], event)]
        back = self._returned(incident)
        away = self._away(incident)
        if not (started or back or away or (stops and [event for event in later if event.kind != "coordinator-found"])):
            return None
        evidence = tuple(dict.fromkeys((*stops, *started, *back, *away)))
        return Finding(
            says="a broker stopped and came back"
            if started or (stops and later)
            else "a broker was away and came back",
            confidence=0.9 if started or (back and stops) else 0.7,
            evidence=evidence,
            against=() if started else ("no line says that the broker started again",),
        )

    def _returned(self, incident: Incident) -> list[Event]:
        """Changes of leaders before which and after which the same replica left and entered ISRs."""
        grown = [
            event
            for event in incident.of("isr-expanded")
            if isinstance(event.from_, tuple) and isinstance(event.to, tuple) and len(event.to) > len(event.from_)
        ]
        if not grown:
            return []
        led = [
            event
            for event in incident.before(grown[0], "leader-starts", "leader-elected")
            if event.previous not in (None, -1, "-1") and event.partition in {each.partition for each in grown}
        ]
        return [*led, *grown] if led else []

    def _away(self, incident: Incident) -> list[Event]:
        """Losses of the coordinator's connection by several clients, and the same coordinator seconds later."""
        found: list[Event] = []
        for lost in incident.of("coordinator-lost"):
            again = incident.after(lost, "coordinator-found", group=lost.group)
            gap_us = apart_us(lost, again[0]) if again else None
            if again and gap_us is not None and gap_us >= AWAY_US:
                found += [lost, again[0]]
        clients = {(event.file, event.process, event.client, event.group) for event in found}
        return list(dict.fromkeys(found)) if len(clients) > 1 else []
