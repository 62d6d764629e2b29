"""The consumer's half of KIP-320: a position is validated after each change of the leader or its epoch."""

import pytest

from kemu.actors.machine import Told
from kemu.protocol.commands import Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import OffsetForLeaderEpoch
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchReply, Metadata, NewLeader
from kemu.protocol.messages.group import OffsetCommit
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.notes.groups import MemberFailed, PositionSet, Processed
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, CLIENT_4_1, ClientRules
from tests.actors.consumer.consumer_harness import Harness

SECOND = 1_000_000
AT = ("t", 0)
NOT_LEADER, UNKNOWN_LEADER_EPOCH, FENCED = 6, 75, 74


class ApplicationLast:
    """The network thread is always faster than the application's thread."""

    def below(self, bound: int) -> int:
        """Never 0."""
        return bound - 1


def reading(*, versions: SpokenVersions = LATEST, **config: object) -> Harness:
    """A member that has read records 0 to 99, written in epoch 0; its history forgotten."""
    harness = Harness({"t": 1}, versions=versions, **config)  # type: ignore[arg-type]
    harness.cluster.epochs[AT], harness.cluster.committed[AT] = (0,), 0
    harness.stable()
    harness.append(AT, 100)
    harness.run(SECOND)
    harness.forget()
    return harness


def elect(harness: Harness, starts: tuple[int, ...], end: int) -> None:
    """The leader is gone; another one has this log."""
    harness.cluster.leaders[AT] = 1
    harness.cluster.epochs[AT] = starts
    harness.cluster.ends[AT] = end
    harness.disconnect("b0")
    harness.run(3 * SECOND)


def read(harness: Harness) -> list[tuple[int, int]]:
    return [(note.first, note.last) for note in harness.facts(Processed)]


def test_a_leader_that_has_all_that_was_read_is_fetched_from_there():
    """SubscriptionState.maybeCompleteValidation: the epoch ends at or behind the position."""
    harness = reading()
    elect(harness, (0, 100), 130)

    (asked,) = harness.requests(OffsetForLeaderEpoch)
    (question,) = asked.questions
    assert (asked.replica_id, question.leader_epoch, question.current_leader_epoch) == (-1, 0, 1)
    assert read(harness) == [(100, 130)]
    assert not harness.facts(PositionSet)


def test_a_leader_that_has_less_is_read_from_where_its_log_was_cut():
    """The consumer continues at the divergence offset, neither behind the new leader's records nor from the start."""
    harness = reading()
    elect(harness, (0, 60), 130)

    assert [(note.offset, note.why) for note in harness.facts(PositionSet)] == [(60, "truncated")]
    assert read(harness) == [(60, 130)]


@pytest.mark.parametrize("has_epoch", [True, False])
def test_a_fetch_follows_the_leader_that_its_error_names(has_epoch: bool):
    """AbstractFetch.handleFetchSuccess (3.7): a position with an epoch is validated there, without Metadata.
    The error of a position without an epoch still requests Metadata.
    """
    harness = reading() if has_epoch else Harness({"t": 1})
    if not has_epoch:
        harness.cluster.epochs[AT] = (0,)
        harness.stable()
        harness.run(100_000)
        harness.forget()
    harness.hold("Metadata")
    at = 100 if has_epoch else 0
    harness.cluster.leaders[AT], harness.cluster.epochs[AT] = 1, (0, at)
    leader = NewLeader(topic="t", partition=0, leader_id=1, leader_epoch=1, broker=None)
    row = FetchedPartition(topic="t", partition=0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.answer_next("Fetch", lambda _: FetchReply(partitions=(row,), new_leaders=(leader,)))
    harness.run(SECOND)
    harness.append(AT, 30)
    harness.run(SECOND)

    assert read(harness) == [(at, at + 30)]
    assert len(harness.requests(OffsetForLeaderEpoch)) == has_epoch
    assert bool(harness.requests(Metadata)) is not has_epoch


def test_nothing_is_fetched_before_the_answer():
    """AWAIT_VALIDATION is not fetchable."""
    harness = reading()
    harness.answer_next("OffsetForLeaderEpoch", *[UNKNOWN_LEADER_EPOCH] * 3)
    elect(harness, (0, 60), 130)
    order = [type(message).__name__ for _, peer, message in harness.sent if peer == "b1"]

    assert order.index("Fetch") > [at for at, name in enumerate(order) if name == "OffsetForLeaderEpoch"][3]
    assert read(harness) == [(60, 130)]


@pytest.mark.parametrize("client", [CLIENT_4_1, CLIENT_3_9], ids=["until 4.1", "since 4.2"])
def test_a_member_of_the_consumer_protocol_asks_a_leader_again_in_the_next_pass(client: ClientRules) -> None:
    """AsyncKafkaConsumer.pollForFetches: without a valid position a pass waits for retry.backoff.ms at most."""
    harness = Harness({"t": 1}, client=client, group_protocol="consumer")
    harness.cluster.epochs[AT], harness.cluster.committed[AT] = (0,), 0
    harness.run_until(lambda: bool(harness.consumer.positions.owned()))
    harness.append(AT, 100)
    harness.run(SECOND)
    harness.answer_next("OffsetForLeaderEpoch", NOT_LEADER)
    elect(harness, (0, 60), 130)

    assert len(harness.requests(OffsetForLeaderEpoch)) == 2
    assert read(harness) == [(0, 100), (60, 130)]


def test_positions_that_arrive_during_a_callback_are_validated_after_the_callback() -> None:
    """AsyncKafkaConsumer.checkInflightPoll (4.2): the event has ended, so the next pass submits another."""
    harness = Harness({"t": 1}, group_protocol="consumer", emulated_on_assigned_ms=30, start=False)
    harness.consumer.chance = ApplicationLast()
    harness.step(Told(Start()))
    harness.cluster.epochs[AT], harness.cluster.committed[AT] = (0,), 20
    harness.cluster.committed_epochs[AT] = 0
    harness.append(AT, 100)
    harness.run(3 * SECOND)

    assert len(harness.requests(OffsetForLeaderEpoch)) == 1
    assert read(harness) == [(20, 100)]


def test_without_a_reset_policy_the_application_is_told_of_the_truncation():
    """LogTruncationException."""
    harness = reading(auto_offset_reset="none", enable_auto_commit=False)
    elect(harness, (0, 60), 130)

    (failed,) = harness.facts(MemberFailed)
    assert "LogTruncationException: t-0 was truncated to 60, the position is 100" in failed.why
    assert read(harness) == []


def test_a_client_older_than_2_3_goes_on_behind_the_truncation():
    """It sends no OffsetForLeaderEpoch: records 60 to 99 of the new leader are skipped."""
    requests = {api: version for api, version in LATEST.requests.items() if api != "OffsetForLeaderEpoch"}
    harness = reading(versions=SpokenVersions(requests))
    elect(harness, (0, 60), 130)

    assert not harness.requests(OffsetForLeaderEpoch)
    assert read(harness) == [(100, 130)]


def test_commits_carry_the_epoch_of_what_was_read_and_a_start_is_asked_about():
    """OffsetCommit v6, OffsetFetch v5: a group that was away while the log was truncated learns of it."""
    harness = reading(auto_commit_interval_ms=500)
    harness.run(SECOND)
    rows = [row for commit in harness.requests(OffsetCommit) for row in commit.offsets]
    assert {(row.offset, row.leader_epoch) for row in rows} == {(100, 0)}

    later = Harness({"t": 1}, start=False)
    later.cluster.committed[AT], later.cluster.committed_epochs[AT] = 100, 0
    later.cluster.epochs[AT], later.cluster.ends[AT] = (0, 60), 130
    later.tell(Start())
    later.stable()
    later.run(SECOND)

    assert [(note.offset, note.why) for note in later.facts(PositionSet)] == [(100, "committed"), (60, "truncated")]
    assert read(later) == [(60, 130)]


def test_a_position_that_the_application_chose_is_not_asked_about():
    """seek(offset) has no epoch (``SubscriptionState.seekUnvalidated`` without one skips the validation)."""
    from kemu.protocol.commands import Seek

    harness = reading()
    harness.tell(Seek(topic="t", partition=0, offset=100))
    harness.run(SECOND)
    elect(harness, (0, 60), 130)

    assert not harness.requests(OffsetForLeaderEpoch)
    assert read(harness) == [(100, 130)]


def test_metadata_that_is_older_than_what_was_committed_is_not_believed():
    """Metadata.updateLastSeenEpochIfNewer: the leader is unknown until metadata has that epoch."""
    harness = Harness({"t": 1}, start=False)
    harness.cluster.committed[AT], harness.cluster.committed_epochs[AT] = 100, 1
    harness.cluster.epochs[AT], harness.cluster.ends[AT] = (0,), 130
    harness.tell(Start())
    harness.stable()
    harness.run(2 * SECOND)
    assert not harness.requests(Fetch)
    assert len(harness.requests(Metadata)) > 1

    harness.cluster.epochs[AT] = (0, 100)
    harness.run(2 * SECOND)
    assert read(harness) == [(100, 130)]


@pytest.mark.parametrize("error", [NOT_LEADER, FENCED, UNKNOWN_LEADER_EPOCH, 56])
def test_a_refused_question_is_asked_again_after_metadata_and_a_backoff(error):
    """OffsetsForLeaderEpochClient: partitions to retry."""
    harness = reading()
    harness.answer_next("OffsetForLeaderEpoch", error, error)
    elect(harness, (0, 60), 130)

    assert len(harness.requests(OffsetForLeaderEpoch)) == 3
    assert read(harness) == [(60, 130)]
