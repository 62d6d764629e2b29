"""The timeline of groups: one row for each generation, as the events state it.

A field that no event states stays None. Only broker events state ``begins``, ``cause`` and ``completes``; only client
events state ``refused``, ``synced``, ``revoked`` and ``assigned``. The cause of a group epoch of KIP-848 is the last
change of the group before the epoch: no line states a cause.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import Factory, field

from kemu.protocol.frozen import define, frozen
from kemu.tools.incident.words import REBALANCING, UNKNOWN_MEMBER, error_of
from kemu.tools.logs.events import Event

_NEXT_LINE_US = 10_000_000
"""The assignment follows its SyncGroup or the revocation within this time; a later one has lost its SyncGroup."""
RECONCILED = "STABLE"
"""State of a member of KIP-848 that has all partitions of its target. Source: ``MemberState`` (4.0)."""
_CHANGES: Mapping[str, str] = {
    "member-joins": "join",
    "static-replaced": "join",
    "member-leaves": "leave",
    "member-expires": "expire",
}
"""Kind -> cause of the next group epoch."""
_ENDS = ("assignment-received", "rebalance-completes", "group-empty", "group-dead")


@frozen(kw_only=True)
class StatedGeneration:
    """One generation of a classic group, or one group epoch of KIP-848. Times are the texts of the log."""

    group: str
    generation: int
    begins: str | None = None
    cause: str | None = None
    member: str | None = None
    completes: str | None = None
    assignment_received: str | None = None
    members: int | None = None
    leader: str | None = None
    empty: str | None = None
    dead: str | None = None
    refused: str | None = None
    revoked: tuple[str, ...] | None = None
    synced: str | None = None
    assigned: Mapping[str, tuple[str, ...]] | None = None
    target_computed: str | None = None
    reconciled: Mapping[str, str] | None = None
    events: tuple[Event, ...] = field(default=(), repr=False)
    """The events that state the row, in order."""

    def as_json(self) -> dict[str, object]:
        """The stated fields."""
        names = [name for name in StatedGeneration.__annotations__ if name != "events"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def is_epoch(self) -> bool:
        """Whether the row is a group epoch of KIP-848."""
        return any(event.kind in ("group-epoch-bumped", "target-computed") for event in self.events)

    @property
    def reconciled_events(self) -> Mapping[str, Event]:
        """Member of KIP-848 -> the event in which the member has all partitions of its target in this epoch."""
        found: dict[str, Event] = {}
        for event in self.events:
            if event.kind == "member-reconciled" and event.state == RECONCILED and event.member is not None:
                found.setdefault(event.member, event)
        return found

    @property
    def takes_us(self) -> int | None:
        """Time from the begin of the rebalance to the leader's assignment, or to an earlier end; None if not stated.

        Of a group epoch: the time from the epoch to the last member that has all its partitions in this epoch.
        """
        if self.is_epoch:
            done = self.reconciled_events
            begun = [event.at_us for event in self.events if event.kind == "group-epoch-bumped"]
            ends = [event.at_us for event in done.values() if event.at_us is not None]
            if not begun or begun[0] is None or not ends or len(done) != self.members:
                return None
            return max(ends) - begun[0]
        times = {event.kind: event.at_us for event in reversed(self.events)}
        begin = times.get("rebalance-begins")
        end = next((times[kind] for kind in _ENDS if times.get(kind) is not None), None)
        return None if begin is None or end is None else end - begin


@define
class _Row:
    fields: dict[str, object] = Factory(dict)
    events: list[Event] = Factory(list)

    def state(self, event: Event, **stated: object) -> None:
        self.events.append(event)
        for name, value in stated.items():
            if value is not None:
                self.fields.setdefault(name, value)


@define
class _Client:
    """One member as its own log shows it, between two generations."""

    member: str | None = None
    refused: Event | None = None
    revoked: Event | None = None
    generation: int | None = None
    at_us: int | None = None
    """Time of the last line that belongs to the generation."""

    def follows(self, event: Event) -> bool:
        """Whether an event may belong to the generation."""
        return self.at_us is None or event.at_us is None or event.at_us - self.at_us <= _NEXT_LINE_US


class _Timeline:
    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], _Row] = {}
        self.clients: dict[tuple[object, ...], _Client] = {}
        self.departed: dict[str, Event] = {}
        self.changed: dict[str, Event] = {}
        """Group -> the last change of its members that no group epoch has followed."""
        self.members: dict[tuple[str, str | None], None] = {}
        """(Group, member) of the members that joined and did not leave."""

    def row(self, group: str, generation: int) -> _Row:
        return self.rows.setdefault((group, generation), _Row())

    def take(self, event: Event) -> None:
        group = event.group
        if group is None:
            return
        if event.kind in _CHANGES and event.broker is not None:
            self._changes(group, event)
        match event.kind:
            case "member-leaves" | "member-expires":
                self.departed[group] = event
            case "group-epoch-bumped" if event.generation is not None:
                self._bumped(group, event.generation, event)
            case "rebalance-begins":
                self._begins(group, event)
            case "rebalance-completes" if event.generation is not None:
                self.row(group, event.generation).state(
                    event, completes=event.time, members=event.members, leader=event.leader
                )
            case "assignment-received" if event.generation is not None:
                self.row(group, event.generation).state(
                    event, assignment_received=event.time, leader=event.leader, members=event.members
                )
            case "group-empty" if event.generation is not None:
                self.row(group, event.generation).state(event, empty=event.time, members=0)
            case "group-dead" if event.generation is not None:
                self.row(group, event.generation).state(event, dead=event.time)
            case "target-computed" if event.generation is not None:
                count = len(event.assignment) if event.assignment is not None else event.members
                self.row(group, event.generation).state(event, target_computed=event.time, members=count)
            case "member-reconciled" if event.generation is not None and event.member is not None:
                self._reconciled(group, event.generation, event.member, event)
            case _:
                self._client(group, event)

    def _begins(self, group: str, event: Event) -> None:
        if event.old_generation is None:
            return
        gone, member = self.departed.pop(group, None), event.member
        if gone is not None and gone.member and event.truncated and member and gone.member.startswith(member):
            member = gone.member if event.cause in ("leave", "expire") else member
        cause = None if event.cause == "not stated" else event.cause
        self.row(group, event.old_generation + 1).state(event, begins=event.time, cause=cause, member=member)

    def _changes(self, group: str, event: Event) -> None:
        """Note a change of a group's members; a classic member of a consumer group joins again and again."""
        joins = _CHANGES[event.kind] == "join"
        again = (group, event.member) in self.members
        if joins:
            self.members[group, event.member] = None
        else:
            self.members.pop((group, event.member), None)
        if not (joins and again):
            self.changed[group] = event

    def _bumped(self, group: str, generation: int, event: Event) -> None:
        change = self.changed.pop(group, None)
        cause, member = ("metadata-change", None) if change is None else (_CHANGES[change.kind], change.member)
        self.row(group, generation).state(event, begins=event.time, cause=cause, member=member)

    def _reconciled(self, group: str, generation: int, member: str, event: Event) -> None:
        row = self.row(group, generation)
        known = row.fields.get("reconciled")
        times = dict(known) if isinstance(known, dict) else {}
        times.setdefault(member, event.time or "")
        row.events.append(event)
        row.fields["reconciled"] = times

    def _client(self, group: str, event: Event) -> None:
        key = (event.file, event.process, event.client, group)
        client = self.clients.setdefault(key, _Client())
        if event.member is not None:
            client.member = event.member
        match event.kind:
            case "heartbeat-refused" | "rejoin-requested" | "rebalance-seen":
                if error_of(event) == REBALANCING and client.refused is None:
                    client.refused = event
                if error_of(event) == UNKNOWN_MEMBER:
                    client.member = None  # the member's next id is another one
            case "partitions-revoked":
                client.revoked = event
                if client.follows(event):
                    client.at_us = event.at_us
            case "join-answered" | "heartbeat-sent" if event.generation is not None:
                client.generation, client.at_us = event.generation, event.at_us
                self.row(group, event.generation).state(event)
            case "assignment-computed" if event.generation is not None:
                count = len(event.assignment) if event.assignment is not None else None
                self.row(group, event.generation).state(event, members=count, leader=client.member)
            case "assignment-synced":
                generation = event.generation if event.generation is not None else client.generation
                if generation is not None:
                    self._synced(group, generation, client, event)
            case "partitions-assigned" if client.generation is not None and event.partitions is not None:
                if client.follows(event):
                    self._assigned(group, client.generation, client, event)

    def _synced(self, group: str, generation: int, client: _Client, event: Event) -> None:
        client.generation, client.at_us = generation, event.at_us
        row = self.row(group, generation)
        refused, revoked = client.refused, client.revoked
        row.state(
            event,
            refused=refused.time if refused else None,
            revoked=revoked.partitions if revoked else None,
            synced=event.time,
        )
        client.refused = client.revoked = None

    def _assigned(self, group: str, generation: int, client: _Client, event: Event) -> None:
        row = self.row(group, generation)
        row.events.append(event)
        if client.member is None:
            return
        known = row.fields.get("assigned")
        owned = dict(known) if isinstance(known, dict) else {}
        owned.setdefault(client.member, event.partitions)
        row.fields["assigned"] = owned


def timeline_of(events: Iterable[Event]) -> tuple[StatedGeneration, ...]:
    """The generations of all groups by their first event. ``events``: in order of time (``case.ordered``)."""
    timeline = _Timeline()
    for event in events:
        timeline.take(event)
    return tuple(
        StatedGeneration(group=group, generation=generation, events=tuple(row.events), **row.fields)  # type: ignore[arg-type]
        for (group, generation), row in timeline.rows.items()
    )


def timeline_lines(rows: Sequence[StatedGeneration]) -> Iterator[str]:
    """The generations as a table, group by group."""
    for group in dict.fromkeys(row.group for row in rows):
        yield f"group {group}"
        yield "  generation  begins                   cause            takes      members  by"
        for row in (row for row in rows if row.group == group):
            times = (row.begins, row.refused, row.completes, row.synced, row.empty, row.dead, row.target_computed)
            begins = next(filter(None, times), "")
            cause = row.cause or ("becomes empty" if row.empty or row.dead else "")
            takes = "" if row.takes_us is None else f"{row.takes_us / 1e6:.3f} s"
            members = "" if row.members is None else row.members
            yield (
                f"  {row.generation:>10}  {begins:23}  {cause:15}  {takes:9}  {members:>7}  {row.member or ''}"
            ).rstrip()
        yield ""
