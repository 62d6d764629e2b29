"""``coordinator-loading``, ``coordinator-moved``, ``coordinator-unreachable``: a coordinator does not serve."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import SECOND, Incident, apart_us
from kemu.tools.incident.words import LOADING, NOT_AVAILABLE, NOT_COORDINATOR, plural
from kemu.tools.logs.events import Event
from kemu.tools.logs.wordings.values import broker_id

_HELPED = ("join-answered", "assignment-synced", "partitions-assigned", "heartbeat-ok", "session-begins", "commit-ok")
FEWEST = 2
"""Fewest failures of one node in a row."""
_ANSWERS = ("join-failed", "sync-failed", "heartbeat-refused", "commit-failed", "coordinator-lost", "rejoin-requested")


def refused(incident: Incident) -> list[Event]:
    """Events in which a broker said that it does not serve the group, or not yet."""
    return incident.with_error(NOT_COORDINATOR, LOADING, NOT_AVAILABLE, kinds=_ANSWERS)


def node_of(event: Event) -> str:
    """The id or address of the coordinator that the event names."""
    node = event.node or ""
    if node.startswith("-") or node.endswith(("/bootstrap", "/internal")):
        return ""
    number = broker_id(node)
    return node.strip() if number is None else str(number)


def moves(incident: Incident) -> list[Event]:
    """The events that name a coordinator other than the one named before for the group, and the former events."""
    found: list[Event] = []
    last: dict[tuple[str, bool], Event] = {}
    for event in incident.of("coordinator-found", "coordinator-changed", "group-loaded"):
        key = event.group or event.offsets_partition or "", event.kind == "group-loaded"
        former = last.get(key)
        if former is not None and node_of(former) and node_of(event) and node_of(former) != node_of(event):
            found += [former, event]
        last[key] = event
    return found


class CoordinatorLoading(KnownCause):
    """The group's broker is up, and does not serve the group yet."""

    id: ClassVar[str] = "coordinator-loading"
    means: ClassVar[str] = (
        "The broker of the group answers, but does not serve the group yet, as after a start or an election."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action", "wait: clients look for the coordinator again", "GroupMetadataManager.loadGroupsAndOffsets (3.9)"
        ),
        Remedy(
            "setting", "offsets.load.buffer.size, compaction of __consumer_offsets: a faster load", "KafkaConfig (3.9)"
        ),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("coordinator-moved", "broker-restart")

    def find(self, incident: Incident) -> Finding | None:
        """Answers NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE of one node."""
        answers = refused(incident)
        if not answers:
            return None
        return Finding(
            says=f"{plural(len(answers), 'request')} answered by a broker that did not serve the group",
            confidence=0.8 if len(answers) > 1 else 0.6,
            evidence=tuple(answers),
        )


class CoordinatorMoved(KnownCause):
    """Another broker became the coordinator of a group."""

    id: ClassVar[str] = "coordinator-moved"
    means: ClassVar[str] = (
        "Another broker became the group's coordinator, because the offsets partition has a new leader."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("action", "find out why the leader of the __consumer_offsets partition changed", "KIP-62"),
        Remedy("setting", "replication of __consumer_offsets, so that a new leader exists", "KafkaConfig (3.9)"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("broker-restart",)

    def find(self, incident: Incident) -> Finding | None:
        """Two nodes in turn; or one broker that gave the group away, and did not stop."""
        named, unloaded = moves(incident), incident.of("group-unloaded")
        if not named and (not unloaded or incident.of("coordinator-stops", "broker-stops", "controlled-shutdown")):
            return None
        return Finding(
            says=f"the coordinator changed: {plural(len(named) // 2, 'change')} of its broker, "
            f"{plural(len(unloaded), 'unload')}",
            confidence=0.8 if named else 0.6,
            evidence=tuple(dict.fromkeys((*unloaded, *named))),
            against=() if named else ("the log of the new coordinator is missing",),
        )


class CoordinatorUnreachable(KnownCause):
    """A member finds its coordinator, and cannot use the address."""

    id: ClassVar[str] = "coordinator-unreachable"
    means: ClassVar[str] = "FindCoordinator names a broker, but the member cannot talk to the broker at this address."
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy("setting", "advertised.listeners: an address that clients can reach", "KIP-103"),
        Remedy("action", "check the network between client and broker", "AbstractCoordinator (3.9)"),
    )
    gives_way_to: ClassVar[tuple[str, ...]] = ("broker-restart", "coordinator-loading")

    def find(self, incident: Incident) -> Finding | None:
        """At least two losses of one node in a row, none with an answer in between, within a minute each."""
        run: list[Event] = []
        best: list[Event] = []
        told = refused(incident)
        for event in incident.of("coordinator-lost", "join-failed", *_HELPED):
            if event.kind in _HELPED or event in told:
                run = []
            elif event.kind == "coordinator-lost":
                gap_us = apart_us(run[-1], event) if run else 0
                same = not run or node_of(run[-1]) == node_of(event) or not node_of(event)
                run = [*run, event] if same and (gap_us is None or gap_us <= 60 * SECOND) else [event]
                best = max(best, run, key=len)
        found = incident.of("coordinator-found")
        again = [event for event in found if best and incident.comes_after(best[0], event)]
        if len(best) < FEWEST or not again or (incident.of("coordinator-stops", "broker-stops")):
            return None
        return Finding(
            says=f"the coordinator was found again and lost {len(best)} times without one answer",
            confidence=0.8 if len(best) > FEWEST else 0.6,
            evidence=tuple(sorted([*best, *again], key=lambda event: event.line)),
            against=("a broker that restarts looks alike for some seconds",) if len(best) <= FEWEST else (),
        )
