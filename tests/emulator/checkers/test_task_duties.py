"""What Streams applications must get done in time, and commit before they give it up, told by hand."""

import pytest
from attrs import evolve

from kemu.emulator.facts import FaultApplied, HostDown, HostStarted, RunStarted
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import (
    CommitAnswered,
    OffsetCommitted,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
    RecordsAppended,
    Rejoin,
)
from tests.emulator.streams_story import APP, COORDINATOR, S, StreamsStory, formed, kinds


def with_broker(told: StreamsStory) -> StreamsStory:
    """b0 runs from the start."""
    run = RunStarted(groups=(APP,), members=(("a", APP), ("b", APP)), brokers=("b0",), topics=())
    told.say(0, "", run, HostStarted(host="b0", life=1, kept_disk=True))
    return told


def restoring(**settings: int) -> StreamsStory:
    """b was given 0_0 at 30, whose changelog has 100 records."""
    told = with_broker(formed(**settings))
    told.say(10, "b0", RecordsAppended(topic="log", partition=0, base_offset=0, count=100))
    told.copy(30, "a", "0", "active", "SUSPENDED", "CLOSED", position=100)
    told.copy(30, "b", "0", "active", "CREATED", "RESTORING")
    return told


@pytest.mark.parametrize(
    ("reads_s", "until_s", "found"),
    [((), 85, []), ((), 95, ["not-restored"]), ((80,), 135, []), ((80,), 145, ["not-restored"])],
)
def test_a_task_is_restored_as_long_as_its_thread_gets_on_with_it(
    reads_s: tuple[int, ...], until_s: int, found: list[str]
) -> None:
    """A minute without progress is too long."""
    told = restoring()
    for at_s in reads_s:
        told.read(at_s, "b", "0", "active", 0, 50)

    assert kinds(told, until_s) == found


@pytest.mark.parametrize(
    ("links", "found"),
    [((("b", "b0"),), []), ((("a", "b0"),), ["not-restored"]), ((("a", ""),), ["not-restored"])],
)
def test_only_a_fault_that_hits_the_instance_or_its_brokers_stops_the_clock(
    links: tuple[tuple[str, str], ...], found: list[str]
) -> None:
    """A fault of another instance does not."""
    told = restoring()
    told.say(40, "", FaultApplied(index=0, kind="isolate", text="", links=links, lasts=True))

    assert kinds(told, 150) == found


def test_a_broker_that_went_down_gives_another_minute() -> None:
    """Its partitions need another leader."""
    told = restoring()
    told.say(60, "", HostStarted(host="b1", life=1, kept_disk=True))
    told.say(80, "", HostDown(host="b0", life=1, how="power"))
    told.say(85, "", HostStarted(host="b0", life=2, kept_disk=True))

    assert kinds(told, 140) == []
    assert kinds(told, 150) == ["not-restored"]


@pytest.mark.parametrize(
    ("reads", "owner", "found"),
    [
        ([(31, 0, 100)], (), []),
        ([], (), ["not-restored"]),
        ([(31, 0, 60)], (), ["not-restored"]),
        ([(31, 0, 60), (75, 60, 90)], (), []),
        ([], ("CREATED", "RESTORING"), []),  # active tasks come first
    ],
)
def test_a_standby_follows_its_changelog(
    reads: list[tuple[int, int, int]], owner: tuple[str, ...], found: list[str]
) -> None:
    """Unless its thread restores an active task, which applies records now and then."""
    told = with_broker(formed(standbys=1))
    told.say(10, "b0", RecordsAppended(topic="log", partition=0, base_offset=0, count=100))
    told.copy(30, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    for at_s, first, last in reads:
        told.read(at_s, "b", "0", "standby", first, last)
    if owner:
        told.copy(30, "b", "9", "active", *owner)
        told.read(80, "b", "9", "active", 0, 10)

    assert kinds(told, 110) == found


@pytest.mark.parametrize(("per_s", "found"), [(10, []), (1, ["not-restored"])])
def test_a_standby_waits_while_its_thread_applies_records_of_another_without_a_pause(
    per_s: int, found: list[str]
) -> None:
    """One batch of slow records takes more than a minute; a few records now and then do not take the thread's time."""
    told = with_broker(formed(standbys=1))
    told.say(10, "b0", RecordsAppended(topic="log", partition=0, base_offset=0, count=100))
    told.copy(30, "b", "0", "standby", "CREATED", "RESTORING", "RUNNING")
    told.copy(30, "b", "1", "standby", "CREATED", "RESTORING", "RUNNING")
    for number in range(70 * per_s):
        told.read(31 + number / per_s, "b", "1", "standby", number, number + 1)

    assert kinds(told, 110) == found


@pytest.mark.parametrize(("rebalances_s", "found"), [(0, ["no-follow-up"]), (90, []), (130, ["no-follow-up"])])
def test_a_leader_that_gave_out_warm_ups_has_the_group_rebalance_again(rebalances_s: int, found: list[str]) -> None:
    """KIP-441: after ``probing.rebalance.interval.ms``, here 60 s, and a minute more."""
    told = with_broker(StreamsStory(assignor="ha", probing_us=60 * S))
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2", "b": "3 | standby 0"})
    told.runs(2, a="0 1 2", b="3")
    told.say(125, "b0", RecordsAppended(topic="log", partition=3, base_offset=0, count=0))
    if rebalances_s:
        told.prepare(rebalances_s, "looks again")

    assert kinds(told) == found


def processed(last: int) -> Processed:
    """A thread worked through in-0."""
    return Processed(
        group=APP, member_id="a-id", generation=1, topic="in", partition=0, first=0, last=last, started_us=0
    )


def revoked() -> PartitionsRevoked:
    """It gave that up."""
    return PartitionsRevoked(group=APP, member_id="a-id", generation=1, revoked=(("in", 0),), owned=())


@pytest.mark.parametrize(
    ("offset", "error", "fault", "found"),
    [
        (80, ErrorCode.NONE, False, []),
        (79, ErrorCode.NONE, False, ["given-up-uncommitted"]),
        (None, ErrorCode.NONE, False, ["given-up-uncommitted"]),
        (79, ErrorCode.ILLEGAL_GENERATION, False, []),
        (79, ErrorCode.NONE, True, []),
    ],
)
def test_what_is_given_up_is_committed(offset: int | None, error: ErrorCode, fault: bool, found: list[str]) -> None:
    """``TaskManager.handleRevocation`` commits first; an error or a fault may keep it from that."""
    told = with_broker(formed())
    told.say(20, "a/t1", processed(80))
    if fault:
        told.say(20, "", FaultApplied(index=0, kind="disconnect", text="", links=(("a", "b0"),)))
    if offset is not None:
        committed = OffsetCommitted(group=APP, topic="in", partition=0, offset=offset, generation=1, member_id="a-id")
        told.say(21, COORDINATOR, committed)
    told.say(22, "a/t1", CommitAnswered(group=APP, member_id="a-id", generation=1, error=error))
    told.say(23, "a/t1", revoked())

    assert kinds(told, 30) == found


def test_an_error_of_an_earlier_commit_excuses_nothing() -> None:
    """What was processed after it could have been committed."""
    told = with_broker(formed())
    error = ErrorCode.REBALANCE_IN_PROGRESS
    told.say(19, "a/t1", CommitAnswered(group=APP, member_id="a-id", generation=1, error=error))
    told.say(20, "a/t1", processed(80))
    told.say(23, "a/t1", revoked())

    assert kinds(told, 30) == ["given-up-uncommitted"]


@pytest.mark.parametrize(("closes", "found"), [(True, []), (False, ["runs-unowned", "runs-unowned"])])
def test_a_thread_that_lost_its_partitions_runs_nothing(closes: bool, found: list[str]) -> None:
    """onPartitionsLost closes its tasks."""
    told = formed()
    if closes:
        told.copy(20, "a", "0", "active", "SUSPENDED", "CLOSED")
        told.copy(20, "a", "1", "active", "SUSPENDED", "CLOSED")
    told.say(20, "a/t1", PartitionsLost(group=APP, member_id="a-id", lost=(("in", 0), ("in", 1))))

    assert kinds(told) == found


@pytest.mark.parametrize(
    ("committed_s", "state", "found"),
    [(None, "Stable", ["uncommitted"]), (33, "Stable", []), (38, "Stable", ["uncommitted"]), (None, "Empty", [])],
)
def test_a_thread_commits_what_it_processed_within_its_interval(
    committed_s: int | None, state: str, found: list[str]
) -> None:
    """``commit.interval.ms`` is 10 s here; a commit that is done shows that it was late by less than 10 s."""
    told = with_broker(formed())
    told.say(20, "a/t1", evolve(processed(80), started_us=20 * S))
    if state != "Stable":
        told.prepare(21, "a-id joins again")
    if committed_s is not None:
        committed = OffsetCommitted(group=APP, topic="in", partition=0, offset=80, generation=1, member_id="a-id")
        told.say(committed_s, COORDINATOR, committed)

    assert kinds(told, 60, commit_us={APP: 10 * S}) == found


@pytest.mark.parametrize(("committed_s", "found"), [(95, []), (105, ["uncommitted"])])
def test_a_flush_may_wait_for_a_request_to_a_broker_that_died(committed_s: int, found: list[str]) -> None:
    """Its producer asks for metadata where nobody answers, until ``request.timeout.ms`` is over."""
    told = with_broker(formed())
    told.say(15, "", HostStarted(host="b0", life=2, kept_disk=True))
    told.say(20, "a/t1", evolve(processed(80), started_us=20 * S))
    committed = OffsetCommitted(group=APP, topic="in", partition=0, offset=80, generation=1, member_id="a-id")
    told.say(committed_s, COORDINATOR, committed)

    assert kinds(told, 110, commit_us={APP: 10 * S}) == found


@pytest.mark.parametrize(("at_s", "why", "found"), [
    (30, Rejoin.PROBING, ["early-follow-up"]),
    (62, Rejoin.PROBING, []),
    (30, Rejoin.LEAVING, []),
])  # fmt: skip
def test_a_probing_rebalance_waits_for_its_interval(at_s: int, why: str, found: list[str]) -> None:
    """KIP-441: ``probing.rebalance.interval.ms`` is 60 s here; other reasons do not wait."""
    told = with_broker(StreamsStory(assignor="ha", probing_us=60 * S))
    told.start(0, "a", "b")
    told.decide(1, {"a": "0 1 2", "b": "3 | standby 0"})
    told.runs(2, a="0 1 2", b="3")
    told.prepare(at_s, f"Updating metadata for member a-id during Stable; client reason: {why}")

    assert kinds(told) == found


@pytest.mark.parametrize(("at_s", "found"), [(60.9999, ["early-follow-up"]), (61, [])])
def test_the_probing_interval_begins_at_a_whole_millisecond_of_the_leader(at_s: float, found: list[str]) -> None:
    """The leader computes the time in milliseconds, so the interval may be up to 1 ms shorter."""
    told = with_broker(StreamsStory(assignor="ha", probing_us=60 * S))
    told.start(0, "a", "b")
    told.decide(1.0005, {"a": "0 1 2", "b": "3 | standby 0"})
    told.runs(2, a="0 1 2", b="3")
    told.prepare(at_s, f"Updating metadata for member a-id during Stable; client reason: {Rejoin.PROBING}")

    assert kinds(told) == found
