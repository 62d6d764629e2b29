"""Commits: their time, their content, and the reaction to each answer (OffsetCommit)."""

import pytest

from kemu.actors.consumer.commits import Commit
from kemu.actors.consumer.state import Result
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import FindCoordinator, JoinGroup, OffsetCommit
from kemu.protocol.notes.groups import CommitAnswered, MemberFailed, PartitionsLost, PartitionsRevoked, Processed
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness

SECOND = 1_000_000


def stable(**config: object) -> Harness:
    """A stable group of one with positions, its history forgotten."""
    harness = Harness(**config).stable()  # type: ignore[arg-type]
    harness.run(100_000)
    harness.forget()
    return harness


def committing(**config: object) -> tuple[Harness, Commit]:
    """Its interval commit is on its way and held; so is every later JoinGroup."""
    harness = stable(**config)
    harness.hold("OffsetCommit", "JoinGroup")
    harness.run_until(lambda: bool(harness.held["OffsetCommit"]))
    harness.unhold("OffsetCommit")
    commit = next(
        flight.context for flight in harness.consumer.client.in_flight.values() if isinstance(flight.context, Commit)
    )
    return harness, commit


def answer(harness: Harness, error: int) -> None:
    """Answer the held commit."""
    harness.release("OffsetCommit", error)
    harness.run(2_000)


def two_rebalances_later(*, preparing: bool) -> tuple[Harness, Commit]:
    """The commit was sent in generation 1; the member is in generation 2, or joins for 3."""
    harness, commit = committing()
    harness.unhold("JoinGroup")
    harness.rejoin_now()
    harness.stable()
    if preparing:
        harness.hold("JoinGroup")
        harness.rejoin_now()
        harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.forget()
    return harness, commit


# --- when and what -----------------------------------------------------------------------------------------------


def test_positions_are_committed_every_interval_with_the_membership() -> None:
    """maybeAutoCommitOffsetsAsync: all consumed positions, whether or not they moved."""
    harness = stable(auto_commit_interval_ms=2_000)
    harness.append(("t", 1), 5)
    harness.run(9 * SECOND)

    commits = harness.requests(OffsetCommit)
    assert len(commits) == 4
    assert (commits[0].generation, commits[0].member_id) == (1, "c1-1")
    assert {(row.partition, row.offset) for row in commits[0].offsets} == {(0, 0), (1, 5), (2, 0), (3, 0)}
    assert {note.error for note in harness.facts(CommitAnswered)} == {ErrorCode.NONE}


def test_a_commit_never_runs_ahead_of_what_was_processed() -> None:
    """The application polls again only when it is done; an interval that ends meanwhile waits for that poll."""
    harness = stable(auto_commit_interval_ms=1_000, emulated_process_us_per_record=10_000, max_poll_records=300)
    harness.append(("t", 0), 1_000)
    done = 0
    for _ in range(200):
        harness.run(100_000)
        done = max([0, *(note.last for note in harness.facts(Processed))])
        committed = [row.offset for one in harness.requests(OffsetCommit) for row in one.offsets if row.partition == 0]
        assert max([0, *committed]) <= done
    assert done == 1_000 and committed[-1] == 1_000


def test_commit_sync_after_every_batch() -> None:
    """The application's own commitSync(): positions after the batch, before the next poll."""
    harness = stable(enable_auto_commit=False, emulated_commit_after_poll=True, max_poll_records=10)
    harness.append(("t", 0), 25)
    harness.run(SECOND)
    offsets = [row.offset for one in harness.requests(OffsetCommit) for row in one.offsets if row.partition == 0]
    assert offsets == [10, 20, 25]


def test_commit_sync_retries_until_its_timeout_and_heartbeats_go_on() -> None:
    """ConsumerCoordinator.commitOffsetsSync: retriable errors until default.api.timeout.ms, then TimeoutException."""
    harness = stable(enable_auto_commit=False, emulated_commit_after_poll=True, default_api_timeout_ms=5_000)
    harness.answer_next("OffsetCommit", *[14] * 1_000)
    harness.append(("t", 0), 5)
    harness.run_until(lambda: bool(harness.requests(OffsetCommit)))
    began_us = harness.now_us
    harness.run_until(lambda: harness.consumer.polling)
    assert harness.now_us - began_us == 5 * SECOND
    assert 8 <= len(harness.requests(OffsetCommit)) <= 15, "100 ms doubling up to 1 s"
    assert harness.state == "STABLE"


def test_commit_sync_that_gets_no_answer_ends_at_its_timeout() -> None:
    """commitOffsetsSync: client.poll(future, timer); the late answer is for nobody."""
    harness = stable(enable_auto_commit=False, emulated_commit_after_poll=True, default_api_timeout_ms=5_000)
    harness.hold("OffsetCommit")
    harness.append(("t", 0), 5)
    harness.run_until(lambda: bool(harness.requests(OffsetCommit)))
    began_us = harness.now_us
    harness.run_until(lambda: harness.consumer.polling)
    assert harness.now_us - began_us == 5 * SECOND
    harness.release("OffsetCommit", 14)
    harness.run(SECOND)
    assert len(harness.requests(OffsetCommit)) == 1


def test_a_commit_while_rebalancing_is_not_sent() -> None:
    """sendOffsetCommitRequest: state is not STABLE: RebalanceInProgressException without a request."""
    harness = stable(
        enable_auto_commit=False,
        emulated_commit_after_poll=True,
        partition_assignment_strategy=("cooperative-sticky",),
    )
    harness.hold("JoinGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.append(("t", 0), 5)
    harness.run(SECOND)
    assert harness.facts(Processed) and not harness.requests(OffsetCommit)


def test_a_commit_of_a_member_that_is_none_is_not_sent() -> None:
    """sendOffsetCommitRequest: UNJOINED: CommitFailedException without a request."""
    harness = stable(
        enable_auto_commit=False, emulated_commit_after_poll=True, emulated_process_us_per_record=1_000_000
    )
    harness.append(("t", 0), 10)
    harness.answer_next("Heartbeat", 25)
    harness.run_until(lambda: bool(harness.facts(Processed)))
    harness.run_until(lambda: bool(harness.facts(PartitionsLost)))
    assert not harness.requests(OffsetCommit)


# --- the reaction table ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [3, 7, 14, 15, 16])
def test_commit_errors_that_are_retried(error: int) -> None:
    """OffsetCommitResponseHandler: 14, 3 retriable; 15, 16, 7 lose the coordinator too; the interval retries soon.

    A lost coordinator is looked up twice: its connection was closed and is backed off.
    """
    harness, commit = committing()
    harness.unhold("JoinGroup")
    answer(harness, error)
    assert commit.result is Result.RETRIABLE
    assert (harness.hangups == [COORDINATOR]) == (error in (7, 15, 16))
    harness.run(SECOND)

    assert len(harness.requests(OffsetCommit)) == 2
    assert len(harness.requests(FindCoordinator)) == (2 if error in (7, 15, 16) else 0)
    assert (harness.state, harness.generation()) == ("STABLE", (1, "c1-1"))


def test_rebalance_in_progress_on_commit_makes_the_member_rejoin() -> None:
    """OffsetCommitResponseHandler, 27: request rejoin, nothing reset."""
    harness, commit = committing()
    answer(harness, 27)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert commit.result is Result.REBALANCING
    assert harness.requests(JoinGroup)[0].member_id == "c1-1"
    assert harness.facts(PartitionsRevoked)


@pytest.mark.parametrize(("error", "member_id"), [(22, "c1-1"), (25, "")])
def test_a_commit_refused_for_the_membership_resets_it(error: int, member_id: str) -> None:
    """OffsetCommitResponseHandler: 22 keeps the id, 25 drops it; CommitFailedException; lost at the next poll."""
    harness, commit = committing()
    answer(harness, error)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))

    assert commit.result is Result.FAILED
    assert harness.requests(JoinGroup)[0].member_id == member_id
    assert harness.facts(PartitionsLost)


@pytest.mark.parametrize(("error", "member_id"), [(22, "c1-1"), (25, "")])
def test_a_commit_of_an_older_generation_resets_a_stable_member_too(error: int, member_id: str) -> None:
    """OffsetCommitResponseHandler: changed, but not PREPARING: reset all the same."""
    harness, commit = two_rebalances_later(preparing=False)
    answer(harness, error)
    harness.run_until(lambda: bool(harness.requests(JoinGroup)))
    assert commit.result is Result.FAILED
    assert harness.requests(JoinGroup)[0].member_id == member_id


@pytest.mark.parametrize("error", [22, 25])
def test_a_commit_of_an_older_generation_resets_nothing_while_joining(error: int) -> None:
    """OffsetCommitResponseHandler: changed and PREPARING_REBALANCE: RebalanceInProgressException, nothing reset."""
    harness, commit = joining_with_a_new_generation()
    answer(harness, error)
    assert commit.result is Result.REBALANCING
    assert (harness.state, harness.generation()) == ("PREPARING_REBALANCE", (2, "c1-1"))


@pytest.mark.parametrize("error", [22, 25])
def test_a_commit_of_this_generation_resets_even_while_joining(error: int) -> None:
    """OffsetCommitResponseHandler: unchanged in PREPARING_REBALANCE: reset; the join's answer will be dropped."""
    harness, commit = committing()
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    answer(harness, error)
    assert commit.result is Result.FAILED
    assert (harness.state, harness.generation()[0]) == ("UNJOINED", -1)
    harness.release("JoinGroup")
    harness.stable()


def joining_with_a_new_generation() -> tuple[Harness, Commit]:
    """The commit was sent in generation 1, the member is in 2 and has JoinGroup for 3 under way."""
    return two_rebalances_later(preparing=True)


def test_a_fenced_commit_is_fatal_when_unchanged() -> None:
    """OffsetCommitResponseHandler, 82 unchanged: raised by the next poll; the generation is not touched."""
    harness, commit = committing(group_instance_id="i1")
    answer(harness, 82)
    assert commit.result is Result.FAILED
    harness.run_until(lambda: harness.state == "FAILED")
    assert harness.facts(MemberFailed)[0].error == ErrorCode.FENCED_INSTANCE_ID


def test_who_was_fenced_commits_no_more_when_it_closes() -> None:
    """ConsumerCoordinator.commitOffsetsSync (3.4.1): asyncCommitFenced is looked at first, so nothing is sent."""
    harness, _ = committing(group_instance_id="i1")
    harness.forget()
    answer(harness, 82)
    harness.run_until(lambda: harness.state == "FAILED")
    assert not harness.requests(OffsetCommit)


@pytest.mark.parametrize(("preparing", "result"), [(True, Result.REBALANCING), (False, Result.FAILED)])
def test_a_fenced_commit_of_an_older_generation_is_not_fatal(preparing: bool, result: Result) -> None:
    """OffsetCommitResponseHandler, 82 changed: RebalanceInProgress while joining, else CommitFailed; nothing reset."""
    harness, commit = two_rebalances_later(preparing=preparing)
    answer(harness, 82)
    assert commit.result is result
    assert harness.generation() == (2, "c1-1")
    assert harness.state == ("PREPARING_REBALANCE" if preparing else "STABLE")


@pytest.mark.parametrize("error", [29, 30])
def test_a_commit_without_authorization_is_raised_to_the_application_that_commits(error: int) -> None:
    """ConsumerCoordinator.commitOffsetsSync (3.4.1) throws what OffsetCommitResponseHandler raised."""
    harness = stable(enable_auto_commit=False, emulated_commit_after_poll=True)
    harness.answer_next("OffsetCommit", error)
    harness.append(("t", 0), 5)
    harness.run(SECOND)
    assert harness.state == "FAILED"


@pytest.mark.parametrize("error", [29, 30])
def test_a_commit_by_interval_without_authorization_is_logged_and_made_again(error: int) -> None:
    """ConsumerCoordinator.autoCommitOffsetsAsync (3.4.1): the callback warns; only a fenced one is raised later."""
    harness, commit = committing()
    answer(harness, error)
    harness.unhold("JoinGroup")
    harness.run(6 * SECOND)
    assert (commit.result, harness.state) == (Result.FAILED, "STABLE")
    assert len(harness.requests(OffsetCommit)) == 2


@pytest.mark.parametrize("error", [29, 30])
def test_a_commit_before_a_join_or_a_close_without_authorization_holds_neither_up(error: int) -> None:
    """ConsumerCoordinator.onJoinPrepare, close -> maybeAutoCommitOffsetsSync (3.4.1): logged, and on it goes."""
    harness = stable()
    harness.answer_next("OffsetCommit", error, error)
    harness.rejoin_now()
    harness.run_until(lambda: harness.generation()[0] == 2)
    harness.stable().close()
    assert harness.state == "CLOSED"


@pytest.mark.parametrize("error", [12, 28, -1])
def test_a_commit_that_is_refused_for_itself_changes_nothing_else(error: int) -> None:
    """OffsetCommitResponseHandler: raised to the caller of the commit; the interval commit logs it and continues."""
    harness, commit = committing()
    answer(harness, error)
    assert commit.result is Result.FAILED
    harness.unhold("JoinGroup")
    harness.run(6 * SECOND)
    assert (harness.state, harness.generation()) == ("STABLE", (1, "c1-1"))
    assert len(harness.requests(OffsetCommit)) == 2


def test_a_commit_whose_connection_breaks_is_retried() -> None:
    """Disconnect: retriable; nothing is reported as answered."""
    harness, commit = committing()
    harness.disconnect()
    assert commit.result is Result.RETRIABLE
    assert not harness.facts(CommitAnswered)
    harness.unhold("JoinGroup")
    harness.run(2 * SECOND)
    assert len(harness.requests(OffsetCommit)) == 2
