"""Hosts: what fails as one. A host has a clock, a disk, and actors; its life counts its starts."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from kemu.actors.machine import Event, Machine, Record, TimerKey
from kemu.emulator.chance import Entry, Stream
from kemu.emulator.engine.disk_speed import DiskSpeed

MILLION = 1_000_000
_NEVER_US = 1 << 62


class Condition(Enum):
    """What a host is doing."""

    UP = "up"
    PAUSED = "paused"
    """Stands still (a stop-the-world pause): mail and timers wait, the kernel keeps connections alive."""
    CRASHED = "process"
    """The process is gone, the machine is there: whoever sends to it gets a reset."""
    SILENT = "power"
    """The machine is gone: whoever sends to it hears nothing."""
    CLOSED = "closed"
    """The process ended by itself."""


class Timer:
    """A running timer. ``queued_seq`` is the agenda entry that will look at it next; older entries are stale.

    Re-arming to a later time leaves the entry where it is: it will find that it came early and queue itself again. So a
    heartbeat, which re-arms its member's session timer, costs no heap operation.
    """

    __slots__ = ("actor", "due_us", "key", "queued_seq", "queued_us")

    def __init__(self, actor: "Actor", key: TimerKey) -> None:
        self.actor = actor
        self.key = key
        self.due_us = -1
        self.queued_us = -1
        self.queued_seq = -1


class Actor:
    """One machine on one host, for one life."""

    __slots__ = ("host", "life", "links", "machine", "name", "timers")

    def __init__(self, name: str, host: "Host", machine: Machine) -> None:
        self.name = name
        self.host = host
        self.life = host.life
        self.machine = machine
        self.timers: dict[TimerKey, Timer] = {}
        self.links: dict[str, Any] = {}


MachineFactory = Callable[[int], Machine]
"""Builds the machine of one actor for the life of this number."""


class DiskWrite:
    """Records on their way to a log, or a flush of what it holds."""

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
        """Of a flush: how many records the log had when it was asked for; -1: all, and these."""


class LimitedWrite(NamedTuple):
    """A write that a disk of limited speed is to take: then it is an append that becomes durable, or is answered."""

    append: DiskWrite | None
    due_us: int
    """When the append would be durable had the disk all the time there is."""
    answer: tuple[Actor, Event] | None


class PageCache(NamedTuple):
    """When the system writes back by itself what was written and not flushed.

    Source: Linux, ``vm.dirty_expire_centisecs`` and ``vm.dirty_writeback_centisecs``: a file goes to the disk, with
    all of its dirty pages, when the flusher wakes and finds that it has been dirty for so long. ``wake_us`` 0: never.
    """

    expire_us: int = 30_000_000
    wake_us: int = 5_000_000


LINUX = PageCache()


class Disk:
    """A host's logs, and what of them is in the page cache only.

    An append is on its way until it is durable; what is on its way when power goes may be lost. What was only written
    is in the log for every process of the host, and lost with the power if nothing has put it on the disk.
    """

    def __init__(self, cache: PageCache = LINUX) -> None:
        self.cache = cache
        self._dirty: dict[str, tuple[int, int]] = {}
        """Log -> how many of its first records are on the disk, and when the system will write back the others."""
        self._wakes_from_us = -1
        """When the flusher began to wake: with the first page that was dirty."""
        self.logs: dict[str, list[Record]] = {}
        self.pending: dict[int, DiskWrite] = {}
        """By number, in the order they were issued; the device keeps the order within a log."""
        self.due_us: dict[str, int] = {}
        """When the last write of a log will be durable."""
        self.writers: dict[str, str] = {}
        """Log -> the actor that writes it, which is told what it holds when its next life begins."""
        self._writes = 0

    def issue(self, actor: Actor, log: str, records: tuple[Record, ...], token: int) -> DiskWrite:
        """Put a write on its way."""
        writer = self.writers.setdefault(log, actor.name)
        assert writer == actor.name, f"{actor.name} writes to the log {log} of {writer}"
        self._writes += 1
        write = self.pending[self._writes] = DiskWrite(self._writes, actor, log, records, token)
        return write

    def is_flushing(self, log: str) -> bool:
        """Whether an append is on its way to this log: what comes next comes behind it."""
        return any(write.log == log and write.upto < 0 for write in self.pending.values())

    def write_only(self, actor: Actor, log: str, records: tuple[Record, ...], now_us: int) -> int:
        """Write into the page cache; the offset of the first record."""
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
        return base

    def flush(self, actor: Actor, log: str) -> DiskWrite:
        """Begin to put on the disk what a log holds now."""
        self._writes += 1
        upto = len(self.logs.get(log, ()))
        write = self.pending[self._writes] = DiskWrite(self._writes, actor, log, (), 0, upto)
        return write

    def _is_clean(self, log: str, now_us: int) -> bool:
        """Whether all of a log is on the disk; looked at before each write, so that all it has is older."""
        dirty = self._dirty.get(log)
        if dirty is None:
            return True
        if dirty[1] > now_us:
            return False
        del self._dirty[log]
        return True

    def _written_back_us(self, since_us: int) -> int:
        """When the system by itself puts on the disk what is dirty since then."""
        expire_us, wake_us = self.cache
        if not wake_us:
            return _NEVER_US
        wakes = -((self._wakes_from_us - since_us - expire_us) // wake_us)
        return self._wakes_from_us + wakes * wake_us

    def finish(self, write: DiskWrite) -> int:
        """Make a write, and all of its log before it, durable; the offset of its first record."""
        log = self.logs.setdefault(write.log, [])
        base = len(log)
        log.extend(write.records)
        del self.pending[write.number]
        flushed, written_back_us = self._dirty.pop(write.log, (base, 0))
        if flushed < base and 0 <= write.upto < base:
            self._dirty[write.log] = max(flushed, write.upto), written_back_us
        return base

    def logs_of(self, actor: str, main: bool) -> list[str]:
        """The logs of an actor, by name; the host's main actor also has those that nobody wrote."""
        return [log for log in sorted(self.logs) if self.writers.get(log, actor if main else "") == actor]

    def fail(self, log: str) -> list[DiskWrite]:
        """Give up what is on its way to a log (its leader changed); those who wait must be told."""
        failed = [write for write in self.pending.values() if write.log == log]
        for write in failed:
            del self.pending[write.number]
        return failed

    def process_died(self) -> None:
        """The system lives: what was issued reaches the disk."""
        for write in list(self.pending.values()):
            self.finish(write)

    def power_cut(self, chance: Stream, now_us: int) -> dict[str, int]:
        """Of the writes on their way, a prefix per log may have made it; nobody was told.

        What was in the page cache only is gone: log -> how many records.
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
        """Forget the last records of a log; how many there were to forget."""
        held = self.logs.get(log, [])
        lost = min(records, len(held))
        if lost:
            del held[-lost:]
        return lost


class Host:
    """A failure unit: a process with its actors, its clock, its disk, and what waits while it stands still."""

    def __init__(self, name: str, factories: dict[str, MachineFactory]) -> None:
        self.name = name
        self.factories = factories
        self.actors: dict[str, Actor] = {}
        self.life = 0
        self.condition = Condition.CLOSED
        self.running = False
        """Whether its process exists (it may stand still)."""
        self.disk = Disk()
        self.disk_speed: DiskSpeed[LimitedWrite] | None = None
        """How fast it writes; None: that was never limited."""
        self.held: list[Entry] = []
        self.ppm = 0
        self.steady = True
        """Whether its clock has always shown the world's time."""
        self._world_base_us = 0
        self._local_base_us = 0

    def local_us(self, now_us: int) -> int:
        """This host's clock at the world's time."""
        return self._local_base_us + (now_us - self._world_base_us) * (MILLION + self.ppm) // MILLION

    def world_span_us(self, local_span_us: int) -> int:
        """How long the world waits for a span of this host's clock to pass (rounded up: timers are never early)."""
        rate = MILLION + self.ppm
        return -(-local_span_us * MILLION // rate)

    def drift(self, now_us: int, ppm: int) -> None:
        """From now on this clock gains ``ppm`` microseconds a second (loses, when negative)."""
        assert ppm > -MILLION, "a clock does not run backwards"
        self._local_base_us = self.local_us(now_us)
        self._world_base_us = now_us
        self.ppm = ppm
        self.steady = False


Turn = tuple[Actor, Event]
"""An event for an actor: what the agenda's next entry came to."""
