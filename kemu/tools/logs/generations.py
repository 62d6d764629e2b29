"""Generations of groups, as events of logs state them: begin, cause, end, members and owners."""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from kemu.tools.logs.events import Event
from kemu.tools.logs.wordings.values import Names


@attrs.define
class GenerationRow:
    """One generation of a group; None means that no record states it. Values are from the events in ``lines``."""

    group: str
    generation: int | None
    begins: Event | None = None
    completes: Event | None = None
    assignment: Event | None = None
    ends: Event | None = None
    members: int | None = None
    leader: str | None = None
    owners: dict[str, Names] = attrs.field(factory=dict)

    @property
    def cause(self) -> str:
        """The cause of the rebalance; empty if no record states its begin."""
        return self.begins.cause or "" if self.begins else ""


def generations(events: Iterable[Event]) -> list[GenerationRow]:
    """Generations by group and by the order in which events name them; events by time where times are known."""
    rows: dict[tuple[str, int], GenerationRow] = {}
    begun: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: event.at_us if event.at_us is not None else -1):
        if event.group is None:
            continue
        if event.kind == "rebalance-begins" and event.old_generation is not None:
            begun[event.group] = event
            row = _row(rows, event.group, event.old_generation + 1)
            row.begins = row.begins or event
        if event.generation is None:
            continue
        row = _row(rows, event.group, event.generation)
        if event.members is not None and row.members is None:
            row.members = event.members
        if event.leader and event.kind in ("assignment-received", "join-answered", "assignment-synced"):
            row.leader = event.leader
        if event.kind == "rebalance-completes":
            row.completes = row.completes or event
        elif event.kind == "assignment-received":
            row.assignment = row.assignment or event
        elif event.kind in ("group-empty", "group-dead"):
            row.ends = row.ends or event
        elif event.kind in ("assignment-computed", "target-computed") and event.assignment:
            for member, names in event.assignment.items():
                if isinstance(names, tuple):
                    row.owners.setdefault(member, names)
    return list(rows.values())


def _row(rows: dict[tuple[str, int], GenerationRow], group: str, generation: int) -> GenerationRow:
    return rows.setdefault((group, generation), GenerationRow(group, generation))


def generation_lines(events: Sequence[Event]) -> Iterator[str]:
    """The generations as a table, group by group."""
    rows = generations(events)
    for group in dict.fromkeys(row.group for row in rows):
        yield f"group {group}"
        yield "  generation  begins                   cause            takes      members  by"
        for row in (row for row in rows if row.group == group):
            yield (
                "  "
                + "  ".join(
                    (
                        f"{row.generation if row.generation is not None else '':>10}",
                        f"{_when(row.begins or row.completes or row.assignment or row.ends):23}",
                        f"{row.cause or ('becomes empty' if row.ends else ''):15}",
                        f"{_takes(row):9}",
                        f"{row.members if row.members is not None else '':>7}",
                        (row.begins.member if row.begins else None) or "",
                    )
                ).rstrip()
            )
        yield ""


def _when(event: Event | None) -> str:
    return (event.time if event else None) or ""


def _takes(row: GenerationRow) -> str:
    end = row.assignment or row.completes or row.ends
    if row.begins is None or end is None or row.begins.at_us is None or end.at_us is None:
        return ""
    return f"{(end.at_us - row.begins.at_us) / 1e6:.3f} s"
