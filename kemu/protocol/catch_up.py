"""Decisions of KIP-333's parallel catch-up: the range skipped after a crash, its consumer, and the commits.

A partition of a group has two commit logs. The primary (the user's consumer) resumes at the end of the partition's log
after every recovery. The skipped part is a range, stored as a token in the second log. A secondary consumer processes
the open ranges, oldest first. An offset is the position of the next record to read; a range does not include its end.

The KIP's page leaves some cases open. The rules of this module fulfil the page's requirements: at-least-once delivery,
disjoint ranges, strictly increasing commits in each log, and no undelivered record below ``committed()``.
"""

from enum import Enum
from typing import NamedTuple, TypeAlias

from kemu.protocol.frozen import evolve, frozen

PART = "catch-up"
"""The second consumer's name within the member: ``c1/catch-up`` to its peers."""
PAGE = "page"
CALLS = ("log", PAGE)
"""The values of ``emulated.parallel.rebalance.calls``: two readings of poll(), beginningOffsets() and endOffsets()."""


class OffsetRange(NamedTuple):
    """Offsets from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@frozen
class OpenRange:
    """A write to the second log: a token, which is a range for the secondary to process."""

    range: OffsetRange


@frozen
class CommitPrimary:
    """A write to the first log: the primary's commit."""

    offset: int


@frozen
class CommitSecondary:
    """A write to the second log: the secondary's commit."""

    offset: int


LogWrite: TypeAlias = OpenRange | CommitPrimary | CommitSecondary


@frozen
class CommitLogs:
    """The relevant content of both logs of one partition: the last commits, and all tokens."""

    primary: int | None = None
    tokens: tuple[OffsetRange, ...] = ()
    secondary: int | None = None

    @property
    def last_end(self) -> int | None:
        """The end of the last range. Later offsets belong to the primary."""
        return self.tokens[-1].end if self.tokens else None

    @property
    def open_ranges(self) -> tuple[OffsetRange, ...]:
        """The unprocessed ranges, oldest first. A commit in a later range closes all earlier ranges."""
        done = -1 if self.secondary is None else self.secondary
        return tuple(OffsetRange(max(each.start, done), each.end) for each in self.tokens if each.end > done)

    @property
    def committed(self) -> int | None:
        """The result of ``committed()``: one of the logs has a commit for all records below this offset."""
        still = self.open_ranges
        return still[0].start if still else self.primary

    def after(self, write: LogWrite) -> "CommitLogs":
        """The logs with one more record. Asserts that commits increase, and that ranges do not overlap."""
        match write:
            case OpenRange(range=new):
                assert new.start < new.end, new
                assert self.last_end is None or new.start >= self.last_end, f"{new} overlaps {self.tokens[-1]}"
                return evolve(self, tokens=(*self.tokens, new))
            case CommitPrimary(offset=offset):
                assert self.primary is None or offset > self.primary, f"{offset} after {self.primary}"
                return evolve(self, primary=offset)
            case CommitSecondary(offset=offset):
                assert self.secondary is None or offset > self.secondary, f"{offset} after {self.secondary}"
                return evolve(self, secondary=offset)

    def clipped(self, log_end: int) -> "CommitLogs":
        """The logs after an unclean election, without ranges beyond the log's end."""
        kept = (OffsetRange(each.start, min(each.end, log_end)) for each in self.tokens if each.start < log_end)
        return evolve(self, tokens=tuple(kept))


class Recovery(NamedTuple):
    """The first steps of a member with a partition: writes, in order, and then a seek.

    Each write is durable before the next write begins.
    """

    writes: tuple[LogWrite, ...]
    position: int


def recover(logs: CommitLogs, log_end: int) -> Recovery | None:
    """The first steps of a member that owns the partition after a start, a restart, a rejoin or a rebalance.

    Args:
        logs: the logs that the group has stored.
        log_end: the high watermark, or the last stable offset under ``read_committed``; read once.

    Returns:
        None without any commit: then ``auto.offset.reset`` decides, and there is no range. A crash before the
        first write changes nothing; the next recovery repairs a crash after the token.
    """
    if logs.primary is None and not logs.tokens:
        return None
    base = max(offset for offset in (logs.primary, logs.last_end) if offset is not None)
    if log_end > base:
        return Recovery((OpenRange(OffsetRange(base, log_end)), CommitPrimary(log_end)), log_end)
    if logs.last_end is not None and (logs.primary is None or logs.last_end > logs.primary):
        return Recovery((CommitPrimary(logs.last_end),), base)
    return Recovery((), base)


class Route(Enum):
    """The log that ``commitSync(offset)`` writes an offset to."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    NOTHING = "noop"
    """The offset is already committed."""
    REFUSED = "rejected"
    """The offset is not delivered yet, or is outside every range."""


def route_commit(logs: CommitLogs, offset: int, primary_position: int, secondary_position: int) -> Route:
    """Choose the log for one offset of ``commitSync`` / ``commitAsync``.

    An offset belongs to the range with ``start < offset <= end``. So a commit of a range's end finishes the range.
    """
    for each in logs.open_ranges:
        if each.start < offset <= each.end:
            return Route.SECONDARY if offset <= secondary_position else Route.REFUSED
    if logs.primary is not None and offset <= logs.primary:
        return Route.NOTHING
    if any(each.start < offset <= each.end for each in logs.tokens):
        return Route.NOTHING
    return Route.PRIMARY if offset <= primary_position else Route.REFUSED
