"""The base class of causes. A cause is one file of this folder, found as checkers are found."""

from typing import ClassVar, Literal

from kemu.protocol.frozen import frozen
from kemu.tools.incident.incident import Incident
from kemu.tools.logs.events import Event


@frozen
class Remedy:
    """A change that addresses a cause, and the place that says so."""

    kind: Literal["setting", "release", "action"]
    text: str
    source: str
    """A KIP, a JIRA issue, a class of Kafka with its release, or an issue of a client."""


@frozen(kw_only=True)
class Finding:
    """A cause that the events support."""

    says: str
    """One sentence with the members, times and counts."""
    confidence: float
    """From 0 to 1: 0.9 for a cause that the log states, 0.5 for a cause that another one could look like."""
    evidence: tuple[Event, ...]
    against: tuple[str, ...] = ()
    """Facts of the log that do not fit, and facts that are missing."""


class KnownCause:
    """One cause: a pure function from a case to a finding."""

    id: ClassVar[str] = ""
    means: ClassVar[str] = ""
    """The cause in one sentence, for a reader of Kafka's documentation."""
    addressed_by: ClassVar[tuple[Remedy, ...]] = ()
    gives_way_to: ClassVar[tuple[str, ...]] = ()
    """Ids of more exact causes: with one of them, this cause is not named. "*": any other cause."""

    def find(self, incident: Incident) -> Finding | None:
        """The finding, or None if the events do not support the cause."""
        raise NotImplementedError
