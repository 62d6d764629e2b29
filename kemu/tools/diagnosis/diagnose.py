"""The ranked causes of an incident. "none" and "unknown" are answers, not failures."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from kemu.protocol.frozen import frozen
from kemu.tools.diagnosis.causes import CAUSES
from kemu.tools.diagnosis.causes.base import Finding, Remedy
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.timeline import StatedGeneration
from kemu.tools.incident.words import ID_REQUIRED, error_of
from kemu.tools.logs.events import Event

NONE, UNKNOWN = "none", "unknown"
MEANS: Mapping[str, str] = {
    NONE: "Nothing in these lines went wrong.",
    UNKNOWN: "These lines cannot tell the cause.",
    **{cause.id: cause.means for cause in CAUSES.values()},
}
"""Id of every answer -> its meaning."""

_TROUBLE = (
    *("rebalance-begins", "heartbeat-refused", "rejoin-requested", "rebalance-seen", "join-sent", "join-failed"),
    *("sync-failed", "commit-failed", "coordinator-lost", "session-timeout", "session-ends", "partitions-lost"),
    *("generation-reset", "error-to-application", "leader-election-failed", "fetch-refused", "append-refused"),
)
"""Kinds that need an end, or a reason."""
_SETTLED = (
    *("rebalance-completes", "assignment-received", "group-empty", "group-dead", "assignment-synced"),
    *("partitions-assigned", "session-begins", "member-reconciled", "heartbeat-ok", "commit-ok", "member-leaves"),
    *("coordinator-stops", "broker-stops", "controlled-shutdown", "isr-expanded", "leader-elected"),
)
_AT_REST = ("STABLE", "RUNNING", "steady", "started")
"""States of members that need nothing: KIP-848, Streams, librdkafka."""


@frozen(kw_only=True)
class RankedCause:
    """One cause of the ranking."""

    cause: str
    finding: Finding
    addressed_by: tuple[Remedy, ...] = ()

    def as_json(self, texts: Mapping[tuple[str, int], str] | None = None) -> dict[str, Any]:
        """The answer as data. ``texts``: (file, line) -> text of the line."""
        texts = texts or {}
        return {
            "cause": self.cause,
            "confidence": self.finding.confidence,
            "says": self.finding.says,
            "means": MEANS[self.cause],
            "evidence": [
                {
                    "file": event.file,
                    "line": event.line,
                    "time": event.time,
                    "kind": event.kind,
                    "text": texts.get((event.file, event.line), ""),
                }
                for event in self.finding.evidence
            ],
            "against": list(self.finding.against),
            "addressed_by": [attrs.asdict(remedy) for remedy in self.addressed_by],
        }


@frozen
class Diagnosis:
    """The answers, the most probable first, and the timeline. There is at least one answer."""

    answers: tuple[RankedCause, ...]
    timeline: tuple[StatedGeneration, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        """The ids of the answers."""
        return tuple(answer.cause for answer in self.answers)

    @property
    def evidence(self) -> tuple[Event, ...]:
        """The evidence of all answers."""
        return tuple(event for answer in self.answers for event in answer.finding.evidence)

    def as_json(self, texts: Mapping[tuple[str, int], str] | None = None) -> dict[str, Any]:
        """The diagnosis as data."""
        return {
            "causes": [answer.as_json(texts) for answer in self.answers],
            "timeline": [row.as_json() for row in self.timeline],
        }


def diagnose(events: Iterable[Event]) -> Diagnosis:
    """The causes that events of a log, or of a trace, support."""
    incident = Incident(events)
    found = {id_: finding for id_, cause in CAUSES.items() if (finding := cause().find(incident)) is not None}
    kept = [id_ for id_ in found if not _gives_way(id_, found)]
    answers = [RankedCause(cause=id_, finding=found[id_], addressed_by=CAUSES[id_].addressed_by) for id_ in kept]
    answers.sort(key=lambda answer: (-answer.finding.confidence, answer.cause))
    return Diagnosis(tuple(answers) or (_without_cause(incident),), incident.generations)


def _gives_way(id_: str, found: Mapping[str, Finding]) -> bool:
    """Whether a more exact cause is found, too."""
    others = set(found) - {id_}
    ways = CAUSES[id_].gives_way_to
    if "*" in ways:
        return any("*" not in CAUSES[other].gives_way_to for other in others) or any(
            found[other].confidence > found[id_].confidence for other in others
        )
    return bool(others & set(ways))


def _without_cause(incident: Incident) -> RankedCause:
    """The answer "none" if everything that began came to its end, else "unknown"."""
    stated = [event for event in incident.events if event.category != "group-detail"]
    if not stated:
        finding = Finding(says="no line speaks of a group or of leaders", confidence=0.5, evidence=())
        return RankedCause(cause=UNKNOWN, finding=finding)
    open_ = unsettled(incident)
    if open_:
        finding = Finding(
            says="the lines show a change of the group, but neither its reason nor its end",
            confidence=0.5,
            evidence=tuple(open_),
        )
        return RankedCause(cause=UNKNOWN, finding=finding)
    finding = Finding(says="every rebalance has an ordinary reason, and came to its end", confidence=0.7, evidence=())
    return RankedCause(cause=NONE, finding=finding)


def _leaves(event: Event) -> bool:
    """Whether a member ends its membership itself."""
    return any(word in (event.reason or "") for word in ("leaving the group", "being closed"))


def unsettled(incident: Incident) -> list[Event]:
    """The last trouble of each group that no later event ends, and errors after which a client's log has no success."""
    found = _failed_clients(incident)
    for group in (*incident.groups, None):
        own = [event for event in incident.events if event.group == group or event.category == "leadership"]
        last: Event | None = None
        for event in own:
            if event.kind in _TROUBLE and error_of(event) != ID_REQUIRED and not _leaves(event):
                last = event if event.group == group else last
            elif event.kind in _SETTLED or _leaves(event) or (event.kind == "client-state" and event.to in _AT_REST):
                last = None
        if last is not None and last not in found:
            found.append(last)
    return found


def _failed_clients(incident: Incident) -> list[Event]:
    """The last error of each client's application, if no later event of the client is a success."""
    open_: dict[tuple[str, str | None, int | None], Event] = {}
    for event in incident.events:
        client = event.file, event.client, event.process
        if event.client and event.kind == "error-to-application":
            open_[client] = event
        elif event.kind in _SETTLED:
            open_.pop(client, None)
    return list(open_.values())
