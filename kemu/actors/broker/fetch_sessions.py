"""Incremental fetch sessions on a broker (KIP-227; a part of the broker).

A full fetch lists all of its partitions, and its answer has a row for each. If the cache has a free slot, or a session
that may be evicted, the answer names a new session. Each further fetch names the session and its next epoch, and lists
changes only. Its answer has only the partitions with records, an error, or another high watermark or log start than the
reader knows.

A new session may evict a session that was not used for two minutes. A follower's session may evict a consumer's. A
session may evict one of the same kind with fewer partitions that is older than two minutes.

Differences from Kafka: a broker draws random session ids; here ids count up, from another start in each life of the
broker. From 3.7 on the cache has eight parts; here it has one, as before.

Source: Kafka 3.9's ``FetchSession.scala`` (``FetchManager``, ``FetchSessionCacheShard``, ``CachedPartition``).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TypeAlias

from kemu.actors.machine import Machine
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FINAL_EPOCH, FULL_EPOCH, epoch_after
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply
from kemu.protocol.names import TopicPartition, shared
from kemu.protocol.wire.compile import maker

EVICTION_MS = 120_000
"""Source: ``KafkaServer.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS``."""
IDS_OF_A_LIFE = 1 << 20

Value: TypeAlias = tuple[bool, int, int]
"""The value of a session in the cache: of a follower, number of partitions, id. Source: ``EvictableKey``."""

_NONE = ErrorCode.NONE
_fetch_reply = maker(FetchReply)


class FetchSession:
    """A session: the partitions that its reader fetches, and what the reader knows of each."""

    __slots__ = (
        "_listed",
        "created_ms",
        "epoch",
        "id",
        "is_of_follower",
        "is_old",
        "known",
        "no_news",
        "rows",
        "used_ms",
        "value",
    )

    def __init__(
        self, number: int, is_of_follower: bool, rows: dict[TopicPartition, FetchPartition], now_ms: int
    ) -> None:
        self.id = number
        self.is_of_follower = is_of_follower
        self.rows = rows
        """In the order in which partitions are served: those with records in the last answer come last."""
        self.known: dict[TopicPartition, tuple[int, int]] = {}
        """High watermark and log start in the last answer with the partition. A partition without them, new or after an
        error, is in the next answer."""
        self.epoch = epoch_after(FULL_EPOCH)
        """The epoch of the next fetch."""
        self.created_ms = self.used_ms = now_ms
        self.is_old = False
        """Whether it was older than two minutes at its last use."""
        self.value: Value = (is_of_follower, len(rows), number)
        self.no_news = FetchReply(session_id=number, partitions=())
        self._listed: tuple[FetchPartition, ...] | None = None

    def listed(self) -> tuple[FetchPartition, ...]:
        """All rows in order; the same tuple as long as no row has changed."""
        if self._listed is None:
            self._listed = tuple(self.rows.values())
        return self._listed

    def update(self, request: Fetch) -> list[TopicPartition]:
        """Take the changes of a fetch; return the new partitions."""
        rows = self.rows
        added = []
        for row in request.partitions:
            at = (row.topic, row.partition)
            if at not in rows:
                added.append(at)
            rows[at] = row
        for at in request.forgotten:
            rows.pop(at, None)
            self.known.pop(at, None)
        if request.partitions or request.forgotten:
            self._listed = None
        return added

    def answered(self, answers: Iterable[FetchedPartition]) -> None:
        """Remember what the reader knows after these rows."""
        rows, known = self.rows, self.known
        for answer in answers:
            at = (answer.topic, answer.partition)
            if at not in rows:
                continue
            if answer.error is not _NONE:
                known.pop(at, None)
                continue
            known[at] = (answer.high_watermark, answer.log_start_offset)
            if answer.batches or answer.replica_batches:
                rows[at] = rows.pop(at)
                self._listed = None


class FetchContext:
    """The rows of a fetch, listed or in its session.

    ``session``: of an incremental fetch; None: the answer has all rows. ``added``: its new partitions. ``asks``: a full
    fetch that asks for a session.
    """

    __slots__ = ("added", "asks", "epoch", "is_of_follower", "rows", "session")

    def __init__(
        self,
        rows: tuple[FetchPartition, ...],
        session: FetchSession | None = None,
        added: Iterable[TopicPartition] = (),
        asks: bool = False,
        is_of_follower: bool = False,
    ) -> None:
        self.rows = rows
        self.session = session
        self.added = added
        self.asks = asks
        self.is_of_follower = is_of_follower
        self.epoch = session.epoch if session is not None else FINAL_EPOCH


class FetchSessions:
    """The sessions of a broker.

    Args:
        slots: ``max.incremental.fetch.session.cache.slots``.
        life: number of the start of the broker's process.
    """

    def __init__(self, machine: Machine, slots: int, life: int) -> None:
        self._machine = machine
        self._slots = slots
        self._last_id = life * IDS_OF_A_LIFE
        self.by_id: dict[int, FetchSession] = {}
        """In order of the last use."""
        self._evictable: list[Value] = []
        """Older than two minutes at their last use, the least valuable first."""
        self._evictable_by_followers: list[Value] = []
        """These, and all sessions of consumers."""

    def opened(self, request: Fetch) -> FetchContext | ErrorCode:
        """The context of a fetch that has arrived, or the error for the whole fetch."""
        if request.session_epoch == FULL_EPOCH or request.session_epoch == FINAL_EPOCH:
            former = self.by_id.get(request.session_id)
            if former is not None:
                self._remove(former)
            asks = request.session_epoch == FULL_EPOCH
            return FetchContext(request.partitions, asks=asks, is_of_follower=request.replica_id >= 0)
        session = self.by_id.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        added = session.update(request)
        if not session.rows:
            self._remove(session)
            return FetchContext(())
        self._touch(session)
        session.epoch = epoch_after(session.epoch)
        return FetchContext(session.listed(), session, added)

    def answer(self, context: FetchContext, rows: tuple[FetchedPartition, ...]) -> FetchReply:
        """The answer with these rows, and with the session that continues or begins."""
        session = context.session
        if session is None:
            if not context.asks:
                return _fetch_reply(partitions=rows)
            session = self._created(context)
            if session is None:
                return _fetch_reply(partitions=rows)
        elif session.epoch != context.epoch:
            return _fetch_reply(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id, partitions=())
        if not rows:
            return session.no_news
        session.answered(rows)
        return _fetch_reply(session_id=session.id, partitions=rows)

    # --- the cache ---------------------------------------------------------------------------------------------

    def _created(self, context: FetchContext) -> FetchSession | None:
        if len(self.by_id) >= self._slots and not self._evict((context.is_of_follower, len(context.rows), 0)):
            return None
        self._last_id += 1
        rows = {shared((row.topic, row.partition)): row for row in context.rows}
        session = FetchSession(self._last_id, context.is_of_follower, rows, self._machine.now_us // 1_000)
        self.by_id[session.id] = session
        if not session.is_of_follower:
            insort(self._evictable_by_followers, session.value)
        return session

    def _evict(self, value: Value) -> bool:
        """Evict a session for one of this value; returns whether there was one."""
        oldest = next(iter(self.by_id.values()), None)
        if oldest is None:
            return False
        if self._machine.now_us // 1_000 - oldest.used_ms > EVICTION_MS:
            self._remove(oldest)
            return True
        evictable = self._evictable_by_followers if value[0] else self._evictable
        if not evictable or value < evictable[0]:
            return False
        self._remove(self.by_id[evictable[0][2]])
        return True

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = now_ms = self._machine.now_us // 1_000
        del self.by_id[session.id]
        self.by_id[session.id] = session
        value = (session.is_of_follower, len(session.rows), session.id)
        is_old = now_ms - session.created_ms > EVICTION_MS
        if is_old is not session.is_old or value != session.value:
            self._forget_value(session)
            session.is_old, session.value = is_old, value
            if is_old:
                insort(self._evictable, value)
            if is_old or not session.is_of_follower:
                insort(self._evictable_by_followers, value)

    def _remove(self, session: FetchSession) -> None:
        del self.by_id[session.id]
        self._forget_value(session)

    def _forget_value(self, session: FetchSession) -> None:
        for values in (self._evictable, self._evictable_by_followers):
            at = bisect_left(values, session.value)
            if at < len(values) and values[at] == session.value:
                del values[at]
