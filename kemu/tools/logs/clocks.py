"""Offsets between the clocks of logs, from events of two files of which one is before the other."""

import collections
from collections.abc import Iterable, Mapping

import attrs

from kemu.tools.logs.events import Event

_ORDERED = (
    ("rebalance-completes", "join-answered"),
    ("rebalance-completes", "assignment-computed"),
    ("rebalance-completes", "assignment-synced"),
    ("assignment-computed", "assignment-received"),
    ("assignment-received", "assignment-synced"),
    ("assignment-computed", "assignment-synced"),
    ("sync-sent", "assignment-received"),
    ("member-id-issued", "join-answered"),
)
"""Kinds of which the first is before the second: by group and generation, or by member."""

_KINDS = frozenset(kind for pair in _ORDERED for kind in pair)
_MOST_DELAY_US = 60_000_000
_WITHOUT_DATE_US = 86_400_000_000


@attrs.frozen
class ClockOffset:
    """The clock of ``file`` is ``offset_us`` ahead of the clock of ``reference``.

    The events allow offsets from ``low_us`` to ``high_us``; None means no bound. ``pairs`` counts pairs of events.
    """

    file: str
    reference: str
    low_us: int | None
    high_us: int | None
    pairs: int

    @property
    def contradicts(self) -> bool:
        """Whether no offset fits all pairs: a clock was set, or the files are of different times."""
        return self.low_us is not None and self.high_us is not None and self.low_us > self.high_us

    @property
    def offset_us(self) -> int:
        """The offset nearest to zero that the events allow; 0 if they contradict."""
        if self.contradicts:
            return 0
        if self.low_us is not None and self.low_us > 0:
            return self.low_us if self.high_us is None else (self.low_us + self.high_us) // 2
        if self.high_us is not None and self.high_us < 0:
            return self.high_us if self.low_us is None else (self.low_us + self.high_us) // 2
        return 0

    @property
    def text(self) -> str:
        """The offset with its uncertainty, in words."""
        if self.contradicts:
            return f"{self.file}: no offset to {self.reference} fits all {self.pairs} pairs of events"
        low = "?" if self.low_us is None else f"{self.low_us / 1000:+.1f} ms"
        high = "?" if self.high_us is None else f"{self.high_us / 1000:+.1f} ms"
        verb = "may agree with" if self.offset_us == 0 else "differs from"
        return f"{self.file}: the clock {verb} {self.reference}; {low} to {high} ahead, by {self.pairs} pairs of events"


Key = tuple[str, str, str, int]


class Clocks:
    """Takes the events of several files, and finds the offsets of their clocks."""

    def __init__(self) -> None:
        self._times: dict[str, dict[Key, int]] = {}
        self._of_brokers: collections.Counter[str] = collections.Counter()

    def take(self, event: Event) -> None:
        """Take the next event."""
        times = self._times.setdefault(event.file, {})
        self._of_brokers[event.file] += event.dialect.startswith("broker")
        if event.at_us is None or event.kind not in _KINDS:
            return
        if event.generation is not None:
            times.setdefault((event.kind, event.group or "", "", event.generation), event.at_us)
        if event.kind in ("member-id-issued", "join-answered") and event.member:
            times.setdefault((event.kind, "", event.member, -1), event.at_us)

    def offsets(self) -> list[ClockOffset]:
        """The offset of each file to the reference, for files with matching events; no entry without such events.

        The reference is the log with most events of a broker, else the first log.
        """
        files = list(self._times)
        if len(files) < 2:
            return []
        reference = max(files, key=lambda file: (self._of_brokers[file], -files.index(file)))
        times = self._times
        found = (_between(file, times[file], reference, times[reference]) for file in files if file != reference)
        return [offset for offset in found if offset.pairs]


def clock_offsets(events: Iterable[Event]) -> list[ClockOffset]:
    """The offsets of the clocks of several files (``Clocks``)."""
    clocks = Clocks()
    for event in events:
        clocks.take(event)
    return clocks.offsets()


def _between(file: str, own: Mapping[Key, int], reference: str, others: Mapping[Key, int]) -> ClockOffset:
    low: int | None = None
    high: int | None = None
    pairs = 0
    for before, after in _ORDERED:
        for key, at_us in own.items():
            if key[0] == before and (at := others.get((after, *key[1:]))) is not None and _near(at - at_us):
                low = at_us - at if low is None else max(low, at_us - at)
                pairs += 1
            if key[0] == after and (at := others.get((before, *key[1:]))) is not None and _near(at - at_us):
                high = at_us - at if high is None else min(high, at_us - at)
                pairs += 1
    return ClockOffset(file, reference, low, high, pairs)


def _near(delay_us: int) -> bool:
    """Whether two times are of the same event, up to a time zone."""
    return abs(delay_us) < _WITHOUT_DATE_US + _MOST_DELAY_US
