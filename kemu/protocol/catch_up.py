"""The parallel catch-up of KIP-333, decided: what is skipped after a crash, who works it off, and what is committed.

A partition of a group has two commit logs. The primary, the user's consumer, goes on at the end of the log after every
recovery; what it skipped is a range, stored as a token in the second log, and a secondary consumer works off the open
ranges, oldest first. Offsets are the next to be read; ranges are half open. Where the page is silent, the rules taken
keep what it promises: at least once, disjoint ranges, strictly increasing commits in each log, and nothing below
``committed()`` that was not delivered.
"""

from enum import Enum
from typing import NamedTuple, TypeAlias

from attrs import evolve, frozen


class OffsetRange(NamedTuple):
    """Offsets from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@frozen
class OpenRange:
    """To the second log: a token, the range that the secondary has to work off."""

    range: OffsetRange


@frozen
class CommitPrimary:
    """To the first log: the primary's commit."""

    offset: int


@frozen
class CommitSecondary:
    """To the second log: how far the secondary came."""

    offset: int


LogWrite: TypeAlias = OpenRange | CommitPrimary | CommitSecondary


@frozen
class CommitLogs:
    """Both logs of one partition, as far as they count: the last commits, and every token."""

    primary: int | None = None
    tokens: tuple[OffsetRange, ...] = ()
    secondary: int | None = None

    @property
    def last_end(self) -> int | None:
        """Where the last range ends; what comes later is the primary's."""
        return self.tokens[-1].end if self.tokens else None

    @property
    def open_ranges(self) -> tuple[OffsetRange, ...]:
        """What is still to be worked off, oldest first. A commit in a later range closes all earlier ones."""
        done = -1 if self.secondary is None else self.secondary
        return tuple(OffsetRange(max(each.start, done), each.end) for each in self.tokens if each.end > done)

    @property
    def committed(self) -> int | None:
        """What ``committed()`` answers: everything below it is committed in one of the logs."""
        still = self.open_ranges
        return still[0].start if still else self.primary

    def after(self, write: LogWrite) -> "CommitLogs":
        """With one more record. Commits only rise, ranges follow each other: what breaks that is our own mistake."""
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
        """After an unclean election: what lies beyond the log's end is no more."""
        kept = (OffsetRange(each.start, min(each.end, log_end)) for each in self.tokens if each.start < log_end)
        return evolve(self, tokens=tuple(kept))


class Recovery(NamedTuple):
    """How a member begins with a partition: the writes, in order, each durable before the next; then the seek."""

    writes: tuple[LogWrite, ...]
    position: int


def recover(logs: CommitLogs, log_end: int) -> Recovery | None:
    """A member owns the partition anew: a first start, a restart, a rejoin, a rebalance.

    Args:
        logs: as stored by the group.
        log_end: the high watermark, or the last stable offset under ``read_committed``; read once.

    Returns:
        None: nothing was ever committed, so ``auto.offset.reset`` decides and there is no range. A crash before the
        first write leaves all as it was; one after the token is repaired by the next recovery.
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
    """Where an explicit ``commitSync(offset)`` goes."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    NOTHING = "noop"
    """Committed already."""
    REFUSED = "rejected"
    """Not delivered yet, or no range holds it."""


def route_commit(logs: CommitLogs, offset: int, primary_position: int, secondary_position: int) -> Route:
    """Split one offset of ``commitSync`` / ``commitAsync``: an offset belongs to the range whose end it does not pass.

    A range's end itself is the secondary's: committing it finishes the range.
    """
    for each in logs.open_ranges:
        if each.start < offset <= each.end:
            return Route.SECONDARY if offset <= secondary_position else Route.REFUSED
    if logs.primary is not None and offset <= logs.primary:
        return Route.NOTHING
    if any(each.start < offset <= each.end for each in logs.tokens):
        return Route.NOTHING
    return Route.PRIMARY if offset <= primary_position else Route.REFUSED
