"""Records of a log with which something was done, for as long as the log has them.

What a log loses (``WatchedLogs.lost``) is not what comes at its offsets next. But a replica that was not in time to
lose it may lead later: then the log has it back (``WatchedLogs.back``), and what was done with it is done.
"""

from kemu.emulator.watching.logs import Run, WatchedLogs
from kemu.emulator.watching.ranges import Ranges


class RecordsDone(Ranges):
    """Ranges of offsets, and those that the log does not have at the moment."""

    __slots__ = ("_gone",)

    def __init__(self) -> None:
        super().__init__()
        self._gone: list[Run] = []

    def follow(self, logs: WatchedLogs) -> int:
        """The log has lost and regained what ``logs`` says; by how many records there are fewer now."""
        before = self.total
        if logs.cut is not None:
            for first, last, epoch in logs.lost:
                self._gone += [(start, end, epoch) for start, end in self.take(first, last)]
            self.cut(logs.cut)
        for first, last, epoch in logs.back:
            for start, end, written_in in self._gone:
                if written_in == epoch:
                    self.add(max(start, first), min(end, last))
        return before - self.total
