"""What a world tells of itself as it goes: a trace file is one listener of it (``TraceWriter``), memory another."""

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
    WorldFact,
    facts_of_records,
)


class Recorder(Protocol):
    """Takes every step, packet and fact of a world, in the order of the run, as the fields of a trace's records."""

    def step(self, row: StepRow) -> None:
        """One step of one machine."""
        ...

    def packet(self, row: PacketRow) -> None:
        """What became of a packet."""
        ...

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """A fact of the world."""
        ...

    def broken(self, row: BrokenRow) -> None:
        """A machine's own assertion failed in this step."""
        ...


class MemoryRecorder:
    """Keeps the records as they would be read from a trace: for tests, and for whoever explores many short runs."""

    def __init__(self) -> None:
        self.records: list[Step | PacketRecord | WorldFact | Broken] = []

    def step(self, row: StepRow) -> None:
        """One step of one machine."""
        self.records.append(Step(*read_back(row)))

    def packet(self, row: PacketRow) -> None:
        """What became of a packet."""
        self.records.append(PacketRecord(*row))

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """A fact of the world."""
        self.records.append(WorldFact(seq, at_us, fact))

    def broken(self, row: BrokenRow) -> None:
        """A machine's own assertion failed in this step."""
        self.records.append(Broken(*read_back(row)))

    def facts(self) -> Iterator[Seen]:
        """What those who watch saw of the run so far."""
        return facts_of_records(self.records)


class RecorderOfAll:
    """Passes everything on to each of several recorders, in their order."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def step(self, row: StepRow) -> None:
        """One step of one machine."""
        for each in self._recorders:
            each.step(row)

    def packet(self, row: PacketRow) -> None:
        """What became of a packet."""
        for each in self._recorders:
            each.packet(row)

    def fact(self, seq: int, at_us: int, fact: Any) -> None:
        """A fact of the world."""
        for each in self._recorders:
            each.fact(seq, at_us, fact)

    def broken(self, row: BrokenRow) -> None:
        """A machine's own assertion failed in this step."""
        for each in self._recorders:
            each.broken(row)


def read_back(row: Row) -> Row:
    """A row as a trace gives it back: plain values (an ``ErrorCode`` is its number), tuples for lists."""
    plain: Row = msgpack.unpackb(msgpack.packb(row), use_list=False)
    return plain
