"""Java's coordinator gathers what is written to a partition of the offsets topic (group.coordinator.append.linger.ms).

Source: ``CoordinatorRuntime.CoordinatorContext`` 4.0.0 (append, maybeAllocateNewBatch, flushCurrentBatch, unload).
"""

import pytest

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.actors.coordinator.state import COMPLETING, STABLE
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import OffsetFetch, TopicPartitions
from kemu.protocol.messages.records import BATCH_BYTES, batch_bytes
from kemu.protocol.notes.groups import OffsetCommitted
from kemu.protocol.profiles import PROFILES
from tests.actors.coordinator.coordinator_harness import GROUP, US, Ask, Bench
from tests.actors.coordinator.test_group_sync import ids_of, joined

LINGER_MS = 5
ELSEWHERE = "another"
"""A group of another partition of the offsets topic."""


def committed(ask: Ask) -> E | None:
    """The answer to a commit of one partition."""
    return None if ask.reply is None else E(ask.reply.outcomes[0].error)


def appends_of(bench: Bench) -> list[int]:
    """How many records each held append has."""
    return [len(held.append.records) for held in bench.held]


def test_4_0_gathers_for_5_ms_and_4_2_without_a_delay_and_no_release_before_gathers() -> None:
    """GroupCoordinatorConfig.GROUP_COORDINATOR_APPEND_LINGER_MS_DEFAULT of 4.0.0; -1 (adaptive) in 4.2.1."""
    gathers = [name for name, each in PROFILES.items() if GROUP_RULES[each.broker.coordinator_kind].gathers_writes]

    assert gathers == ["kafka-4.0", "kafka-4.1", "kafka-4.2", "kafka-4.3"]
    lingers_ms = [PROFILES[name].broker.group_coordinator_append_linger_ms for name in gathers]
    assert lingers_ms == [LINGER_MS, LINGER_MS, -1, -1]
    assert BrokerConfig().group_coordinator_append_linger_ms == LINGER_MS


def test_a_commit_is_answered_when_what_was_gathered_is_in_the_log() -> None:
    """The first record of a batch starts its time; later ones do not lengthen it, and all are appended together."""
    bench = Bench(linger_ms=LINGER_MS)
    first = bench.commit("c1", 1)
    bench.advance(LINGER_MS - 1)
    second = bench.commit("c2", 2)
    bench.advance_us(US - 1)
    assert (first.reply, second.reply, bench.log()) == (None, None, [])

    bench.advance_us(1)
    third = bench.commit("c3", 3)

    assert (committed(first), committed(second), third.reply) == (E.NONE, E.NONE, None)
    assert (first.answered_us, second.answered_us) == (LINGER_MS * US, LINGER_MS * US)
    assert [note.position for note in bench.noted(OffsetCommitted)] == [0, 1]
    assert bench.committed() == 2
    bench.advance(LINGER_MS)
    assert (committed(third), len(bench.log())) == (E.NONE, 3)


@pytest.mark.parametrize("how", [{"linger_ms": 0}, {"linger_ms": LINGER_MS, "coordinator_kind": "scala"}])
def test_without_linger_and_in_scala_each_write_is_appended_at_once(how: dict[str, int | str]) -> None:
    """maybeFlushCurrentBatch: a linger of 0 is over at once; GroupMetadataManager.appendForGroup (3.4.1)."""
    bench = Bench(**how)  # type: ignore[arg-type]
    bench.hold_appends = True
    asks = [bench.commit("c1", 1), bench.commit("c1", 2, partition=1)]

    assert appends_of(bench) == [1, 1]
    bench.release()
    assert [committed(ask) for ask in asks] == [E.NONE, E.NONE]
    assert not [key for key in bench.timers if key[0] == "linger"]


def test_each_partition_of_the_offsets_topic_has_a_batch_and_a_time_of_its_own() -> None:
    """CoordinatorContext.currentBatch: one context for each partition."""
    bench = Bench(linger_ms=LINGER_MS)
    bench.lead(ELSEWHERE)
    here = bench.commit("c1", 1)
    bench.advance(2)
    there = bench.commit("c1", 1, group=ELSEWHERE)
    bench.advance(LINGER_MS)

    assert (here.answered_us, there.answered_us) == (LINGER_MS * US, (2 + LINGER_MS) * US)


def test_a_group_is_stable_only_when_what_was_gathered_with_its_assignment_is_in_the_log() -> None:
    """classicGroupSyncToClassicGroup: the assignment is given when its record is committed (appendFuture)."""
    bench = Bench(linger_ms=LINGER_MS)
    ids = ids_of(joined(bench, "c1", "c2"))
    follower = bench.sync("c2", ids["c2"], 1)
    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"1", ids["c2"]: b"2"})
    beat = bench.beat("c2", ids["c2"], 1)
    asked_us = bench.now_us
    assert (bench.group.state, leader.reply, follower.reply, beat.reply) == (COMPLETING, None, None, None)

    bench.advance(LINGER_MS)

    assert (bench.group.state, leader.error, follower.reply.assignment, beat.error) == (STABLE, E.NONE, b"2", E.NONE)
    assert leader.answered_us == follower.answered_us == beat.answered_us == asked_us + LINGER_MS * US


def test_heartbeats_and_stable_fetches_wait_for_what_is_gathered_and_plain_fetches_do_not() -> None:
    """CoordinatorContext.append: an operation without records joins the deferred events of the current batch."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench = gathering(bench)
    topics = (TopicPartitions(topic="t", partitions=(0,)),)
    commit = bench.commit("c1", 7, member_id=formed.ids["c1"], generation=1)
    beat = bench.beat("c1", formed.ids["c1"], 1)
    stable = bench.ask("c1", OffsetFetch(group=GROUP, topics=topics, require_stable=True))
    assert (commit.reply, beat.reply, stable.reply, bench.committed()) == (None, None, None, -1)

    bench.advance(LINGER_MS)

    assert (committed(commit), beat.error, stable.reply.offsets[0].offset) == (E.NONE, E.NONE, 7)
    assert bench.heartbeat("c1", formed.ids["c1"], 1) is E.NONE


def gathering(before: Bench) -> Bench:
    """A broker that gathers, which leads what another led before."""
    bench = Bench(linger_ms=LINGER_MS, lead=False)
    bench.lead(GROUP, records=tuple(before.log()))
    return bench


def test_a_write_that_does_not_fit_any_more_has_the_others_appended_before_it() -> None:
    """hasRoomFor: the current batch is flushed, another begins, with a time of its own."""
    one = batch_bytes(written_by_a_commit())
    bench = Bench(linger_ms=LINGER_MS, message_max_bytes=2 * one)
    bench.hold_appends = True
    bench.commit("c1", 1)
    bench.advance(2)
    bench.commit("c1", 2)
    assert appends_of(bench) == []

    bench.commit("c1", 3)
    assert appends_of(bench) == [2]
    bench.advance(LINGER_MS - 1)
    assert appends_of(bench) == [2]
    bench.advance(1)
    assert appends_of(bench) == [2, 1]


def written_by_a_commit() -> list[tuple[bytes, bytes | None]]:
    """The record of one commit."""
    bench = Bench()
    bench.commit("c1", 1)
    return list(bench.log())


@pytest.mark.parametrize(("kind", "headers"), [("java", 2), ("scala", 1)])
def test_what_is_gathered_must_fit_with_a_second_header(kind: str, headers: int) -> None:
    """estimateSizeInBytes has a header, and maxAllowedBytes leaves room for another: RecordTooLargeException."""
    least = batch_bytes(written_by_a_commit()) + (headers - 1) * BATCH_BYTES

    for most, error in ((least, E.NONE), (least - 1, E.UNKNOWN_SERVER_ERROR if kind.startswith("java") else None)):
        bench = Bench(linger_ms=LINGER_MS, coordinator_kind=kind, message_max_bytes=most)
        commit = bench.commit("c1", 1)
        bench.advance(LINGER_MS)
        assert committed(commit) is (E.INVALID_COMMIT_OFFSET_SIZE if error is None else error)


def test_a_batch_fails_as_a_whole() -> None:
    """failCurrentBatch: all of its events get the error, and the state is as it was before it."""
    bench = Bench(linger_ms=LINGER_MS)
    bench.append_errors = [E.NOT_LEADER_OR_FOLLOWER]
    asks = [bench.commit("c1", 1), bench.commit("c2", 2, partition=1)]
    bench.advance(LINGER_MS)

    assert [committed(ask) for ask in asks] == [E.NOT_COORDINATOR, E.NOT_COORDINATOR]
    assert (bench.committed(), bench.committed(partition=1), bench.log()) == (-1, -1, [])
    again = bench.commit("c1", 3)
    bench.advance(LINGER_MS)
    assert (committed(again), bench.committed()) == (E.NONE, 3)


def test_what_is_gathered_is_lost_with_the_partition_and_refused() -> None:
    """unload: failCurrentBatch(NOT_COORDINATOR); nothing of it is ever appended."""
    bench = Bench(linger_ms=LINGER_MS)
    formed_before = bench.commit("c1", 1)
    bench.advance(LINGER_MS)
    lost = bench.commit("c1", 2)
    bench.resign()

    assert (committed(formed_before), committed(lost)) == (E.NONE, E.NOT_COORDINATOR)
    assert not [key for key in bench.timers if key[0] == "linger"]
    bench.lead(GROUP)
    bench.advance(LINGER_MS)
    assert (bench.committed(), len(bench.log())) == (1, 1)


def test_what_is_gathered_is_lost_with_the_broker_and_was_told_to_nobody() -> None:
    """The batch is in memory alone: a commit that was not answered is not committed."""
    bench = Bench(linger_ms=LINGER_MS)
    lost = bench.commit("c1", 2)
    bench.advance(LINGER_MS - 1)
    bench.crash_and_restart()
    bench.advance(LINGER_MS)

    assert (lost.reply, bench.committed(), bench.log()) == (None, -1, [])
    assert bench.noted(OffsetCommitted) == []
