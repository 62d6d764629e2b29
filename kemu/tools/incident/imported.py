"""Logs that were read: events, generations, accounts of files, offsets of clocks."""

from functools import cached_property
from typing import Any

import attrs

from kemu.tools.incident.incident import Incident
from kemu.tools.incident.timeline import StatedGeneration
from kemu.tools.logs.clocks import ClockOffset
from kemu.tools.logs.events import Event
from kemu.tools.logs.reading import LogSummary


@attrs.define(slots=False)
class ImportedLogs:
    """The result of ``kemu.import_log``. ``events`` are in the order of files and lines."""

    events: tuple[Event, ...]
    files: tuple[LogSummary, ...]
    clocks: tuple[ClockOffset, ...]

    @cached_property
    def generations(self) -> tuple[StatedGeneration, ...]:
        """The generations of all groups, with what the events state."""
        return Incident(self.events).generations

    def as_json(self) -> dict[str, Any]:
        """Generations, accounts and offsets as data; ``--format events`` has the events."""
        return {
            "generations": [row.as_json() for row in self.generations],
            "files": [
                {
                    "file": each.file,
                    "records": each.records,
                    "understood": each.understood,
                    "unknown_about_groups": each.unknown_about_groups,
                    "dialects": dict(each.dialects),
                    "releases": {name: span.text(name) for name, span in each.releases.items()},
                    "versions": dict(each.versions),
                    "unknown_shapes": dict(each.shapes.most_common()),
                }
                for each in self.files
            ],
            "clocks": [
                {**attrs.asdict(each), "offset_us": each.offset_us, "contradicts": each.contradicts}
                for each in self.clocks
            ],
        }
