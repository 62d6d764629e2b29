"""A broker's log directories: each on a disk of its own, which can fail alone (KIP-112, JBOD).

A new log goes to the live directory that has the fewest, the first of those. Where each lies is written down, as a
file system shows it to the next life of the process. What lies on a directory that failed is offline until the process
starts again with the directory repaired; until then no log may be made for a replica that should have one here already
and has none on the live ones: it may lie there.

Source: Kafka 2.8 ``LogManager`` (``nextLogDirs``, ``handleLogDirFailure``, ``getOrCreateLog``).
"""

from collections.abc import Iterable

from kemu.actors.machine import Record

PLACES = "log-directories"
"""The disk's name of what is written down: (log name, number of its directory, or nothing); the last one counts."""


class LogDirs:
    """Which log lies where. ``count``: how many directories there are; their numbers begin at 0."""

    def __init__(self, count: int) -> None:
        assert count >= 1, count
        self.count = count
        self.failed: dict[int, None] = {}
        self._of: dict[str, int] = {}
        self._found: dict[str, int] = {}

    def found(self, rows: Iterable[Record]) -> None:
        """What was written down in former lives."""
        self._found = {name.decode(): int(number) for name, number in dict(rows).items() if number}

    def place(self, log_name: str) -> Record | None:
        """Give a log the directory it was found in, or another; what to write down about it, if anything."""
        assert log_name not in self._of, f"{log_name} lies in directory {self._of[log_name]}"
        known = self._found.pop(log_name, None)
        if known is not None and known < self.count and known not in self.failed:
            self._of[log_name] = known
            return None
        counts = dict.fromkeys((number for number in range(self.count) if number not in self.failed), 0)
        for number in self._of.values():
            if number in counts:
                counts[number] += 1
        assert counts, "all log directories have failed: the process is gone"
        number = self._of[log_name] = min(counts, key=lambda each: (counts[each], each))
        return (log_name.encode(), str(number).encode()) if self.count > 1 else None

    def of(self, log_name: str) -> int:
        """The number of the directory a log lies in."""
        return self._of[log_name]

    def may_lie_on_a_failed_one(self, log_name: str) -> bool:
        """Whether a log that is not open here may be on a directory that failed."""
        known = self._found.get(log_name)
        return bool(self.failed) if known is None else known in self.failed

    def remove(self, log_name: str) -> Record | None:
        """A log is deleted; what to write down about it, if anything."""
        del self._of[log_name]
        return (log_name.encode(), b"") if self.count > 1 else None

    def fail(self, number: int) -> None:
        """A directory cannot be written or read any more."""
        assert 0 <= number < self.count, number
        self.failed[number] = None
