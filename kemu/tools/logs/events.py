"""One record of a log, understood: its place, its kind and the fields that its text states.

Kinds and names of fields are the columns of ``kemu import-log --format events``. A field that the record does not
state is None. A field that is known only from other lines is named in ``inferred``.
"""

import operator
from collections.abc import Mapping
from typing import Literal

import attrs

from kemu.tools.logs.wordings.values import Assignment, Names

Category = Literal["group", "group-detail", "leadership"]

_GROUP = (
    # Rebalances and membership, as the broker states them.
    "rebalance-begins rebalance-completes assignment-received member-id-issued member-joins member-leaves"
    " member-expires member-fenced static-replaced group-empty group-dead group-loaded group-unloaded"
    " coordinator-stops"
    # KIP-848.
    " group-epoch-bumped target-computed member-reconciled member-reconciling protocol-converted"
    # The client and its coordinator.
    " coordinator-lookup coordinator-found coordinator-lost coordinator-changed"
    # The client joins.
    " rejoin-requested rebalance-seen join-sent join-answered join-failed leader-of-group assignment-computing"
    " assignment-computed sync-sent sync-failed assignment-synced assignment-notified generation-reset"
    " member-id-changed client-state session-begins session-ends"
    # The client's partitions.
    " revoke-begins revoke-delegated partitions-unassigning partitions-unassigned partitions-revoked"
    " partitions-lost-notice partitions-lost partitions-assigned callback-assigned callback-revoked callback-lost"
    # The client lives.
    " heartbeat-sent heartbeat-ok heartbeat-refused session-timeout poll-timeout commit-sent commit-ok commit-failed"
    " fetch-begins fetch-ends consumer-crash consumer-restart consumer-lifecycle error-to-application"
)
_LEADERSHIP = (
    "leader-elected leader-election-begins leader-election-failed leader-starts follower-starts partition-state"
    " isr-shrunk isr-expanded isr-updated controller-elected controller-resigned leader-and-isr-sent"
    " leader-and-isr-received update-metadata-sent controlled-shutdown broker-started broker-stops append-refused"
    " fetch-refused fetcher-removed topic-created exception-text"
)

KINDS: Mapping[str, Category] = {
    **dict.fromkeys(_GROUP.split(), "group"),
    "client-internal": "group-detail",
    **dict.fromkeys(_LEADERSHIP.split(), "leadership"),
}
"""Kind of an event -> its class: a fact for a group's timeline, a detail about a group, a fact about leaders."""

CAUSES = ("join", "expire", "leave", "leader-rejoin", "metadata-change", "store-error", "other", "not stated")
"""Values of ``cause`` of ``rebalance-begins``."""


@attrs.frozen(kw_only=True)
class Event:
    """One understood record.

    ``time`` is the text of the record in ISO order, to the millisecond, with Z if the record states UTC or an epoch.
    ``at_us`` is this time in microseconds since 1970 UTC, or since midnight if the record has no date.
    ``line`` is the first line of the record, 1-based; ``lines`` lists all lines of a record of several lines.
    """

    file: str
    line: int
    kind: str
    lines: tuple[int, ...] = ()
    time: str | None = None
    at_us: int | None = attrs.field(default=None, metadata={"json": False})
    dialect: str = ""
    also: Names | None = None
    truncated: bool | None = None
    part_of_line: int | None = None
    same_event_as: int | None = None
    inferred: Names | None = None

    group: str | None = None
    generation: int | None = None
    old_generation: int | None = None
    member: str | None = None
    instance: str | None = None
    client: str | None = None
    process: int | None = None
    reason: str | None = None
    cause: str | None = None
    error: str | None = None
    assignor: str | None = None
    assignors: Names | None = None
    session_ms: int | None = None
    rebalance_ms: int | None = None
    protocol: str | None = None
    partitions: Names | None = None
    assignment: Assignment | None = None
    assigned: Names | None = None
    owned: Names | None = None
    added: Names | None = None
    revoked: Names | None = None
    leader: str | None = None
    members: int | None = None
    static: int | None = None
    state: str | None = None
    from_: str | tuple[int, ...] | None = None
    to: str | tuple[int, ...] | None = None
    previous: int | str | None = None
    local_epoch: str | None = None
    node: str | None = None
    offsets_partition: str | None = None
    ms: int | None = None
    n: int | None = None

    partition: str | None = None
    broker: int | None = None
    epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replica: int | None = None
    leaders: str | None = None
    followers: str | None = None
    topics: str | None = None

    @property
    def category(self) -> Category:
        """The class of the kind."""
        return KINDS[self.kind]

    @property
    def of_broker(self) -> bool:
        """Whether a log of a broker or controller states the event."""
        return self.dialect.startswith(("broker-", "controller-", "state-change", "request-log"))

    def as_json(self) -> dict[str, object]:
        """The JSON object of ``--format events``: stated fields only, ``class`` from the kind."""
        row: dict[str, object] = {}
        for key, default, value in zip(FIELDS, _DEFAULTS, _VALUES(self), strict=True):
            if value != default:
                row[key] = value if isinstance(value, str | int) else _plain(value)
            if key == "kind":
                row["class"] = self.category
        return row


_IN_JSON = tuple(field for field in attrs.fields(Event) if field.metadata.get("json", True))
_VALUES = operator.attrgetter(*(field.name for field in _IN_JSON))
_DEFAULTS = tuple(field.default for field in _IN_JSON)
FIELDS = tuple(field.name.rstrip("_") for field in _IN_JSON)
"""Names of the fields in JSON, besides ``class``."""


def event_from_json(row: Mapping[str, object]) -> Event:
    """The event that ``as_json`` wrote, without its instant."""
    names = {field.name.rstrip("_"): field.name for field in attrs.fields(Event)}
    fields = {names[key]: _frozen(value) for key, value in row.items() if key != "class"}
    return Event(**fields)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    match value:
        case tuple():
            return [_plain(part) for part in value]
        case Mapping():
            return {key: _plain(part) for key, part in value.items()}
        case _:
            return value


def _frozen(value: object) -> object:
    match value:
        case list():
            return tuple(_frozen(part) for part in value)
        case dict():
            return {key: _frozen(part) for key, part in value.items()}
        case _:
            return value
