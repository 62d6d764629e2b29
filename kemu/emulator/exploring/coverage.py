"""Coverage of runs: messages by role, state and outcome; transitions of the declared tables; probes.

Coverage is a ``Recorder``, so a run without coverage pays nothing. Coverage works for every scenario.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kemu.actors.consumer import state as of_members
from kemu.actors.controller import partition_states, replica_states
from kemu.actors.coordinator import state as of_groups
from kemu.emulator.exploring.probes import PROBES, Probe
from kemu.emulator.facts import HostStarted
from kemu.emulator.trace import rows
from kemu.emulator.trace.recorder import read_back
from kemu.emulator.trace.rows import Packets, Row, noted_by
from kemu.emulator.trace.traces import BrokenRow, PacketRow, StepRow
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, host_of, is_coordinator, path_and_peer, role_of
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, GroupUnloaded, MemberBecame
from kemu.protocol.notes.replication import (
    BecameController,
    ControllerResigned,
    PartitionStateBecame,
    ReplicaStateBecame,
)
from kemu.protocol.wire.codec import CodecError, unseal
from kemu.protocol.wire.schema import SPECS, Kind
from kemu.protocol.wire.values import from_row

UNDER_WAY = ("sent", "queued", "held", "released")
"""Verdicts of the network on packets that may still arrive."""
UNANSWERED = "unanswered"
STATELESS = "-"
"""The state of a role without states."""


ROLES = ("member", "coordinator", "producer", "admin", "broker", "controller", "store")


class Point(NamedTuple):
    """A received message with the receiver's role, its state, and the outcome.

    ``message``: "JoinGroup", or "JoinGroup reply". ``outcome``: the error of a reply, or of the answer to a request;
    ``UNANSWERED`` for a request without an answer.
    """

    role: str
    state: str
    message: str
    outcome: str


class Transition(NamedTuple):
    """A transition of a table ("group", "member", "partition", "replica")."""

    table: str
    old: str
    new: str


def _declared() -> frozenset[Transition]:
    groups = {
        Transition("group", old.value, new.value) for old, row in of_groups.TRANSITIONS.items() for new in row.values()
    }
    tables: tuple[tuple[str, Mapping[Any, Any]], ...] = (
        ("member", of_members.MAY_FOLLOW),
        ("partition", partition_states.MAY_FOLLOW),
        ("replica", replica_states.MAY_FOLLOW),
    )
    others = {
        Transition(table, old.value, new.value) for table, may in tables for new, olds in may.items() for old in olds
    }
    return frozenset(groups | others)


DECLARED = _declared()
"""Every transition that the machines' tables allow."""
_TABLES: Mapping[type, str] = MappingProxyType(
    {GroupBecame: "group", MemberBecame: "member", PartitionStateBecame: "partition", ReplicaStateBecame: "replica"}
)
_OF_KIND: Mapping[str, tuple[Probe, ...]] = MappingProxyType(
    {
        kind.__name__: tuple(probe for probe in PROBES.values() if probe.kind is kind)
        for kind in {probe.kind: None for probe in PROBES.values()}
    }
)
_READ = frozenset({*_OF_KIND, *(kind.__name__ for kind in _TABLES), "BecameController", "ControllerResigned"})
"""Names of the facts that coverage reads; other facts are skipped."""


class Coverage:
    """The coverage of any number of runs, each recorded by its own ``RunCoverage``."""

    def __init__(self) -> None:
        self.points: Counter[Point] = Counter()
        self.moves: Counter[Transition] = Counter()
        self.probes: Counter[str] = Counter()
        self.runs = 0

    def unhit(self) -> tuple[str, ...]:
        """The names of probes that no run has hit."""
        return tuple(name for name in PROBES if not self.probes[name])

    def untaken(self) -> tuple[Transition, ...]:
        """The declared transitions that no run has taken, in order."""
        return tuple(sorted(DECLARED - self.moves.keys()))

    def add(self, other: "Coverage") -> None:
        """Add the coverage of other runs."""
        self.points.update(other.points)
        self.moves.update(other.moves)
        self.probes.update(other.probes)
        self.runs += other.runs

    def of_run(self) -> "RunCoverage":
        """A new recorder, for one more run."""
        self.runs += 1
        return RunCoverage(self)


class RunCoverage:
    """A ``Recorder`` of one run; ``finish`` counts requests without an answer."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._packets = Packets()
        self._parts: dict[int, ActorName] = {}
        """Packet -> receiver; the receiver may be a part of the actor whose machine steps."""
        self._states: dict[tuple[ActorName, str], str] = {}
        """(actor, group or "") -> state."""
        self._asked: dict[tuple[ActorName, ActorName, int, int], Point] = {}
        """(receiver, sender, connection, request id) -> the point of the received request."""

    def step(self, row: StepRow) -> None:
        """Count one step of a machine: the event in the state before the step, and the effects."""
        _, _, actor, _, _, event, effects = row
        if event[0] == rows.RECEIVED:
            self._received(actor, event[1])
        self._packets.sent(actor, effects)
        for effect in effects:
            if effect[0] == rows.NOTE:
                if effect[1][0] in _READ:
                    self._noted(noted_by(actor, effect), from_row(read_back(effect[1])))
            elif effect[0] == rows.SEND:
                self._answer(actor, effect)

    def packet(self, row: PacketRow) -> None:
        """Note the network's verdict on a packet."""
        number, to, connection, verdict = row[0], row[3], row[4], row[7]
        if verdict in UNDER_WAY:
            self._packets.routed(number, connection)
            self._parts[number] = to
        else:
            self._packets.lost(number)
            self._parts.pop(number, None)

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Note a fact of the world. A process that starts has no state yet."""
        if isinstance(fact, HostStarted):
            self._states = {at: state for at, state in self._states.items() if host_of(at[0]) != fact.host}
        self._probe(fact)

    def broken(self, row: BrokenRow) -> None:
        """Count the received message of a step in which an assertion failed."""
        _, _, actor, _, _, event, _ = row
        if event[0] == rows.RECEIVED:
            self._received(actor, event[1])

    def finish(self) -> None:
        """Count the requests that have no answer at the end of the run."""
        for point in self._asked.values():
            self._coverage.points[point._replace(outcome=UNANSWERED)] += 1
        self._asked.clear()

    def _received(self, actor: ActorName, packet_id: int) -> None:
        packet = self._packets.take(packet_id)
        receiver = self._parts.pop(packet_id, actor)
        try:
            message, _ = unseal(packet.sealed)
        except CodecError:
            return
        spec = SPECS[type(message)]
        role, state = role_of(actor), self._state(receiver, message)
        if spec.kind is Kind.REPLY:
            self._coverage.points[Point(role, state, f"{spec.name} reply", error_of(message).name)] += 1
        else:
            point = Point(role, state, spec.name, UNANSWERED)
            self._asked[actor, packet.sender, packet.connection, packet.request_id] = point

    def _answer(self, actor: ActorName, effect: Row) -> None:
        _, _, to, connection, request_id, sealed = effect
        path, peer = path_and_peer(to)
        asked = self._asked.pop((actor, peer, connection, request_id), None) if not path else None
        if asked is not None:
            message, _ = unseal(sealed)
            self._coverage.points[asked._replace(outcome=error_of(message).name)] += 1

    def _state(self, actor: ActorName, message: object) -> str:
        group = getattr(message, "group", "") if is_coordinator(actor) else ""
        default = "none" if group else STATELESS
        return self._states.get((actor, group), default)

    def _noted(self, actor: ActorName, fact: Any) -> None:
        match fact:
            case GroupBecame(group=group, new=new):
                self._states[actor, group] = new
            case GroupLoaded(group=group, state=state):
                self._states[actor, group] = state
            case GroupUnloaded(group=group):
                self._states.pop((actor, group), None)
            case MemberBecame(new=new):
                self._states[actor, ""] = new
            case BecameController():
                self._states[actor, ""] = "active"
            case ControllerResigned():
                self._states[actor, ""] = "resigned"
        table = _TABLES.get(type(fact))
        if table is not None:
            self._coverage.moves[Transition(table, fact.old, fact.new)] += 1
        self._probe(fact)

    def _probe(self, fact: Any) -> None:
        for probe in _OF_KIND.get(type(fact).__name__, ()):
            if probe.shows(fact):
                self._coverage.probes[probe.name] += 1


def error_of(message: object) -> ErrorCode:
    """The error of a message, or the first error of its parts; NONE for a message without an error."""
    error = getattr(message, "error", ErrorCode.NONE)
    if error is not ErrorCode.NONE:
        return ErrorCode(error)
    for name in getattr(type(message), "__slots__", ()):
        parts = getattr(message, name, None)
        if isinstance(parts, tuple):
            for part in parts:
                found = error_of(part) if hasattr(part, "__slots__") else ErrorCode.NONE
                if found is not ErrorCode.NONE:
                    return found
    return ErrorCode.NONE
