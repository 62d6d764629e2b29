"""Incremental fetch sessions (KIP-227): the cache of a broker, and the two halves of a session under any exchange."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.fetch_sessions import EVICTION_MS, IDS_OF_A_LIFE, FetchSessions
from kemu.actors.fetch_session import FetchSessionHandler
from kemu.actors.machine import Machine
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import FINAL_EPOCH, FULL_EPOCH, LARGEST_EPOCH, NO_FETCH_SESSION, epoch_after
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply, RecordBatch

NONE = ErrorCode.NONE
FOLLOWER = 3


class Clock(Machine):
    """Tells the cache the time."""

    def wait_ms(self, ms: int) -> None:
        self.now_us += ms * 1_000


@pytest.fixture
def clock() -> Clock:
    return Clock("b0")


def row(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(topic="t", partition=number, fetch_offset=offset)


def fetched(number: int, *, high_watermark: int = 0, records: int = 0, error: ErrorCode = NONE) -> FetchedPartition:
    batches = (RecordBatch(base_offset=0, count=records, append_time_ms=0),) if records else ()
    return FetchedPartition(
        topic="t", partition=number, error=error, high_watermark=high_watermark, log_start_offset=0, batches=batches
    )


def fetch(
    rows: Iterable[int] | Iterable[FetchPartition] = (),
    session_id: int = NO_FETCH_SESSION,
    epoch: int = FULL_EPOCH,
    forgotten: Iterable[int] = (),
    replica_id: int = -1,
) -> Fetch:
    return Fetch(
        replica_id=replica_id,
        max_wait_ms=500,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        partitions=tuple(each if isinstance(each, FetchPartition) else row(each) for each in rows),
        forgotten=tuple(("t", number) for number in forgotten),
    )


def ask(sessions: FetchSessions, request: Fetch) -> FetchReply:
    """The answer, with an empty row for each partition of the request or of its session."""
    context = sessions.opened(request)
    if isinstance(context, ErrorCode):
        return FetchReply(error=context, partitions=())
    return sessions.answer(context, tuple(fetched(each.partition) for each in context.rows))


def begun(sessions: FetchSessions, partitions: int, replica_id: int = -1) -> int:
    """The id of a new session of so many partitions, or ``NO_FETCH_SESSION``."""
    return ask(sessions, fetch(range(partitions), replica_id=replica_id)).session_id


def partitions_of(sessions: FetchSessions, session_id: int) -> list[int]:
    return [number for _, number in sessions.by_id[session_id].rows]


# --- epochs and errors ------------------------------------------------------------------------------------------------


def test_epochs_count_from_one_and_begin_anew_after_the_largest() -> None:
    """FetchMetadata.nextEpoch."""
    assert [epoch_after(FULL_EPOCH), epoch_after(1), epoch_after(LARGEST_EPOCH)] == [1, 2, 1]


def test_a_session_lists_only_changes_and_forgets(clock: Clock) -> None:
    """FetchSessionHandler.update: new partitions come last, changed ones keep their place, forgotten ones leave."""
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 3)

    assert number == IDS_OF_A_LIFE + 1
    context = sessions.opened(fetch([row(7), row(1, offset=5)], number, 1, forgotten=[0]))

    assert not isinstance(context, ErrorCode)
    assert [(each.partition, each.fetch_offset) for each in context.rows] == [(1, 5), (2, 0), (7, 0)]
    assert list(context.added) == [("t", 7)]
    again = sessions.opened(fetch([], number, 2))
    assert not isinstance(again, ErrorCode)
    assert again.rows is context.rows, "an idle session has the same rows"


def test_a_wrong_epoch_and_an_unknown_session_are_errors_of_the_whole_fetch(clock: Clock) -> None:
    """FetchManager.newContext. Error 71 leaves the session as it is; a restarted broker knows no former session."""
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 2)

    assert ask(sessions, fetch([], number, 2)).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(sessions, fetch([], number, 1)).error is NONE
    assert ask(sessions, fetch([], number, 1)).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH, "sent a second time"
    restarted = FetchSessions(clock, 10, life=2)
    begun(restarted, 2)
    assert ask(restarted, fetch([], number, 2)).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("epoch", "begins"), [(FULL_EPOCH, True), (FINAL_EPOCH, False)])
def test_a_full_fetch_closes_its_session(clock: Clock, epoch: int, begins: bool) -> None:
    """FetchManager.newContext: "Any session specified in a FULL fetch request will be closed"."""
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 2)

    reply = ask(sessions, fetch([1], number, epoch))

    assert number not in sessions.by_id
    assert (reply.session_id != NO_FETCH_SESSION) is begins


def test_a_session_without_partitions_ends(clock: Clock) -> None:
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 1)

    assert ask(sessions, fetch([], number, 1, forgotten=[0])).session_id == NO_FETCH_SESSION
    assert not sessions.by_id


def test_an_answer_after_a_newer_fetch_is_an_error(clock: Clock) -> None:
    """IncrementalFetchContext.updateAndGenerateResponseData: "Possible duplicate request"."""
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 2)
    first, second = (sessions.opened(fetch([], number, epoch)) for epoch in (1, 2))
    assert not isinstance(first, ErrorCode) and not isinstance(second, ErrorCode)

    assert sessions.answer(first, ()).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.answer(second, ()) == FetchReply(session_id=number, partitions=())


def test_partitions_with_records_are_served_last_in_the_next_fetch(clock: Clock) -> None:
    """PartitionIterator: a partition with records moves to the end, so that max_bytes starves none."""
    sessions = FetchSessions(clock, 10, life=1)
    number = begun(sessions, 3)
    context = sessions.opened(fetch([], number, 1))
    assert not isinstance(context, ErrorCode)

    sessions.answer(context, (fetched(0, records=2), fetched(1, high_watermark=4), fetched(2, error=ErrorCode(6))))

    assert partitions_of(sessions, number) == [1, 2, 0]
    assert sessions.by_id[number].known == {("t", 0): (0, 0), ("t", 1): (4, 0)}, "after an error nothing is known"


# --- the cache --------------------------------------------------------------------------------------------------------


def test_a_full_cache_gives_no_session(clock: Clock) -> None:
    """max.incremental.fetch.session.cache.slots; 0: no sessions."""
    assert begun(FetchSessions(clock, 0, life=1), 5) == NO_FETCH_SESSION
    sessions = FetchSessions(clock, 2, life=1)
    kept = [begun(sessions, 1), begun(sessions, 1)]

    assert begun(sessions, 9) == NO_FETCH_SESSION, "both are younger than two minutes"
    assert list(sessions.by_id) == kept


def test_a_session_that_was_not_used_for_two_minutes_is_evicted(clock: Clock) -> None:
    """tryEvict, rule 2: the one with the oldest use, whatever its size."""
    sessions = FetchSessions(clock, 2, life=1)
    first, second = begun(sessions, 9), begun(sessions, 1)
    clock.wait_ms(1)
    ask(sessions, fetch([], first, 1))
    clock.wait_ms(EVICTION_MS)

    third = begun(sessions, 1)

    assert list(sessions.by_id) == [first, third]
    assert second not in sessions.by_id
    assert begun(sessions, 1) == NO_FETCH_SESSION, "exactly two minutes are not enough"


def test_a_follower_evicts_a_consumer_at_once(clock: Clock) -> None:
    """tryEvict, rule 1: the consumer with the fewest partitions; never the other way round."""
    sessions = FetchSessions(clock, 2, life=1)
    large, small = begun(sessions, 9), begun(sessions, 2)

    follower = begun(sessions, 1, replica_id=FOLLOWER)

    assert list(sessions.by_id) == [large, follower]
    assert small not in sessions.by_id
    other = begun(sessions, 1, replica_id=FOLLOWER)
    assert list(sessions.by_id) == [follower, other]
    assert begun(sessions, 99) == NO_FETCH_SESSION


def test_more_partitions_evict_fewer_once_the_session_is_old(clock: Clock) -> None:
    """tryEvict, rule 3: the age counts at the session's last use; equal sizes do not evict."""
    sessions = FetchSessions(clock, 1, life=1)
    number = begun(sessions, 3)
    for epoch in (1, 2):
        clock.wait_ms(EVICTION_MS // 2 + 1)
        ask(sessions, fetch([], number, epoch))

    assert begun(sessions, 3) == NO_FETCH_SESSION
    larger = begun(sessions, 4)
    assert list(sessions.by_id) == [larger]
    assert ask(sessions, fetch([], number, 3)).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_counts_with_its_present_size(clock: Clock) -> None:
    """touch: the size is that of the last use."""
    sessions = FetchSessions(clock, 1, life=1)
    number = begun(sessions, 3)
    clock.wait_ms(EVICTION_MS + 1)
    for each in range(3):
        ask(sessions, fetch(range(9), number, 1 + each))

    assert begun(sessions, 8) == NO_FETCH_SESSION


# --- both halves ------------------------------------------------------------------------------------------------------

PLANS = st.dictionaries(st.integers(0, 7), st.integers(0, 3), max_size=8)
EVENTS = st.lists(
    st.tuples(
        PLANS, st.sampled_from(["answered", "answered", "answered", "lost", "answer-lost", "evicted", "restart"])
    ),
    max_size=30,
)


@given(EVENTS)
def test_the_brokers_session_is_the_readers_after_any_exchange(events: list[tuple[dict[int, int], str]]) -> None:
    """Requests and answers get lost, sessions are evicted, brokers restart: the broker reads the planned rows."""
    clock = Clock("b0")
    life = 1
    sessions, reader = FetchSessions(clock, 2, life), FetchSessionHandler()
    for plan, fate in events:
        rows = {("t", number): row(number, offset) for number, offset in plan.items()}
        changed, forgotten = reader.news(rows)
        request = fetch(changed, reader.id, reader.epoch, [number for _, number in forgotten])
        if fate == "lost":
            reader.unanswered()
            continue
        if fate == "evicted":
            for _ in range(2):
                begun(sessions, 1, replica_id=FOLLOWER)
            assert reader.id not in sessions.by_id
        if fate == "restart":
            life += 1
            sessions = FetchSessions(clock, 2, life)
        context = sessions.opened(request)
        if isinstance(context, ErrorCode):
            assert fate in ("evicted", "restart") and reader.epoch != FULL_EPOCH
            assert not reader.answered(FetchReply(error=context, partitions=()))
            assert (reader.id, reader.epoch) == (NO_FETCH_SESSION, FULL_EPOCH)
            continue
        read = {(each.topic, each.partition): each for each in context.rows}
        assert read == rows
        reply = sessions.answer(context, tuple(fetched(each.partition, records=1) for each in context.rows))
        if fate == "answer-lost":
            reader.unanswered()
        else:
            assert reader.answered(reply)
            assert reader.id == reply.session_id
        assert len(sessions.by_id) <= 2
        clock.wait_ms(EVICTION_MS + 1)
