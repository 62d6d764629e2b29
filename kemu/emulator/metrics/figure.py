"""The declaration of a figure: one number for a run, such as the downtime of its partitions.

``figure(...)`` is the only place that names a figure. ``Figures.values``, the JSON of a run, ``kemu compare``, the
table ``runs``, the summaries of campaigns and ``kemu describe`` are derived from it. A figure of a ``FactCounter`` also
has a line in the report of a run.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from kemu.emulator.facts import Handler
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import frozen


class Unit(StrEnum):
    """The unit of a figure. Times are kept in microseconds, and data sizes in bytes."""

    SECONDS = "s"
    PARTITION_SECONDS = "partition-s"
    """Seconds summed over partitions."""
    TASK_SECONDS = "task-s"
    """Seconds summed over tasks."""
    MEMBER_SECONDS = "member-s"
    """Seconds summed over members of a group."""
    PERCENT = "%"
    MEGABYTES = "MB"
    MEGABYTES_PER_S = "MB/s"
    COUNT = ""

    @property
    def is_time(self) -> bool:
        """Whether values are kept in microseconds and shown in seconds."""
        return self.value.endswith("s") and self is not Unit.MEGABYTES_PER_S


class Better(StrEnum):
    """The direction in which a figure improves."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Overall(StrEnum):
    """The ways in which a campaign's headline combines the runs of a cell."""

    MEDIAN = "median"
    MAX = "max"
    SUM = "sum"


Value = int | float | None
"""None: the run has no such figure."""


class FactCounter:
    """Base class of observers that count facts for figures. ``Metrics`` makes one observer per run and subclass, if a
    figure names the subclass.

    ``on``: the handler of each type of fact. The panel takes each fact before the handlers.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.on: Mapping[type, Handler] = {}


@frozen
class Figure:
    """A declared figure."""

    name: str
    """The figure's name in JSON, in ``kemu compare`` and in ``kemu describe``."""
    unit: Unit
    meaning: str
    """The figure in one noun phrase."""
    value: Callable[[Any], Value]
    """Computes the figure from its source."""
    of: type
    """The class of ``value``'s argument: ``Figures``, a part of ``Figures``, or a ``FactCounter``."""
    how: str
    """The computation in a sentence; "" if ``meaning`` is clear alone."""
    better: Better
    overall: Overall | None
    """The way in which the headline of a campaign combines runs; None for a figure that the headline omits."""
    column: str
    """The figure's column in the table ``runs``; "" for a figure without a column."""

    @property
    def headline(self) -> str:
        """The figure's column in the summary ``headline``, where times are in seconds; "" for a figure without a
        column.
        """
        if self.overall is None:
            return ""
        if not self.unit.is_time or not self.column:
            return self.column
        return self.name.removesuffix("_sum") + ("_partition_s" if self.unit is Unit.PARTITION_SECONDS else "_s")

    def text(self, value: float) -> str:
        """A value in the figure's unit, without the unit's name."""
        if self.unit.is_time:
            return f"{value / 1e6:.3f}" if self.name.startswith("delay") else f"{value / 1e6:.2f}"
        if self.unit in (Unit.MEGABYTES, Unit.MEGABYTES_PER_S):
            return f"{value / 1e6:.1f}"
        return f"{value:.1f}" if self.unit is Unit.PERCENT else f"{value:g}"


DECLARED: dict[str, Figure] = {}
"""Figures by name, in the order of declaration. ``metrics.FIGURES`` is complete: its module imports all
declarations."""

Source = TypeVar("Source")


def figure(
    name: str,
    unit: Unit,
    meaning: str,
    value: Callable[[Source], Value],
    *,
    of: type[Source],
    how: str = "",
    better: Better = Better.LOWER,
    overall: Overall | None = Overall.MEDIAN,
    column: str | None = None,
) -> None:
    """Declare a figure; the arguments are the fields of ``Figure``.

    If ``column`` is None, the column is ``name``, with "_us" for a figure in time.
    """
    assert name not in DECLARED, f"two figures are called {name}"
    column = f"{name}_us" if column is None and unit.is_time else name if column is None else column
    DECLARED[name] = Figure(name, unit, meaning, value, of, how, better, overall, column)


def values_of(sources: Mapping[type, Any]) -> dict[str, Value]:
    """The figures of these sources, by name. A figure is None if its source is None."""
    return {
        name: None if (source := sources[each.of]) is None else each.value(source)
        for name, each in DECLARED.items()
        if each.of in sources
    }
