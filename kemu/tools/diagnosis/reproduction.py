"""The parts of a scenario that repeats an incident: members, plan and settings, each with its basis and evidence."""

from typing import Literal

from attrs import Factory

from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import define, frozen
from kemu.tools.incident.incident import Departure
from kemu.tools.logs.events import Event

Basis = Literal["read", "inferred", "assumed"]


@frozen
class Inferred:
    """One part of the scenario, with its basis and evidence."""

    what: str
    value: str
    basis: Basis
    evidence: tuple[Event, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        """The part in one line."""
        places = ", ".join(f"{event.file}:{event.line}" for event in self.evidence[:3])
        rest = "; ".join(part for part in (self.note, places) if part)
        return f"{self.basis}: {self.what} {self.value}{f' ({rest})' if rest else ''}"


@define
class LoggedMembership:
    """A member id from its first to its last sign. ``started``: the event of its JoinGroup; None: before the log."""

    member: str
    client: str
    first: Event
    started: Event | None = None
    gone: Departure | None = None
    closed: Event | None = None
    """The end of a static member, which sends no LeaveGroup."""
    instance: str | None = None
    assignors: tuple[str, ...] = ()
    """The list that its JoinGroup or its LeaveGroup states, else the assignors of its generations, newest first."""
    listed: Event | None = None
    """The event that states the list."""
    protocol: str = ""
    """``group.protocol`` of the member; "" if no event states it."""
    forgotten: bool = False
    """The coordinator stopped before the membership was stored: the same process joins under another id."""

    @property
    def end(self) -> Event | None:
        """The event that ends the membership."""
        return self.gone.events[0] if self.gone is not None else self.closed


@define
class ReproducedHost:
    """One process: its memberships in order."""

    name: str
    client: str
    lives: list[LoggedMembership] = Factory(list)


@frozen
class PlanLine:
    """An external event of the plan."""

    at_us: int
    action: str
    host: str
    keys: tuple[tuple[str, object], ...]
    source: Inferred


@frozen
class Reproduction:
    """The scenario with its parts, and the names of its members in the log."""

    group: str
    toml: str
    scenario: Scenario
    parts: tuple[Inferred, ...]
    names: tuple[tuple[str, str], ...]
    """(member id in the log, host in the scenario)."""
    first_generation: int
    """The generation in the log that is generation 1 in the scenario."""
    at_us: int
    """The time of the log at which the scenario begins."""
    unmatched: tuple[str, ...]
    """Facts of the log that the scenario cannot repeat, with the reason."""
    has_epochs: bool = False
    """Whether the group has the consumer protocol, at least for some time."""
