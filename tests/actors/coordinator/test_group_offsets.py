"""Offsets at the coordinator: permission to commit, fetch, deletion, expiry."""

import pytest

from kemu.actors.coordinator.offsets import GroupOffsets, Kept
from kemu.actors.coordinator.state import EMPTY, PREPARING, STABLE
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import (
    DeleteGroups,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    TopicPartitions,
)
from kemu.protocol.messages.records import OffsetRecord, StoredOffset, decode_record, group_tombstone
from kemu.protocol.names import offsets_partition_of
from kemu.protocol.notes.groups import OffsetCommitted, OffsetRemoved, RequestRefused
from tests.actors.coordinator.coordinator_harness import GROUP, REBALANCE_MS, SESSION_MS, Ask, Bench, metadata
from tests.actors.coordinator.scenarios import scenario

MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS


def completing(bench: Bench, *clients: str, **how: object) -> dict[str, str]:
    """Client -> member id of a group in CompletingRebalance."""
    joins = {client: bench.join_twice(client, **how) for client in clients}
    bench.until_answered(*joins.values())
    return {client: join.reply.member_id for client, join in joins.items()}


# --- commit --------------------------------------------------------------------------------------------------------


@scenario("S087")
@pytest.mark.parametrize(("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)])
def test_a_commit_with_a_generation_needs_a_group(version: int, error: E) -> None:
    """S087 testCommitOffsetFromUnknownGroup."""
    bench = Bench()

    assert bench.commit_error("c1", member_id="m", generation=3, version=version) is error
    assert GROUP not in bench.coordinator.groups


@scenario("S087")
def test_a_commit_without_a_generation_creates_a_simple_group() -> None:
    """S087 testCommitOffsetFromUnknownGroup."""
    bench = Bench()

    assert bench.commit_error("c1", offset=7) is E.NONE

    assert (bench.group.state, bench.group.shared.protocol_type) == (EMPTY, None)
    assert bench.committed() == 7


def test_a_commit_without_offsets_creates_no_group() -> None:
    """``KafkaApis.handleOffsetCommitRequest`` answers it itself."""
    bench = Bench()

    done = bench.ask("c1", OffsetCommit(group=GROUP, generation=-1, member_id="", offsets=()), 8)

    assert done.reply.outcomes == ()
    assert GROUP not in bench.coordinator.groups


@scenario("S088")
def test_who_may_commit() -> None:
    """S088 testValidateOffsetCommit."""
    bench = Bench()
    formed = bench.stable_group("c1", static=True)
    old = formed.leader
    group = bench.group

    def check(generation: int, member_id: str = "", instance: str | None = None) -> E:
        return group.why_no_commit(generation, member_id, instance)

    assert check(-1) is E.UNKNOWN_MEMBER_ID
    assert check(1, old) is E.NONE
    assert check(1, old, "i-c1") is E.NONE
    assert check(2, old, "i-c1") is E.ILLEGAL_GENERATION
    assert check(-1, old, "i-c1") is E.ILLEGAL_GENERATION
    assert check(1, "ghost") is E.UNKNOWN_MEMBER_ID
    assert check(1, "ghost", "i-c1") is E.FENCED_INSTANCE_ID
    assert check(1, old, "ghost") is E.UNKNOWN_MEMBER_ID
    new = bench.join("c1", instance="i-c1").reply.member_id
    assert check(1, old, "i-c1") is E.FENCED_INSTANCE_ID
    assert check(1, old) is E.UNKNOWN_MEMBER_ID
    assert check(1, new, "i-c1") is E.NONE
    bench.leave("admin", LeavingMember(instance_id="i-c1"))
    assert group.state is EMPTY
    assert check(-1, "anybody", "anything") is E.NONE
    assert check(2, new) is E.UNKNOWN_MEMBER_ID
    group.die("test")
    assert check(-1) is E.COORDINATOR_NOT_AVAILABLE


@scenario("S089")
def test_a_commit_while_the_assignment_is_awaited() -> None:
    """S089 testCommitOffsetInCompletingRebalance."""
    bench = Bench()
    ids = completing(bench, "c1")

    assert bench.commit_error("c1", member_id="ghost", generation=1) is E.UNKNOWN_MEMBER_ID
    assert bench.commit_error("c1", member_id=ids["c1"], generation=9) is E.ILLEGAL_GENERATION
    assert bench.commit_error("c1", member_id=ids["c1"], generation=1) is E.REBALANCE_IN_PROGRESS
    assert bench.committed() == -1


@pytest.mark.parametrize("state", [STABLE, PREPARING])
def test_a_commit_is_a_sign_of_life_in_stable_and_preparing(state: object) -> None:
    """Stable and PreparingRebalance accept and re-arm the session timer."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    if state is PREPARING:
        bench.join("c2", formed.ids["c2"], data=metadata("u"))
    bench.advance(SESSION_MS - 1)

    assert bench.commit_error("c1", member_id=formed.leader, generation=1, offset=5) is E.NONE

    assert bench.group.state is state
    assert bench.left_ms("session", GROUP, formed.leader) == SESSION_MS
    assert bench.committed() == 5


def test_a_commit_without_ids_to_a_group_with_members_is_refused() -> None:
    """It gets UNKNOWN_MEMBER_ID."""
    bench = Bench()
    bench.stable_group("c1")

    assert bench.commit_error("admin") is E.UNKNOWN_MEMBER_ID
    assert bench.commit_error("admin", member_id="x") is E.UNKNOWN_MEMBER_ID


@scenario("S092")
def test_metadata_that_is_too_long_is_refused_for_its_partition_only() -> None:
    """S092 testOffsetMetadataTooLargePartialFailure."""
    bench = Bench()
    offsets = (
        OffsetToCommit(topic="t", partition=0, offset=1, metadata="x" * 4_097),
        OffsetToCommit(topic="t", partition=1, offset=2, metadata="x" * 4_096),
        OffsetToCommit(topic="u", partition=0, offset=3),
    )

    reply = bench.ask("c1", OffsetCommit(group=GROUP, offsets=offsets)).reply

    assert [row.error for row in reply.outcomes] == [E.OFFSET_METADATA_TOO_LARGE, E.NONE, E.NONE]
    assert [(row.topic, row.partition) for row in reply.outcomes] == [("t", 0), ("t", 1), ("u", 0)]
    assert {key: row.offset for key, row in bench.fetch().items()} == {("t", 1): 2, ("u", 0): 3}
    assert [note.error for note in bench.noted(RequestRefused)] == [E.OFFSET_METADATA_TOO_LARGE]


def test_a_commit_of_which_nothing_is_left_writes_nothing() -> None:
    """Each partition has its own outcome; an append without records does not happen."""
    bench = Bench()
    offsets = (OffsetToCommit(topic="t", partition=0, offset=1, metadata="x" * 4_097),)

    reply = bench.ask("c1", OffsetCommit(group=GROUP, offsets=offsets)).reply

    assert [row.error for row in reply.outcomes] == [E.OFFSET_METADATA_TOO_LARGE]
    assert bench.log() == []


def test_a_commit_is_answered_and_visible_when_it_is_in_the_log() -> None:
    """The record comes first."""
    bench = Bench()
    bench.hold_appends = True
    commit = bench.commit("c1", 7)
    assert (commit.reply, bench.committed(), bench.noted(OffsetCommitted)) == (None, -1, [])

    bench.release()

    assert (commit.reply.outcomes[0].error, bench.committed()) == (E.NONE, 7)
    (note,) = bench.noted(OffsetCommitted)
    assert (note.group, note.topic, note.partition, note.offset, note.generation) == (GROUP, "t", 0, 7, -1)


def test_what_is_committed_comes_back_with_its_metadata_and_epoch() -> None:
    """Offset, leader epoch, metadata."""
    bench = Bench()
    row = OffsetToCommit(topic="t", partition=3, offset=9, leader_epoch=4, metadata="note")
    bench.ask("c1", OffsetCommit(group=GROUP, offsets=(row,)))

    (fetched,) = bench.fetch(("t", 3)).values()

    assert (fetched.offset, fetched.leader_epoch, fetched.metadata, fetched.error) == (9, 4, "note", E.NONE)


def test_fetch_answers_for_unknown_groups_and_partitions_and_for_the_empty_name() -> None:
    """Membership is not checked; an unknown partition gets offset -1 and no error; the empty group id is allowed."""
    bench = Bench()
    bench.lead("")
    bench.commit("c1", 3, group="")

    assert bench.committed(group="") == 3
    (row,) = bench.fetch(("t", 1)).values()
    assert (row.offset, row.error, row.metadata) == (-1, E.NONE, "")
    assert bench.fetch() == {}


def test_before_v2_a_fetch_error_is_that_of_every_partition() -> None:
    """OffsetFetch v2 brought the top-level error."""
    bench = Bench(lead=False)
    request = OffsetFetch(group=GROUP, topics=(TopicPartitions(topic="t", partitions=(0, 1)),))

    old, new = bench.ask("c1", request, 1).reply, bench.ask("c1", request, 2).reply

    assert [row.error for row in old.offsets] == [E.NOT_COORDINATOR] * 2
    assert (new.error, new.offsets) == (E.NOT_COORDINATOR, ())


def test_of_two_records_of_a_partition_the_later_in_the_log_counts() -> None:
    """Last value per key wins, in whatever order their appends are reported."""
    offsets = GroupOffsets()
    first, second = (Kept(StoredOffset(offset, -1, "", 0), offset) for offset in (1, 2))

    assert (offsets.commit(("t", 0), second), offsets.commit(("t", 0), first)) == (True, False)
    assert offsets.committed == {("t", 0): second}
    assert (offsets.remove(("t", 0), 1), offsets.remove(("t", 0), 3), offsets.remove(("t", 0), 4)) == (
        False,
        True,
        False,
    )
    assert offsets.is_empty()


# --- OffsetDelete --------------------------------------------------------------------------------------------------


def offset_delete(bench: Bench, *topics: str) -> Ask:
    """Delete partition 0 of these topics."""
    return bench.ask(
        "admin", OffsetDelete(group=GROUP, topics=tuple(TopicPartitions(topic=t, partitions=(0,)) for t in topics))
    )


def test_offsets_of_topics_that_are_consumed_cannot_be_deleted() -> None:
    """Non-empty consumer -> 86 for subscribed topics (KIP-496)."""
    bench = Bench()
    formed = bench.stable_group("c1", data=metadata("t"))
    for topic in ("t", "u"):
        bench.commit("c1", 5, member_id=formed.leader, generation=1, topic=topic)

    delete = offset_delete(bench, "t", "u", "never")

    assert [row.error for row in delete.reply.outcomes] == [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE, E.NONE]
    assert (bench.committed("t"), bench.committed("u")) == (5, -1)
    (removed,) = bench.noted(OffsetRemoved)
    assert (removed.topic, removed.why) == ("u", "deleted")


def test_offsets_of_a_group_with_unreadable_subscriptions_cannot_be_deleted() -> None:
    """Unknown subscription = treat as subscribed; it does not keep the group from working."""
    bench = Bench()
    formed = bench.stable_group("c1", data=b"\x00")
    bench.commit("c1", 5, member_id=formed.leader, generation=1)

    assert [row.error for row in offset_delete(bench, "t").reply.outcomes] == [E.GROUP_SUBSCRIBED_TO_TOPIC]


def test_deleting_offsets_of_missing_other_and_empty_groups() -> None:
    """Dead/missing -> 69; Empty -> allowed; non-empty and not type "consumer" -> 68."""
    bench = Bench()
    assert offset_delete(bench, "t").error is E.GROUP_ID_NOT_FOUND
    bench.commit("c1", 5)
    assert [row.error for row in offset_delete(bench, "t").reply.outcomes] == [E.NONE]
    assert bench.committed() == -1

    bench.join_twice("c1", protocol_type="connect")
    assert offset_delete(bench, "t").error is E.NON_EMPTY_GROUP
    bench.group.die("test")
    assert offset_delete(bench, "t").error is E.GROUP_ID_NOT_FOUND


def test_an_offset_delete_that_cannot_be_written_deletes_nothing() -> None:
    """The record comes first."""
    bench = Bench()
    bench.commit("c1", 5)
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]

    assert offset_delete(bench, "t").error is E.COORDINATOR_NOT_AVAILABLE
    assert bench.committed() == 5


# --- DeleteGroups --------------------------------------------------------------------------------------------------


def delete_groups(bench: Bench, *groups: str) -> list[E]:
    """The outcomes of a DeleteGroups."""
    return [E(row.error) for row in bench.ask("admin", DeleteGroups(groups=groups)).reply.outcomes]


@scenario("S094")
def test_only_empty_groups_can_be_deleted() -> None:
    """S094 testDeleteNonEmptyGroup."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.commit("c1", 5, member_id=formed.leader, generation=1)
    assert delete_groups(bench, GROUP) == [E.NON_EMPTY_GROUP]
    bench.leave("c1", LeavingMember(member_id=formed.leader))

    assert delete_groups(bench, GROUP) == [E.NONE]

    assert GROUP not in bench.coordinator.groups
    offset, group = bench.log()[-2:]
    found = decode_record(*offset)
    assert isinstance(found, OffsetRecord) and found.value is None
    assert group == group_tombstone(GROUP)
    assert delete_groups(bench, GROUP) == [E.GROUP_ID_NOT_FOUND]
    assert [note.why for note in bench.noted(OffsetRemoved)] == ["the group was deleted"]


def test_while_its_tombstones_are_written_a_group_is_dead() -> None:
    """Dead -> 15 for members and commits, 69 for another deletion. GroupCoordinator.scala up to 3.9."""
    bench = Bench(coordinator_kind="scala")
    bench.commit("c1", 5)
    bench.hold_appends = True
    first = bench.ask("admin", DeleteGroups(groups=(GROUP,)))
    assert first.reply is None

    assert bench.join("c1").error is E.COORDINATOR_NOT_AVAILABLE
    assert bench.commit_error("c1") is E.COORDINATOR_NOT_AVAILABLE
    assert delete_groups(bench, GROUP) == [E.GROUP_ID_NOT_FOUND]
    bench.release()

    assert first.reply.outcomes[0].error is E.NONE
    assert bench.join("c1").error is E.MEMBER_ID_REQUIRED


def test_since_4_0_a_member_begins_the_next_group_beside_the_tombstones_of_its_group() -> None:
    """``GroupMetadataManager.removeGroup``: the group ends with the replay of its tombstones, before their write."""
    bench = Bench(coordinator_kind="java")
    bench.commit("c1", 5)
    bench.hold_appends = True
    first = bench.ask("admin", DeleteGroups(groups=(GROUP,)))

    assert bench.heartbeat("c1", "m", 1) is E.UNKNOWN_MEMBER_ID
    required = bench.join("c1")
    assert required.error is E.MEMBER_ID_REQUIRED
    join = bench.join("c1", required.reply.member_id)
    assert delete_groups(bench, GROUP) == [E.NON_EMPTY_GROUP]
    assert bench.committed() == 5, "the tombstone is not in the log"

    bench.release()
    bench.until_answered(join)
    assert (first.reply.outcomes[0].error, join.error, bench.committed()) == (E.NONE, E.NONE, -1)
    bench.crash_and_restart()
    assert (bench.group.state, bench.committed()) == (EMPTY, -1)


def test_the_next_group_gets_the_offsets_of_a_group_whose_deletion_could_not_be_written() -> None:
    """The tombstones are not in the log, so the offsets are valid."""
    bench = Bench(coordinator_kind="java")
    bench.commit("c1", 5)
    bench.hold_appends = True
    first = bench.ask("admin", DeleteGroups(groups=(GROUP,)))
    required = bench.join("c1")

    bench.release(E.NOT_ENOUGH_REPLICAS)

    assert first.reply.outcomes[0].error is E.COORDINATOR_NOT_AVAILABLE
    assert required.reply.member_id in bench.group.members.pending
    assert bench.committed() == 5


def test_a_deletion_that_cannot_be_written_leaves_the_group_as_it_was() -> None:
    """The record comes first."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.commit("c1", 5, member_id=formed.leader, generation=1)
    bench.leave("c1", LeavingMember(member_id=formed.leader))
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]

    assert delete_groups(bench, GROUP) == [E.COORDINATOR_NOT_AVAILABLE]

    assert (bench.group.state, bench.group.shared.generation, bench.committed()) == (EMPTY, 2, 5)
    assert bench.group.shared.protocol_type == "consumer"


def test_a_commit_under_way_goes_with_the_deleted_group() -> None:
    """Its record is before the tombstone in the log; a failover must not bring it back."""
    bench = Bench()
    bench.commit("c1", 1)
    bench.hold_appends = True
    bench.commit("c1", 2, partition=1)
    bench.ask("admin", DeleteGroups(groups=(GROUP,)))
    bench.release()
    bench.hold_appends = False

    bench.crash_and_restart()

    assert bench.fetch() == {}
    assert GROUP not in bench.coordinator.groups


def test_groups_of_several_partitions_are_deleted_in_one_request() -> None:
    """One append for each partition of the offsets topic, one answer, in the order of the request."""
    bench = Bench()
    bench.lead("grp")
    bench.commit("c1", 1)
    bench.commit("c1", 1, group="grp")
    assert offsets_partition_of("grp") != offsets_partition_of(GROUP)
    bench.append_errors = [E.NONE, E.NOT_ENOUGH_REPLICAS]

    outcomes = delete_groups(bench, GROUP, "elsewhere", "grp", "")

    assert outcomes == [E.NONE, E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR]
    assert (bench.committed(), bench.committed(group="grp")) == (-1, 1)


# --- expiry --------------------------------------------------------------------------------------------------------


def expiring(**config: object) -> Bench:
    """A coordinator that keeps offsets for ten minutes and looks every minute."""
    return Bench(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS, **config)


def keep_alive(bench: Bench, ids: dict[str, str], generation: int, for_ms: int) -> None:
    """Let time pass while these members heartbeat."""
    for _ in range(for_ms // 5_000):
        bench.advance(5_000)
        for client, member_id in ids.items():
            bench.heartbeat(client, member_id, generation)


@scenario("S104")
def test_a_simple_groups_offsets_expire_by_their_commit_time() -> None:
    """S104 testOffsetExpirationCondition: simple group = commit time."""
    bench = expiring()
    bench.commit("c1", 1)
    bench.advance(5 * MINUTE_MS)
    bench.commit("c1", 2, partition=1)

    bench.advance(RETENTION_MS - 5 * MINUTE_MS - 1)
    assert len(bench.fetch()) == 2
    bench.advance(1)
    assert bench.fetch().keys() == {("t", 1)}
    bench.advance(5 * MINUTE_MS)

    assert GROUP not in bench.coordinator.groups
    assert [note.why for note in bench.noted(OffsetRemoved)] == ["expired", "expired"]
    assert bench.log()[-1] == group_tombstone(GROUP)


@scenario("S104")
def test_an_empty_groups_offsets_expire_together_from_the_moment_it_became_empty() -> None:
    """S104 testOffsetExpirationCondition: Empty = state change time."""
    bench = expiring()
    formed = bench.stable_group("c1")
    bench.commit("c1", 5, member_id=formed.leader, generation=1)
    keep_alive(bench, formed.ids, 1, 2 * RETENTION_MS)
    assert bench.committed() == 5
    bench.leave("c1", LeavingMember(member_id=formed.leader))

    bench.advance(RETENTION_MS - MINUTE_MS)
    assert bench.committed() == 5
    bench.advance(2 * MINUTE_MS)

    assert bench.committed() == -1


@scenario("S104")
def test_a_stable_consumers_offsets_expire_only_for_topics_it_left() -> None:
    """S104 testOffsetExpirationCondition: Stable consumer = commit time of unsubscribed topics."""
    bench = expiring()
    formed = bench.stable_group("c1", data=metadata("t"))
    for topic in ("t", "gone"):
        bench.commit("c1", 5, member_id=formed.leader, generation=1, topic=topic)

    keep_alive(bench, formed.ids, 1, RETENTION_MS + MINUTE_MS)

    assert (bench.committed("t"), bench.committed("gone")) == (5, -1)
    assert bench.group.state is STABLE


@scenario("S104")
@pytest.mark.parametrize("how", [{"protocol_type": "connect"}, {"data": b"\x00"}])
def test_nothing_expires_in_a_group_whose_topics_are_unknown(how: dict) -> None:
    """S104 testOffsetExpirationCondition: otherwise never."""
    bench = expiring()
    join = bench.join_twice("c1", **how)
    bench.until_answered(join)
    member_id = join.reply.member_id
    bench.sync("c1", member_id, 1, {}, protocol_type=how.get("protocol_type", "consumer"))
    bench.commit("c1", 5, member_id=member_id, generation=1, topic="gone")

    keep_alive(bench, {"c1": member_id}, 1, 2 * RETENTION_MS)

    assert bench.committed("gone") == 5


def test_nothing_expires_while_a_group_rebalances() -> None:
    """Anything else (rebalancing, ...): nothing expires."""
    bench = expiring()
    formed = bench.stable_group("c1", "c2", static=True, session_ms=1_800_000, rebalance_ms=1_800_000)
    bench.commit("c1", 5, member_id=formed.leader, generation=1, topic="gone", instance="i-c1")
    bench.join("c2", formed.ids["c2"], instance="i-c2", data=metadata("u"))

    bench.advance(RETENTION_MS + MINUTE_MS)

    assert (bench.group.state, bench.committed("gone")) == (PREPARING, 5)


@pytest.mark.parametrize("version", [2, 4])
def test_an_explicit_retention_of_the_oldest_clients_counts(version: int) -> None:
    """Legacy explicit expire timestamp if present: expired when now >= it."""
    bench = expiring()
    bench.commit("c1", 1, version=version, retention_ms=2 * MINUTE_MS)
    bench.commit("c1", 2, partition=1, version=version)

    bench.advance(2 * MINUTE_MS - 1)
    assert bench.committed() == 1
    bench.advance(1)

    assert (bench.committed(), bench.committed(partition=1)) == (-1, 2)


@pytest.mark.parametrize("retention_ms", [(1 << 63) - 1, -(1 << 63), -2])
def test_a_retention_beyond_the_last_time_or_below_zero_has_passed_at_once(retention_ms: int) -> None:
    """``KafkaApis.handleOffsetCommitRequest`` (3.4) adds two longs; a sum above 2**63 - 1 is negative."""
    bench = expiring()
    bench.advance(MINUTE_MS)
    bench.commit("c1", 1, version=4, retention_ms=retention_ms)
    assert bench.committed() == 1

    bench.advance(MINUTE_MS)

    assert bench.committed() == -1


def test_an_empty_group_without_offsets_is_forgotten_by_the_next_sweep() -> None:
    """When a group is Empty with no offsets left -> Dead + group tombstone, and forgotten."""
    bench = expiring()
    bench.join("c1")

    bench.advance(MINUTE_MS)

    assert GROUP not in bench.coordinator.groups
    assert bench.log()[-1] == group_tombstone(GROUP)


def test_a_sweep_that_cannot_be_written_removes_nothing() -> None:
    """The record comes first; the next sweep tries again."""
    bench = expiring()
    bench.commit("c1", 1)
    bench.advance(RETENTION_MS - 1)
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]
    bench.advance(1)
    assert (bench.group.state, bench.committed()) == (EMPTY, 1)

    bench.advance(MINUTE_MS)

    assert GROUP not in bench.coordinator.groups


def test_a_member_that_waits_longer_than_the_retention_is_not_swept_away() -> None:
    """Only Empty groups are forgotten."""
    bench = expiring()
    bench.stable_group("c1", static=True, session_ms=1_800_000, rebalance_ms=REBALANCE_MS)

    bench.advance(2 * RETENTION_MS)

    assert bench.group.state is STABLE
