"""``client-bug-kafka-python-iterator``: an idle iterator of kafka-python before 1.4.7 sends no heartbeats."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.diagnosis.causes.stalled import gave_up
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.words import UNKNOWN_MEMBER


class KafkaPythonIterator(KnownCause):
    """The session of a kafka-python consumer expires although the process lives."""

    id: ClassVar[str] = "client-bug-kafka-python-iterator"
    means: ClassVar[str] = (
        "An idle consumer iterator of kafka-python before 1.4.7 does not poll, and loses its session."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("release", "kafka-python 1.4.7", "kafka-python pull request 1902"),
        Remedy("action", "call poll() instead of the iterator", "kafka-python pull request 1902"),
    )

    def find(self, incident: Incident) -> Finding | None:
        """kafka-python gives up its coordinator, finds the same one at once, and is unknown."""
        own = [event for event in gave_up(incident) if event.dialect == "kafka-python"]
        if not own or incident.of("poll-timeout"):
            return None
        found = incident.after(own[0], "coordinator-found")
        told = [event for event in incident.with_error(UNKNOWN_MEMBER) if incident.comes_after(own[0], event)]
        if not found or not told:
            return None
        return Finding(
            says="the session ended although the coordinator was reachable, and the member had become unknown",
            confidence=0.7,
            evidence=(*own, found[0], *told),
            against=("the log does not state the client's release; a cut network looks alike",),
        )
