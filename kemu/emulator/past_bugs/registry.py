"""The table of Kafka's past bugs, by JIRA issue, and the scenarios that show the bugs.

``bugs = ["KAFKA-1211"]`` in a scenario, ``kemu bugs`` and ``kemu describe bugs`` read this table.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from kemu.emulator.package_modules import text_of

if TYPE_CHECKING:
    from kemu.emulator.past_bugs.bug import PastBug


class _Table(Mapping[str, "PastBug"]):
    """The rows are imported at the first look: a run without bugs needs no old rules."""

    @cached_property
    def _rows(self) -> "Mapping[str, PastBug]":
        from kemu.emulator.past_bugs.controller import CONTROLLER
        from kemu.emulator.past_bugs.groups import ASSIGNORS, CONSUMER, COORDINATOR
        from kemu.emulator.past_bugs.replication import REPLICATION
        from kemu.emulator.past_bugs.streams import STREAMS

        return {bug.issue: bug for bug in (*COORDINATOR, *CONSUMER, *ASSIGNORS, *STREAMS, *CONTROLLER, *REPLICATION)}

    def __getitem__(self, issue: str) -> "PastBug":
        return self._rows[issue]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


PAST_BUGS: "Mapping[str, PastBug]" = _Table()
"""JIRA issue -> past bug."""


def bug_named(name: str) -> "PastBug | None":
    """The bug with this issue or rule, regardless of case; None for an unknown name."""
    wanted = name.lower()
    return next((bug for bug in PAST_BUGS.values() if wanted in (bug.issue.lower(), bug.rule)), None)


def names() -> tuple[str, ...]:
    """All names that ``bug_named`` knows, issues first."""
    return (*PAST_BUGS, *(bug.rule for bug in PAST_BUGS.values()))


def scenario_text(issue: str) -> str:
    """The TOML text of the scenario that shows a bug, with a ``seed`` of a run that shows the bug."""
    return text_of(f"past_bugs/scenarios/{issue.lower()}.toml")


@cache
def scenario_data(issue: str) -> Mapping[str, Any]:
    """The parsed scenario that shows a bug."""
    return tomllib.loads(scenario_text(issue))
