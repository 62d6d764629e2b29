"""A broker's log directories: each on its own disk, which can fail alone (KIP-112, JBOD).

A new log is placed in the live directory with the fewest logs, the first of several. The place of each log is recorded,
as a file system would show it after a restart. Logs in a failed directory are offline until the process restarts with a
repaired directory. While a directory is offline, a missing log of an existing replica must not be created: the log
may be in this directory.

Source: Kafka 2.8 ``LogManager`` (``nextLogDirs``, ``handleLogDirFailure``, ``getOrCreateLog``).
"""

from collections.abc import Iterable

from kemu.actors.machine import Record

PLACES = "log-directories"
"""The disk's name of the places: (log name, number of its directory, or empty); the last record of a log is valid."""


class LogDirs:
    """The directory of each log. ``count``: the number of directories, which are numbered from 0."""

    def __init__(self, count: int) -> None:
        assert count >= 1, count
        self.count = count
        self.failed: dict[int, None] = {}
        self._of: dict[str, int] = {}
        self._found: dict[str, int] = {}

    def found(self, rows: Iterable[Record]) -> None:
        """Load the records of former starts of the process."""
        self._found = {name.decode(): int(number) for name, number in dict(rows).items() if number}

    def place(self, log_name: str) -> Record | None:
        """Place a log into its recorded directory, or into another; returns the record to write, if any."""
        assert log_name not in self._of, f"{log_name} lies in directory {self._of[log_name]}"
        known = self._found.pop(log_name, None)
        if known is not None and known < self.count and known not in self.failed:
            self._of[log_name] = known
            return None
        counts = dict.fromkeys((number for number in range(self.count) if number not in self.failed), 0)
        for number in self._of.values():
            if number in counts:
                counts[number] += 1
        assert counts, "all log directories have failed: the process must have ended"
        number = self._of[log_name] = min(counts, key=lambda each: (counts[each], each))
        return (log_name.encode(), str(number).encode()) if self.count > 1 else None

    def of(self, log_name: str) -> int:
        """The number of a log's directory."""
        return self._of[log_name]

    def may_be_in_failed_dir(self, log_name: str) -> bool:
        """Whether a log that is not open here may be in a failed directory."""
        known = self._found.get(log_name)
        return bool(self.failed) if known is None else known in self.failed

    def remove(self, log_name: str) -> Record | None:
        """Remove a deleted log; returns the record to write, if any."""
        del self._of[log_name]
        return (log_name.encode(), b"") if self.count > 1 else None

    def fail(self, number: int) -> None:
        """Mark a directory as failed for reads and writes."""
        assert 0 <= number < self.count, number
        self.failed[number] = None
