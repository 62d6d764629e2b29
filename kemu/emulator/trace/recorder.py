"""Recorders of a run: ``TraceWriter`` writes a file, ``MemoryRecorder`` keeps the records in memory."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgpack

from kemu.emulator.facts import Seen
from kemu.emulator.trace.rows import Row
from kemu.emulator.trace.traces import (
    Broken,
    BrokenRow,
    PacketRecord,
    PacketRow,
    Step,
    StepRow,
    TraceWriter,
    WorldFact,
    facts_of_records,
)

LIVE_FLUSH_US = 1_000_000
"""Interval at which a live run writes its records to the file, for readers of the growing trace."""


class Recorder(Protocol):
    """Receives every step, packet and fact of a world in order, as fields of a trace's records."""

    def step(self, row: StepRow) -> None:
        """Record a step of a machine."""
        ...

    def packet(self, row: PacketRow) -> None:
        """Record the fate of a packet."""
        ...

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Record a fact of the world."""
        ...

    def broken(self, row: BrokenRow) -> None:
        """Record a step that raised."""
        ...


class MemoryRecorder:
    """Keeps the records that a reader would get from a trace, for tests and for explorations of many short runs."""

    def __init__(self) -> None:
        self.records: list[Step | PacketRecord | WorldFact | Broken] = []

    def step(self, row: StepRow) -> None:
        """Record a step of a machine."""
        self.records.append(Step(*read_back(row)))

    def packet(self, row: PacketRow) -> None:
        """Record the fate of a packet."""
        self.records.append(PacketRecord(*row))

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Record a fact of the world."""
        self.records.append(WorldFact(seq, at_us, fact))

    def broken(self, row: BrokenRow) -> None:
        """Record a step that raised."""
        self.records.append(Broken(*read_back(row)))

    def facts(self) -> Iterator[Seen]:
        """Yield the recorded facts in order, as observers have seen the facts."""
        return facts_of_records(self.records)


class LiveWriter:
    """Passes records to a trace, and writes them to the file every ``LIVE_FLUSH_US``."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._flush_us = 0
        self.packet = writer.packet
        self.fact = writer.fact
        self.broken = writer.broken

    def step(self, row: StepRow) -> None:
        """Record a step of a machine."""
        self._writer.step(row)
        if row[1] >= self._flush_us:
            self._writer.flush()
            self._flush_us = row[1] + LIVE_FLUSH_US


class RecorderOfAll:
    """Passes each record to several recorders, in the order of the recorders."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders
        self._steps = tuple(each.step for each in recorders)
        self._packets = tuple(each.packet for each in recorders)

    def step(self, row: StepRow) -> None:
        """Record a step of a machine."""
        for take in self._steps:
            take(row)

    def packet(self, row: PacketRow) -> None:
        """Record the fate of a packet."""
        for take in self._packets:
            take(row)

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """Record a fact of the world."""
        for each in self._recorders:
            each.fact(seq, at_us, fact)

    def broken(self, row: BrokenRow) -> None:
        """Record a step that raised."""
        for each in self._recorders:
            each.broken(row)


def read_back(row: Row) -> Row:
    """Return a row as read from a trace: plain values (numbers for ``ErrorCode``), tuples for lists."""
    plain: Row = msgpack.unpackb(msgpack.packb(row), use_list=False)
    return plain
