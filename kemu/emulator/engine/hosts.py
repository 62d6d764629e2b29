"""Hosts: the units of failure. A host has a clock, a disk and actors; ``life`` counts its starts."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from kemu.actors.machine import Event, Machine, Record, TimerKey
from kemu.emulator.chance import Entry, Stream
from kemu.emulator.engine.disk_speed import DiskSpeed
from kemu.protocol.messages.records import removed_count

MILLION = 1_000_000
_NEVER_US = 1 << 62


class Condition(Enum):
    """State of a host."""

    UP = "up"
    PAUSED = "paused"
    """The process is paused, as in a stop-the-world garbage collection. Events wait, and the kernel keeps connections
    open."""
    CRASHED = "process"
    """The process has ended but the machine runs: senders receive a reset."""
    SILENT = "power"
    """The machine is without power: senders receive nothing."""
    CLOSED = "closed"
    """The process has closed."""


class Timer:
    """A running timer. ``queued_seq``: number of the timer's current entry in the agenda; earlier entries are stale.

    A timer that is set to a later time keeps its entry. When the old entry is due, the timer queues a new entry for the
    later time. So a heartbeat, which postpones its member's session timer, costs no heap operation.
    """

    __slots__ = ("actor", "due_us", "key", "queued_seq", "queued_us")

    def __init__(self, actor: "Actor", key: TimerKey, due_us: int) -> None:
        self.actor = actor
        self.key = key
        self.due_us = self.queued_us = due_us
        self.queued_seq = -1


class Actor:
    """One machine on one host, for one life."""

    __slots__ = ("appends", "host", "life", "links", "machine", "name", "timers")

    def __init__(self, name: str, host: "Host", machine: Machine) -> None:
        self.name = name
        self.host = host
        self.life = host.life
        self.machine = machine
        self.timers: dict[TimerKey, Timer] = {}
        self.appends: dict[int, int] = {}
        """Token -> number of unfinished appends with this token."""
        self.links: dict[str, Any] = {}


MachineFactory = Callable[[int], Machine]
"""Builds an actor's machine for the life with this number."""


class DiskWrite:
    """An unfinished write of records to a log, or an unfinished flush of the log."""

    __slots__ = ("actor", "log", "number", "records", "token", "upto")

    def __init__(
        self, number: int, actor: Actor, log: str, records: tuple[Record, ...], token: int, upto: int = -1
    ) -> None:
        self.number = number
        self.actor = actor
        self.log = log
        self.records = records
        self.token = token
        self.upto = upto
        """For a flush: number of records in the log when the flush began; -1 for a write of records."""


class LimitedWrite(NamedTuple):
    """A write that waits for a disk of limited speed. After the wait, the write becomes durable, or is answered."""

    append: DiskWrite | None
    due_us: int
    """Time at which the append would be durable on a disk without a limit."""
    answer: tuple[Actor, Event] | None


class PageCache(NamedTuple):
    """Times after which the operating system writes unflushed pages back.

    The flusher thread wakes every ``wake_us`` (0: never), and writes all dirty pages of files that have been dirty for
    ``expire_us``. Source: Linux, ``vm.dirty_expire_centisecs`` and ``vm.dirty_writeback_centisecs``.
    """

    expire_us: int = 30_000_000
    wake_us: int = 5_000_000


LINUX = PageCache()


class Disk:
    """A host's logs, and the records that are only in the page cache.

    A power cut may lose an append that is not yet durable. Unflushed records are visible to all processes of the host
    at once. A power cut loses unflushed records unless the operating system has written the records back.
    """

    def __init__(self, cache: PageCache = LINUX) -> None:
        self.cache = cache
        self._dirty: dict[str, tuple[int, int]] = {}
        """Log -> (number of the log's first records that are on the disk, time at which the system writes back the
        other records)."""
        self._wakes_from_us = -1
        """Time of the first dirty page, from which on the flusher wakes periodically; -1 before the first dirty
        page."""
        self.logs: dict[str, list[Record]] = {}
        self.pending: dict[int, DiskWrite] = {}
        """Unfinished writes by number, in the order of issue. The disk finishes the writes of a log in the same
        order."""
        self.due_us: dict[str, int] = {}
        """Log -> time at which the log's last write will be durable."""
        self.writers: dict[str, str] = {}
        """Log -> actor that writes the log. The actor receives the log's records when the actor's next life begins."""
        self._writes = 0
        self._removed: dict[str, int] = {}
        """Log -> number of its former records that ``compact`` removed."""

    def issue(self, actor: Actor, log: str, records: tuple[Record, ...], token: int) -> DiskWrite:
        """Begin a durable write of records to a log."""
        writer = self.writers.setdefault(log, actor.name)
        assert writer == actor.name, f"{actor.name} writes to the log {log} of {writer}"
        self._writes = number = self._writes + 1
        write = self.pending[number] = DiskWrite(number, actor, log, records, token)
        return write

    def is_flushing(self, log: str) -> bool:
        """Whether an append to this log is unfinished; a later write must wait for the append."""
        return any(write.log == log and write.upto < 0 for write in self.pending.values())

    def write_only(self, actor: Actor, log: str, records: tuple[Record, ...], now_us: int) -> int:
        """Write into the page cache; return the index of the first record."""
        writer = self.writers.setdefault(log, actor.name)
        assert writer == actor.name, f"{actor.name} writes to the log {log} of {writer}"
        if self._wakes_from_us < 0:
            self._wakes_from_us = now_us
        held = self.logs.get(log)
        if held is None:
            held = self.logs[log] = []
        base = len(held)
        if self._is_clean(log, now_us):
            self._dirty[log] = base, self._written_back_us(now_us)
        held.extend(records)
        return base + self._removed.get(log, 0)

    def flush(self, actor: Actor, log: str) -> DiskWrite:
        """Begin to flush all records that a log has now."""
        self._writes += 1
        upto = len(self.logs.get(log, ()))
        write = self.pending[self._writes] = DiskWrite(self._writes, actor, log, (), 0, upto)
        return write

    def _is_clean(self, log: str, now_us: int) -> bool:
        """Whether the disk has all records of a log. The caller asks before each write, so that all records are older
        than the write.
        """
        dirty = self._dirty.get(log)
        if dirty is None:
            return True
        if dirty[1] > now_us:
            return False
        del self._dirty[log]
        return True

    def _written_back_us(self, since_us: int) -> int:
        """Return the time at which the system writes back pages that are dirty since ``since_us``."""
        expire_us, wake_us = self.cache
        if not wake_us:
            return _NEVER_US
        wakes = -((self._wakes_from_us - since_us - expire_us) // wake_us)
        return self._wakes_from_us + wakes * wake_us

    def finish(self, write: DiskWrite) -> int:
        """Make a write and all earlier records of its log durable; return the index of its first record."""
        name = write.log
        held = self.logs.get(name)
        if held is None:
            held = self.logs[name] = []
        base = len(held)
        held += write.records
        del self.pending[write.number]
        if self._dirty and (dirty := self._dirty.pop(name, None)) is not None:
            flushed, written_back_us = dirty
            if flushed < base and 0 <= write.upto < base:
                self._dirty[name] = max(flushed, write.upto), written_back_us
        return base + self._removed[name] if name in self._removed else base

    def compact(self, log: str, shortened: Callable[[list[Record]], list[Record]], most: int) -> None:
        """Replace the log's first records by fewer records: at most ``most``, and only records on the disk.

        The indexes of later records stay.
        """
        if any(write.log == log for write in self.pending.values()):
            return
        held = self.logs[log]
        flushed, written_back_us = self._dirty.get(log, (len(held), 0))
        count = min(flushed, most)
        left = shortened(held[:count])
        held[:count] = left
        self._removed[log] = self._removed.get(log, 0) + count - len(left)
        if log in self._dirty:
            self._dirty[log] = flushed - count + len(left), written_back_us

    def take_over(self, log: str, other: "Disk") -> None:
        """Replace a log by a copy of the log on another disk."""
        self.logs[log] = list(other.logs.get(log, ()))
        self._removed[log] = other._removed.get(log, 0)

    def logs_of(self, actor: str, main: bool) -> list[str]:
        """Return the names of an actor's logs; the host's main actor also has the logs without a writer."""
        return [log for log in sorted(self.logs) if self.writers.get(log, actor if main else "") == actor]

    def fail(self, log: str) -> list[DiskWrite]:
        """Cancel and return the unfinished writes of a log whose leader has changed. The caller must inform the writing
        actors.
        """
        failed = [write for write in self.pending.values() if write.log == log]
        for write in failed:
            del self.pending[write.number]
        return failed

    def process_died(self) -> None:
        """Finish all issued writes: the operating system survives the end of a process."""
        for write in list(self.pending.values()):
            self.finish(write)

    def power_cut(self, chance: Stream, now_us: int) -> dict[str, int]:
        """Lose all unflushed records, and all but a drawn prefix of each log's unfinished writes.

        Returns:
            Log -> number of lost records that were only in the page cache.
        """
        torn: dict[str, bool] = {}
        for write in list(self.pending.values()):
            if torn.get(write.log) or chance.below(2) == 0:
                torn[write.log] = True
                del self.pending[write.number]
            else:
                self.finish(write)
        lost: dict[str, int] = {}
        for log in sorted(self._dirty):
            if not self._is_clean(log, now_us):
                held, (flushed, _) = self.logs[log], self._dirty[log]
                lost[log] = len(held) - flushed
                del held[flushed:]
        self._dirty.clear()
        return lost

    def lose_tail(self, log: str, records: int) -> int:
        """Remove the last records of a log; return the number of removed records."""
        held = self.logs.get(log, [])
        lost = min(records, len(held))
        if lost and self._removed.get(log):
            self._removed[log] -= sum([max(removed_count(record) - 1, 0) for record in held[-lost:]])
        if lost:
            del held[-lost:]
        return lost


class Host:
    """A unit of failure: a process with its actors, its clock, its disk, and the events that wait during a pause."""

    def __init__(self, name: str, factories: dict[str, MachineFactory]) -> None:
        self.name = name
        self.factories = factories
        self.actors: dict[str, Actor] = {}
        self.life = 0
        self.condition = Condition.CLOSED
        self.running = False
        """Whether the host's process exists; the process may be paused."""
        self.disk = Disk()
        self.disk_speed: DiskSpeed[LimitedWrite] | None = None
        """Limited speed of the host's disk; None if the speed was never limited."""
        self.held: list[Entry] = []
        self.pauses = 0
        """Number of pauses so far, and of orders to pause while it was paused."""
        self.ppm = 0
        self.steady = True
        """Whether the host's clock has always shown virtual time exactly."""
        self._world_base_us = 0
        self._local_base_us = 0

    def local_us(self, now_us: int) -> int:
        """Return the time of this host's clock at a virtual time."""
        return self._local_base_us + (now_us - self._world_base_us) * (MILLION + self.ppm) // MILLION

    def world_span_us(self, local_span_us: int) -> int:
        """Convert a span of this host's clock to virtual time, rounded up so that timers never fire early."""
        rate = MILLION + self.ppm
        return -(-local_span_us * MILLION // rate)

    def drift(self, now_us: int, ppm: int) -> None:
        """Let the clock gain ``ppm`` microseconds a second from now on; with a negative value the clock loses time."""
        assert ppm > -MILLION, "a clock does not run backwards"
        self._local_base_us = self.local_us(now_us)
        self._world_base_us = now_us
        self.ppm = ppm
        self.steady = False


Turn = tuple[Actor, Event]
"""An event and the actor that takes it."""
