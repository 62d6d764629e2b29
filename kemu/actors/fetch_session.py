"""A reader's half of an incremental fetch session (KIP-227), for consumers and followers.

The first fetch lists all partitions. If the leader's answer names a session, each further fetch lists only the
partitions with another offset or epoch than before, and the partitions to forget. After an error, or without an answer,
the reader begins a new session and closes the old one.

Source: Kafka 3.9's ``FetchSessionHandler``.
"""

from collections.abc import Mapping

from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FULL_EPOCH, NO_FETCH_SESSION, epoch_after
from kemu.protocol.messages.data import FetchPartition, FetchReply
from kemu.protocol.names import TopicPartition

Rows = Mapping[TopicPartition, FetchPartition]


class FetchSessionHandler:
    """The session with one leader."""

    __slots__ = ("_rows", "epoch", "id")

    def __init__(self) -> None:
        self.id = NO_FETCH_SESSION
        self.epoch = FULL_EPOCH
        """The epoch of the next fetch."""
        self._rows: Rows = {}
        """The partitions in the session, as the leader knows them once it has the last fetch."""

    def news(self, rows: Rows) -> tuple[tuple[FetchPartition, ...], tuple[TopicPartition, ...]]:
        """The rows and the forgotten partitions of the next fetch, which reads ``rows``.

        The caller keeps ``rows`` unchanged. New partitions come before those that changed, as in Kafka.
        """
        before, self._rows = self._rows, rows
        if self.epoch == FULL_EPOCH:
            return tuple(rows.values()), ()
        if before is rows:
            return (), ()
        added, changed = [], []
        for at, row in rows.items():
            old = before.get(at)
            if old is row:
                continue
            if old is None:
                added.append(row)
            elif old.fetch_offset != row.fetch_offset or old != row:
                changed.append(row)
        kept = len(rows) - len(added)
        forgotten = () if kept == len(before) else tuple([at for at in before if at not in rows])
        return (*added, *changed), forgotten

    def answered(self, reply: FetchReply) -> bool:
        """Take an answer's session; return whether its rows may be used."""
        if reply.error is not ErrorCode.NONE:
            if reply.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_FETCH_SESSION
            self.epoch = FULL_EPOCH
            return False
        self.id = reply.session_id
        self.epoch = FULL_EPOCH if reply.session_id == NO_FETCH_SESSION else epoch_after(self.epoch)
        return True

    def unanswered(self) -> None:
        """The last fetch has no answer: the next one closes this session and asks for a new one."""
        self.epoch = FULL_EPOCH
