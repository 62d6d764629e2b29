"""What checkers of replication know: each replica's log by leader epochs, and what was committed of a partition."""

from attrs import frozen

from kemu.emulator.watching.epoch_log import EpochLog

NO_OFFSET = 1 << 62
"""Behind every record."""


class Copy:
    """One broker's replica, as its notes tell."""

    __slots__ = ("epoch", "following", "had", "leads", "led", "left", "log", "lost", "unread", "watermark")

    def __init__(self) -> None:
        self.log = EpochLog()
        self.epoch = -1
        """The last leader epoch it took part in."""
        self.leads = False
        self.led = -1
        """The last leader epoch in which it led."""
        self.following = ""
        """Host of the leader it follows."""
        self.watermark = -1
        """As leader: the last high watermark it reported in this epoch."""
        self.unread = False
        """Its broker went down, and has not said since what it found on its disk."""
        self.lost = ""
        """How its disk lost something it was asked to keep (a reason of the atlas); "" once it has all again."""
        self.had = EpochLog()
        """Its log before that: of anything else its disk is no excuse."""
        self.left = 0
        """What the disk has left of that: of anything before, it is no excuse either."""

    def lose(self, why: str, left: int) -> None:
        """Its disk has less than the log had: records below ``left``."""
        if not self.lost or self.log.same_until(self.had) < self.log.end:
            self.had = self.log.copy()
            self.left = left
        self.left = min(self.left, left)
        self.lost = why


@frozen(eq=False)
class Relapse:
    """A leader lost its log's end with its disk, and leads on in its epoch: nothing tells the others of it.

    A replica that has what was lost keeps that, and copies what comes behind it: at these offsets it has records that
    the leader does not have (KIP-101, KIP-320 and KIP-595 know an epoch's end, and nothing of what lies below it).
    """

    first: int
    """From where on it came back without."""
    lost: EpochLog
    """Its log before that."""
    epoch: int
    """In which it leads again, and writes others there."""

    def explains(self, at: int, one: int, other: int) -> bool:
        """Whether logs may have records of these two epochs at an offset."""
        return self.first <= at < self.lost.end and {one, other} == {self.lost.epoch_at(at), self.epoch}


class PartitionTruth:
    """One partition: its copies by host, what was ever below a high watermark, and what was promised besides."""

    __slots__ = (
        "_astray_end",
        "_excuses",
        "committed",
        "committed_epoch",
        "copies",
        "former",
        "promised",
        "relapses",
        "unclean_epoch",
        "unclean_kept",
    )

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.committed = EpochLog()
        self.committed_epoch = -1
        """The newest leader epoch in which a high watermark was reported."""
        self.unclean_epoch = -1
        """Leader epoch of an unclean election whose leader has not spoken yet; -1 for none."""
        self.unclean_kept = 0
        """Up to where the elected replica had what was committed when the store had its election."""
        self._excuses: list[tuple[int, int]] = []
        """Lost for a reason: records from this offset on that were written before this leader epoch."""
        self._astray_end = 0
        """Behind the last of them."""
        self.former: EpochLog | None = None
        """What was committed in the former life of a topic that was created again."""
        self.promised: list[tuple[int, int, int]] = []
        """Acknowledged by a leader alone: (first, last + 1, epoch), ascending. Once committed it does not matter."""
        self.relapses: list[Relapse] = []

    def copy_on(self, host: str) -> Copy:
        """The replica on a broker."""
        copy = self.copies.get(host)
        if copy is None:
            copy = self.copies[host] = Copy()
        return copy

    def leads_again(self, copy: Copy, epoch: int, was_noticed: bool) -> None:
        """A replica leads; in the epoch in which it led before its disk lost something, that is a relapse.

        Unless a controller must have noticed that its broker was gone: the epoch is to be another then.
        """
        end = copy.log.end
        again = copy.lost and copy.led == epoch and not was_noticed
        if again and copy.left <= end < copy.had.end and copy.log.same_until(copy.had) == end:
            self.relapses.append(Relapse(end, copy.had, epoch))
        copy.led = epoch

    def same_until(self, log: EpochLog) -> int:
        """The first offset at which a log lacks what is committed, but for what a relapse explains."""
        at = self.committed.same_until(log)
        while self.relapses:
            upto = self._diverged_to(log, at)
            if upto == at:
                break
            at = self.committed.same_until(log, upto)
        return at

    def diverged(self, log: EpochLog) -> list[tuple[int, int]]:
        """Where a log has other records than are committed, for a relapse: (first, last + 1)."""
        pieces: list[tuple[int, int]] = []
        at = self.committed.same_until(log)
        while (upto := self._diverged_to(log, at)) > at:
            pieces.append((at, upto))
            at = self.committed.same_until(log, upto)
        return pieces

    def _diverged_to(self, log: EpochLog, at: int) -> int:
        """Up to where a relapse explains the difference at an offset; that offset itself if none does."""
        committed = self.committed
        for relapse in self.relapses:
            if relapse.explains(at, committed.epoch_at(at), log.epoch_at(at)):
                return min(committed.run_end(at), log.run_end(at), relapse.lost.run_end(at))
        return at

    def may_differ(self, at: int, one: int, other: int) -> bool:
        """Whether two logs may have records of these epochs at an offset."""
        return any(relapse.explains(at, one, other) for relapse in self.relapses)

    def was_there(self, first: int, last: int, epoch: int) -> int:
        """Up to where records ``first .. last - 1`` of an epoch were there before a relapse."""
        for relapse in self.relapses:
            if first >= relapse.first and relapse.lost.epoch_at(first) == epoch:
                return min(last, relapse.lost.end_of(epoch))
        return first

    def excused_to(self, copy: Copy, same: int) -> int:
        """Up to where its disk is why a replica has what is committed to ``same`` only."""
        return max(same, self.same_until(copy.had)) if copy.lost and same >= copy.left else same

    def excuse(self, offset: int, epoch: int) -> None:
        """What was written from this offset on, before this leader epoch, is lost for a reason."""
        self._excuses.append((offset, epoch))
        self._astray_end = max(self._astray_end, self.committed.end, *[copy.log.end for copy in self.copies.values()])

    def astray(self, end: int, epoch: int) -> None:
        """A leader of this epoch appended to here: it may be deposed already."""
        if self._excuses and end > self._astray_end and any(epoch < excused for _, excused in self._excuses):
            self._astray_end = end

    def excused_from(self, epoch: int) -> int:
        """From where on records of this epoch are lost for a reason."""
        if not self._excuses:
            return NO_OFFSET
        return min([offset for offset, excused in self._excuses if epoch < excused], default=NO_OFFSET)

    def may_have_been_told(self, end: int) -> bool:
        """Whether a producer may know of records up to here that are lost for a reason, or of another life's."""
        if self.former is not None and end <= self.former.end:
            return True
        return end <= self._astray_end and any(offset < end for offset, _ in self._excuses)

    def promise(self, first: int, last: int) -> None:
        """A leader alone acknowledged records ``first .. last - 1``."""
        while self.promised and self.promised[0][1] <= self.committed.end:
            del self.promised[0]
        epoch = max([copy.log.epoch_at(first) for copy in self.copies.values()], default=-1)
        if self.promised and self.promised[-1][1:] == (first, epoch):
            first = self.promised.pop()[0]
        self.promised.append((first, last, epoch))

    def broken_promises(self, log: EpochLog) -> list[tuple[int, int]]:
        """What was promised and neither is committed nor in this log: (first, last + 1). It is forgotten by that."""
        broken: list[tuple[int, int]] = []
        kept: list[tuple[int, int, int]] = []
        for first, last, epoch in self.promised:
            first = max(first, self.committed.end, log.start)
            if first >= last:
                continue
            there = min(max(first, log.end_of(epoch)), last) if log.epoch_at(first) == epoch else first
            if first < there:
                kept.append((first, there, epoch))
            if there < last:
                broken.append((there, last))
        self.promised = kept
        return broken
