"""Failover of a coordinator: records, load, unload, and the members' view afterwards."""

import pytest

from kemu.actors.coordinator.replay import replay
from kemu.actors.coordinator.rules import JAVA, SCALA
from kemu.actors.coordinator.state import COMPLETING, EMPTY, PREPARING, STABLE
from kemu.protocol.commands import AnswerNext, Close, LeadOffsets, ResignOffsets
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import (
    DeleteGroups,
    DescribeGroups,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
    TopicPartitions,
)
from kemu.protocol.messages.records import (
    GroupMetadata,
    StoredMember,
    StoredOffset,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from kemu.protocol.names import offsets_partition_of
from kemu.protocol.notes.groups import AnswerInjected, GroupLoaded, GroupUnloaded, OffsetsLoadFailed, RequestRefused
from tests.actors.coordinator.coordinator_harness import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Bench,
    Told,
    metadata,
)
from tests.actors.coordinator.scenarios import scenario


def stored(member_id: str, **how: object) -> StoredMember:
    """A member as a record has it."""
    values: dict = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/c",
        "rebalance_timeout_ms": 30_000,
        "session_timeout_ms": 8_000,
        "subscription": metadata("t"),
        "assignment": f"for-{member_id}".encode(),
    }
    return StoredMember(member_id=member_id, **{**values, **how})


def group_of(*members: StoredMember, **how: object) -> GroupMetadata:
    """A group as a record has it."""
    values: dict = {
        "group": GROUP,
        "protocol_type": "consumer",
        "generation": 7,
        "protocol": "range" if members else None,
        "leader": members[0].member_id if members else None,
        "state_timestamp_ms": 1,
    }
    return GroupMetadata(members=members, **{**values, **how})


def loaded(*records: object, **config: object) -> Bench:
    """A coordinator that starts from these records."""
    bench = Bench(lead=False, **config)
    bench.lead(GROUP, records=tuple(records))
    return bench


# --- load ----------------------------------------------------------------------------------------------------------


@scenario("S095")
@pytest.mark.parametrize(("written", "read"), [(30_000, 30_000), (-1, 8_000)])
def test_a_group_record_becomes_a_stable_group(written: int, read: int) -> None:
    """S095 testReplayGroupMetadataRecords."""
    bench = loaded(group_record(group_of(stored("a", rebalance_timeout_ms=written), stored("b", instance_id="i"))))

    group = bench.group
    assert (group.state, group.shared.generation, group.members.leader) == (STABLE, 7, "a")
    assert (group.shared.protocol_type, group.shared.protocol) == ("consumer", "range")
    assert [(m.member_id, m.instance_id, m.assignment) for m in group.members] == [
        ("a", None, b"for-a"),
        ("b", "i", b"for-b"),
    ]
    assert group.members.by_id["a"].rebalance_timeout_ms == read
    (note,) = bench.noted(GroupLoaded)
    assert (note.state, note.generation, note.members) == ("Stable", 7, ("a", "b"))


@scenario("S096")
def test_after_a_load_every_member_has_a_fresh_session() -> None:
    """S096 testOnLoadedSchedulesClassicGroupMemberHeartbeats."""
    bench = loaded(group_record(group_of(stored("a"), stored("b", session_timeout_ms=9_000))))

    assert (bench.left_ms("session", GROUP, "a"), bench.left_ms("session", GROUP, "b")) == (8_000, 9_000)
    bench.advance(8_000)
    assert bench.group.state is PREPARING


@scenario("S100")
def test_tombstones_remove_an_offset_and_a_group() -> None:
    """S100 testLoadOffsetsWithTombstones (and testLoadGroupWithTombstone)."""
    bench = loaded(
        group_record(group_of(stored("a"))),
        offset_record(GROUP, "t", 0, StoredOffset(1, -1, "", 0)),
        offset_record(GROUP, "t", 1, StoredOffset(2, -1, "", 0)),
        offset_tombstone(GROUP, "t", 0),
    )
    assert bench.fetch().keys() == {("t", 1)}
    assert bench.group.state is STABLE

    gone = loaded(group_record(group_of()), group_tombstone(GROUP))
    assert GROUP not in gone.coordinator.groups


def test_the_last_record_of_a_key_wins_and_unknown_kinds_are_skipped() -> None:
    """Load = replay in log order."""
    bench = loaded(
        group_record(group_of(stored("a"), generation=3)),
        (b"\x00\x63new kind", b"x"),
        group_record(group_of(stored("b"), generation=4)),
    )

    assert (bench.group.shared.generation, list(bench.group.members.by_id)) == (4, ["b"])


def test_offsets_without_metadata_make_a_simple_group() -> None:
    """An offset record whose group has no metadata creates a simple Empty group."""
    bench = loaded(offset_record(GROUP, "t", 0, StoredOffset(5, -1, "", 0)))

    assert (bench.group.state, bench.group.shared.protocol_type, bench.group.shared.generation) == (EMPTY, None, 0)
    assert bench.committed() == 5


def test_an_unparseable_subscription_does_not_prevent_loading() -> None:
    """The subscribed topics are unknown then; the group works."""
    bench = loaded(group_record(group_of(stored("a", subscription=b"\x00"))))

    assert bench.heartbeat("c", "a", 7) is E.NONE
    assert bench.group.shared.subscribed_topics() is None


def test_a_log_that_cannot_be_read_leaves_the_partition_without_a_coordinator() -> None:
    """CoordinatorRuntime: a failed load answers NOT_COORDINATOR, as if another broker led."""
    bench = loaded((group_tombstone(GROUP)[0], b"\x00"))

    (note,) = bench.noted(OffsetsLoadFailed)
    assert note.partition == offsets_partition_of(GROUP)
    assert bench.join("c1").error is E.NOT_COORDINATOR


def test_a_load_equals_what_was_there() -> None:
    """The rebuild from the log is the group that was Stable."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)
    bench.commit("c1", 5, member_id=formed.leader, generation=1, instance="i-c1")
    before = bench.group.shared.metadata()

    bench.crash_and_restart()

    assert bench.group.shared.metadata() == before
    assert bench.committed() == 5
    assert replay(bench.log()).metadata[GROUP] == before


def test_ids_and_parked_requests_are_not_in_the_log() -> None:
    """Pending ids, parked responses and the join phase are not persisted."""
    bench = Bench()
    formed = bench.stable_group("c1")
    pending = bench.join("c2").reply.member_id
    parked = bench.join("c1", formed.leader)

    bench.crash_and_restart()

    assert (bench.group.state, bench.group.shared.generation) == (STABLE, 1)
    assert parked.reply is None
    assert bench.join("c2", pending).error is E.UNKNOWN_MEMBER_ID


def test_a_group_that_never_synced_comes_back_empty() -> None:
    """A bumped generation that never reached the leader's sync is lost."""
    bench = Bench()
    join = bench.join_twice("c1")
    bench.advance(DELAY_MS)
    assert (bench.group.state, bench.group.shared.generation) == (COMPLETING, 1)

    bench.crash_and_restart()

    assert (bench.group.state, bench.group.shared.generation) == (EMPTY, 0)
    assert bench.sync("c1", join.reply.member_id, 1).error is E.UNKNOWN_MEMBER_ID


def test_a_generation_number_is_used_again_after_a_failover_in_a_rebalance() -> None:
    """So equal generations do not prove a consistent view."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    newcomer = bench.join_twice("c3")
    joins = {client: bench.join(client, formed.ids[client]) for client in ("c1", "c2")}
    assert {join.reply.generation for join in (newcomer, *joins.values())} == {2}
    unpersisted = newcomer.reply.member_id

    bench.crash_and_restart()

    # Back at the last persisted generation, Stable, with the old members.
    assert (bench.group.state, bench.group.shared.generation) == (STABLE, 1)
    assert list(bench.group.members.by_id) == list(formed.ids.values())
    assert bench.heartbeat("c1", formed.ids["c1"], 2) is E.ILLEGAL_GENERATION
    assert bench.sync("c2", formed.ids["c2"], 2).error is E.ILLEGAL_GENERATION
    assert bench.heartbeat("c3", unpersisted, 2) is E.UNKNOWN_MEMBER_ID
    assert bench.join("c3", unpersisted).error is E.UNKNOWN_MEMBER_ID
    # The next completed join phase is generation 2 again, with other members.
    joins = {client: bench.join(client, formed.ids[client], data=metadata("u")) for client in ("c1", "c2")}
    assert {join.reply.generation for join in joins.values()} == {2}


def test_after_a_failover_only_the_selected_protocol_is_known() -> None:
    """An unchanged follower with two protocols rebalances; a newcomer without the stored one gets 23."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", names=("range", "roundrobin"))
    bench.crash_and_restart()
    assert bench.join("c3", names=("roundrobin",)).error is E.INCONSISTENT_GROUP_PROTOCOL

    again = bench.join("c2", formed.ids["c2"], names=("range", "roundrobin"))

    assert (again.reply, bench.group.state) == (None, PREPARING)


# --- unload --------------------------------------------------------------------------------------------------------


@scenario("S098")
def test_an_unload_sends_parked_syncs_to_the_new_coordinator() -> None:
    """S098 testClassicGroupOnUnloadedCompletingRebalance."""
    bench = Bench()
    joins = {client: bench.join_twice(client) for client in ("c1", "c2")}
    bench.until_answered(*joins.values())
    bench.hold_appends = True
    ids = {client: join.reply.member_id for client, join in joins.items()}
    follower = bench.sync("c2", ids["c2"], 1)
    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one"})

    bench.resign()

    assert (follower.error, leader.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
    assert bench.timers.keys() == {("expire",)}
    assert GROUP not in bench.coordinator.groups
    assert [note.group for note in bench.noted(GroupUnloaded)] == [GROUP]
    bench.release()
    assert bench.heartbeat("c1", ids["c1"], 1) is E.NOT_COORDINATOR


def test_an_unload_sends_parked_joins_away_too() -> None:
    """Parked joins of PreparingRebalance get NOT_COORDINATOR."""
    bench = Bench()
    parked = bench.join_twice("c1")

    bench.resign()

    assert parked.error is E.NOT_COORDINATOR
    assert parked.reply.member_id != ""


def test_an_unload_ends_every_write_under_way_with_not_coordinator() -> None:
    """This broker can no longer know whether the record got into the log."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.lead("grp")
    bench.commit("x", 1, group="grp")
    bench.hold_appends = True
    commit = bench.commit("c1", 5, member_id=formed.leader, generation=1)
    leave = bench.leave("c1", LeavingMember(member_id=formed.leader))
    remove = bench.ask("a", OffsetDelete(group="grp", topics=(TopicPartitions(topic="t", partitions=(0,)),)))
    delete = bench.ask("a", DeleteGroups(groups=("grp", GROUP)))
    asks = (commit, leave, remove, delete)
    assert [ask.reply for ask in asks] == [None] * 4

    bench.resign()
    bench.resign("grp")
    bench.release()

    assert commit.reply.outcomes[0].error is E.NOT_COORDINATOR
    assert {ask.error for ask in (leave, remove)} == {E.NOT_COORDINATOR}
    assert {row.error for row in delete.reply.outcomes} == {E.NOT_COORDINATOR}


def test_old_news_about_who_leads_is_ignored() -> None:
    """Load and unload requests with an older leader epoch are ignored."""
    bench = Bench()
    bench.stable_group("c1")
    number = offsets_partition_of(GROUP)
    epoch = bench.epoch

    bench.feed(Told(ResignOffsets(partition=number, leader_epoch=epoch)))
    bench.feed(Told(LeadOffsets(partition=number, leader_epoch=epoch + 5, records=())))
    assert bench.group.state is STABLE
    bench.feed(Told(ResignOffsets(partition=number, leader_epoch=epoch + 4)))
    assert bench.group.state is STABLE
    bench.feed(Told(ResignOffsets(partition=number, leader_epoch=epoch + 6)))
    bench.feed(Told(LeadOffsets(partition=number, leader_epoch=epoch + 5, records=())))

    assert bench.join("c1").error is E.NOT_COORDINATOR


def test_a_resignation_during_a_load_stops_it() -> None:
    """The group is answered with NOT_COORDINATOR from then on."""
    bench = Bench(lead=False)
    bench.lead(GROUP, load_us=1_000)
    bench.resign()

    bench.advance(1)

    assert bench.join("c1").error is E.NOT_COORDINATOR


# --- checks before state (1.3) -------------------------------------------------------------------------------------


def all_requests(bench: Bench, group: str = GROUP) -> dict[str, object]:
    """The error of every API that names a group."""
    commit = bench.commit("c1", group=group).reply
    describe = bench.ask("c1", DescribeGroups(groups=(group,)), 5).reply
    delete = bench.ask("c1", DeleteGroups(groups=(group,))).reply
    offsets = OffsetDelete(group=group, topics=(TopicPartitions(topic="t", partitions=(0,)),))
    return {
        "JoinGroup": bench.join("c1", group=group).error,
        "SyncGroup": bench.sync("c1", "m", 1, group=group).error,
        "Heartbeat": bench.heartbeat("c1", "m", 1, group=group),
        "LeaveGroup": bench.leave("c1", LeavingMember(member_id="m"), group=group).error,
        "OffsetCommit": None if commit is None else commit.outcomes[0].error,
        "OffsetDelete": bench.ask("c1", offsets).error,
        "DescribeGroups": describe.groups[0].error,
        "DeleteGroups": delete.outcomes[0].error,
    }


@scenario("S010")
def test_the_empty_group_id_is_for_offsets_and_tools_only() -> None:
    """S010 testInvalidGroupId."""
    bench = Bench()
    bench.lead("")
    bench.commit("c1", group="")

    errors = all_requests(bench, "")

    named = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetDelete")
    assert {api: errors[api] for api in named} == dict.fromkeys(named, E.INVALID_GROUP_ID)
    assert (errors["OffsetCommit"], errors["DescribeGroups"], errors["DeleteGroups"]) == (E.NONE, E.NONE, E.NONE)


def test_a_coordinator_that_has_not_started_is_not_available() -> None:
    """Every API gets COORDINATOR_NOT_AVAILABLE."""
    bench = Bench(started=False, lead=False)

    errors = all_requests(bench)

    assert errors == dict.fromkeys(errors, E.COORDINATOR_NOT_AVAILABLE)
    assert bench.ask("c1", ListGroups()).error is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("kind", "waiting"), [("java", E.COORDINATOR_LOAD_IN_PROGRESS), ("scala", E.NOT_COORDINATOR)])
def test_a_partition_whose_load_waits_its_turn(kind: str, waiting: E) -> None:
    """As recorded with 3.4.1: GroupMetadataManager.loadGroupsAndOffsets marks a partition only when its load begins."""
    bench = Bench(lead=False, coordinator_kind=kind)
    bench.lead(GROUP, load_us=5_000, wait_us=10_000)

    assert bench.join("c1").error is waiting
    bench.advance(9)
    assert bench.join("c1").error is waiting
    bench.advance(2)
    assert bench.join("c1").error is E.COORDINATOR_LOAD_IN_PROGRESS
    bench.advance(5)
    assert bench.join("c1").error is E.MEMBER_ID_REQUIRED


def test_a_resignation_takes_a_waiting_load_out_of_the_queue() -> None:
    """Another broker leads before its turn came: nothing is loaded."""
    bench = Bench(lead=False, coordinator_kind="scala")
    bench.lead(GROUP, load_us=5_000, wait_us=10_000)
    bench.resign()
    bench.advance(20)

    assert bench.join("c1").error is E.NOT_COORDINATOR


@pytest.mark.parametrize(("kind", "rules"), [("java", JAVA), ("scala", SCALA)])
def test_while_a_partition_is_loading(kind: str, rules: object) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS, except Heartbeat -> NONE and SyncGroup in Scala -> REBALANCE_IN_PROGRESS."""
    bench = Bench(lead=False, coordinator_kind=kind)
    bench.lead(GROUP, load_us=5_000)

    errors = all_requests(bench)

    sync = E.COORDINATOR_LOAD_IN_PROGRESS if rules is JAVA else E.REBALANCE_IN_PROGRESS
    expected = {**dict.fromkeys(errors, E.COORDINATOR_LOAD_IN_PROGRESS), "Heartbeat": E.NONE, "SyncGroup": sync}
    assert errors == expected
    assert bench.ask("c1", ListGroups()).error is E.COORDINATOR_LOAD_IN_PROGRESS
    bench.advance(5)
    assert bench.join("c1").error is E.MEMBER_ID_REQUIRED


def test_a_partition_that_is_not_led_here() -> None:
    """Every API gets NOT_COORDINATOR."""
    bench = Bench(lead=False)

    errors = all_requests(bench)

    assert errors == dict.fromkeys(errors, E.NOT_COORDINATOR)
    assert {note.error for note in bench.noted(RequestRefused)} == {E.NOT_COORDINATOR}


@pytest.mark.parametrize("loading", [False, True])
def test_a_refused_offset_fetch_without_a_member_is_noted_with_an_empty_member_id(loading: bool) -> None:
    """Its member id is null since version 9, and a note with None cannot be read (kafka-3.9 operated, seed 167)."""
    bench = Bench(lead=False)
    if loading:
        bench.lead(GROUP, load_us=5_000)

    bench.ask("c1", OffsetFetch(group=GROUP, topics=None), 9)

    error = E.COORDINATOR_LOAD_IN_PROGRESS if loading else E.NOT_COORDINATOR
    assert [(note.error, note.member_id) for note in bench.noted(RequestRefused)] == [(error, "")]


def test_a_clean_close_unloads_everything() -> None:
    """Close: parked requests get NOT_COORDINATOR, later ones COORDINATOR_NOT_AVAILABLE."""
    bench = Bench()
    parked = bench.join_twice("c1")

    bench.feed(Told(Close()))

    assert parked.error is E.NOT_COORDINATOR
    assert bench.timers == {}
    assert bench.join("c1").error is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("api", list(all_requests(Bench())))
def test_an_injected_error_is_answered_in_the_shape_of_the_request_and_nothing_is_done(api: str) -> None:
    """AnswerNext: the request is not executed."""
    bench = Bench()
    bench.feed(Told(AnswerNext(api=api, sender="", nth=1, error=E.REBALANCE_IN_PROGRESS)))

    errors = all_requests(bench, GROUP)

    assert errors[api] is E.REBALANCE_IN_PROGRESS
    (note,) = bench.noted(AnswerInjected)
    assert note.api == api


def test_the_nth_request_of_one_sender_is_answered_with_the_injected_error() -> None:
    """AnswerNext: "answer the 2nd SyncGroup of c3 with REBALANCE_IN_PROGRESS"."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.feed(Told(AnswerNext(api="SyncGroup", sender="c2", nth=2, error=E.REBALANCE_IN_PROGRESS)))

    c1 = [bench.sync("c1", formed.ids["c1"], 1).error for _ in range(3)]
    c2 = [bench.sync("c2", formed.ids["c2"], 1).error for _ in range(3)]

    assert c1 == [E.NONE] * 3
    assert c2 == [E.NONE, E.REBALANCE_IN_PROGRESS, E.NONE]


def test_injected_errors_of_old_versions_keep_their_shape() -> None:
    """LeaveGroup v0-2 has only a top-level error."""
    bench = Bench()
    bench.feed(Told(AnswerNext(api="LeaveGroup", sender="", nth=1, error=E.COORDINATOR_NOT_AVAILABLE)))

    assert bench.ask("c1", LeaveGroup(group=GROUP, member_id="m"), 1).error is E.COORDINATOR_NOT_AVAILABLE


# --- append errors -------------------------------------------------------------------------------------------------

APPEND_ERRORS = [
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E.NOT_LEADER_OR_FOLLOWER,
    E.KAFKA_STORAGE_ERROR,
    E.REQUEST_TIMED_OUT,
    E.MESSAGE_TOO_LARGE,
    E.RECORD_LIST_TOO_LARGE,
    E.INVALID_TOPIC_EXCEPTION,
]
GROUP_ANSWERS = {
    "java": [15, 15, 20, 16, 16, 15, -1, -1, 17],
    "scala": [15, 15, 15, 16, 16, 27, -1, -1, 17],
}
COMMIT_ANSWERS = {
    "java": [15, 15, 20, 16, 16, 15, -1, -1, 17],
    "scala": [15, 15, 15, 16, 16, 7, 28, 28, 17],
}


@scenario("S102")
@pytest.mark.parametrize("kind", ["java", "scala"])
def test_what_failed_appends_are_answered_as(kind: str) -> None:
    """S102 testStoreGroupErrorMapping, for groups and offsets."""
    syncs, commits = [], []
    for error in APPEND_ERRORS:
        bench = Bench(coordinator_kind=kind)
        join = bench.join_twice("c1")
        bench.advance(DELAY_MS)
        bench.append_errors = [error]
        syncs.append(int(bench.sync("c1", join.reply.member_id, 1, {}).error or 0))
        simple = Bench(coordinator_kind=kind)
        simple.append_errors = [error]
        commits.append(int(simple.commit_error("c1")))

    assert (syncs, commits) == (GROUP_ANSWERS[kind], COMMIT_ANSWERS[kind])


# --- tools ---------------------------------------------------------------------------------------------------------


def describe(bench: Bench, *groups: str) -> list:
    """The rows of a DescribeGroups."""
    return list(bench.ask("admin", DescribeGroups(groups=groups), 5).reply.groups)


@pytest.mark.parametrize(("kind", "still_shown"), [("scala", b""), ("java", b"for-c1")])
def test_describe_shows_protocol_and_metadata_only_in_stable(kind: str, still_shown: bytes) -> None:
    """ClassicGroupMember.describeNoMetadata (4.0) shows the last assignment in every state."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1", static=True)
    (stable,) = describe(bench, GROUP)
    assert (stable.state, stable.protocol_type, stable.protocol) == ("Stable", "consumer", "range")
    (member,) = stable.members
    assert (member.member_id, member.instance_id) == (formed.leader, "i-c1")
    assert (member.client_id, member.client_host) == ("c1", "/c1")
    assert (member.metadata, member.assignment) == (metadata("t"), b"for-c1")

    bench.join("c1", formed.leader, instance="i-c1")
    (completing,) = describe(bench, GROUP)

    assert (completing.state, completing.protocol) == ("CompletingRebalance", "")
    assert (completing.members[0].metadata, completing.members[0].assignment) == (b"", still_shown)


def test_describing_a_missing_group_says_dead_without_an_error() -> None:
    """DescribeGroups (v0-5) of a missing group -> state "Dead", error 0."""
    bench = Bench()

    (missing,) = describe(bench, GROUP)

    assert (missing.state, missing.error, missing.members) == ("Dead", E.NONE, ())


def test_list_filters_by_state() -> None:
    """ListGroups v4 (KIP-518)."""
    bench = Bench()
    bench.lead("grp")
    bench.stable_group("c1")
    bench.commit("c1", group="grp")

    everything = bench.ask("admin", ListGroups(), 4).reply.groups
    only = bench.ask("admin", ListGroups(states_filter=("stable",)), 4).reply.groups

    assert [(row.group, row.state) for row in everything] == [(GROUP, "Stable"), ("grp", "Empty")]
    assert [(row.group, row.protocol_type) for row in only] == [(GROUP, "consumer")]


# --- java and scala (1.16) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "extended"), [("java", True), ("scala", False)])
def test_a_group_that_became_empty_extends_its_delay_again_only_in_java(kind: str, extended: bool) -> None:
    """Scala extends the initial delay at generation 0 only."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1")
    bench.leave("c1", LeavingMember(member_id=formed.leader))
    assert bench.group.shared.generation == 2
    first = bench.join_twice("c1")
    bench.advance(1_000)
    bench.join_twice("c2")

    bench.advance(DELAY_MS - 1_000)

    assert (first.reply is None) is extended


@pytest.mark.parametrize(("kind", "completed"), [("java", False), ("scala", True)])
def test_a_refusal_for_size_completes_the_join_phase_only_in_scala(kind: str, completed: bool) -> None:
    """The refused id is the last one that the phase waited for."""
    bench = Bench(coordinator_kind=kind, group_max_size=2)
    formed = bench.stable_group("c1", "c2")
    bench.leave("c2", LeavingMember(member_id=formed.ids["c2"]))
    pending = bench.join("c3").reply.member_id
    other = bench.join("c4", version=3)
    first = bench.join("c1", formed.ids["c1"])
    assert (first.reply, other.reply) == (None, None)

    assert bench.join("c3", pending).error is E.GROUP_MAX_SIZE_REACHED

    assert (first.reply is not None) is completed
    bench.advance(REBALANCE_MS)
    assert first.reply.generation == 2


@pytest.mark.parametrize(("kind", "completed"), [("java", True), ("scala", False)])
def test_an_expiry_ends_the_initial_delay_only_in_java(kind: str, completed: bool) -> None:
    """The last member without a parked join expires during the initial delay."""
    bench = Bench(coordinator_kind=kind, group_initial_rebalance_delay_ms=30_000)
    bench.join("c1", session_ms=6_000)
    join = bench.join_twice("c2")

    bench.advance(6_000)

    assert (join.reply is not None) is completed
    bench.advance(24_000)
    assert join.reply.generation == 1


@pytest.mark.parametrize("kind", ["java", "scala"])
def test_a_leave_during_the_initial_delay_does_not_end_it(kind: str) -> None:
    """Like a join, a leave never shortens the initial delay; an expired session can."""
    bench = Bench(coordinator_kind=kind)
    pending = bench.join("c1").reply.member_id
    join = bench.join_twice("c2")
    bench.leave("c1", LeavingMember(member_id=pending))

    bench.advance(DELAY_MS - 1)
    assert join.reply is None
    bench.advance(1)
    assert join.reply.generation == 1


@pytest.mark.parametrize("kind", ["java", "scala"])
def test_a_batch_leave_ends_in_the_same_state(kind: str) -> None:
    """Scala acts at each removal, Java once; the end state is the same."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1", "c2", "c3")

    leave = bench.leave("admin", *[LeavingMember(member_id=formed.ids[c]) for c in ("c1", "c2")])

    assert [row.error for row in leave.reply.members] == [E.NONE, E.NONE]
    assert (bench.group.state, bench.group.shared.generation) == (PREPARING, 1)
    assert bench.join("c3", formed.ids["c3"]).reply.generation == 2


@pytest.mark.parametrize(("kind", "state"), [("java", PREPARING), ("scala", STABLE)])
def test_the_leave_of_an_unused_id_rebalances_a_stable_group_only_in_java(kind: str, state: object) -> None:
    """classicGroupLeaveToClassicGroup counts the pending id among those that left; GroupCoordinator.scala does not."""
    bench = Bench(coordinator_kind=kind)
    bench.stable_group("c1")
    pending = bench.join("c2").reply.member_id

    bench.leave("c2", LeavingMember(member_id=pending))

    assert bench.group.state is state


@pytest.mark.parametrize(("kind", "waits"), [("java", True), ("scala", False)])
def test_the_last_leave_waits_for_the_record_only_in_java(kind: str, waits: bool) -> None:
    """CoordinatorResult: java answers when the records are committed; scala answers and only logs a failure."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1")
    bench.hold_appends = True

    leave = bench.leave("c1", LeavingMember(member_id=formed.leader))

    assert (leave.reply is None) is waits


@pytest.mark.parametrize(("kind", "left_ms"), [("java", SESSION_MS - 1), ("scala", SESSION_MS)])
def test_a_sync_in_stable_is_a_sign_of_life_only_in_scala(kind: str, left_ms: int) -> None:
    """doSyncGroup of GroupCoordinator.scala restarts the session; the Java coordinator does not."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1")
    bench.advance(1)

    bench.sync("c1", formed.leader, 1)

    assert bench.left_ms("session", GROUP, formed.leader) == left_ms


def test_scala_has_no_group_id_not_found_for_commits() -> None:
    """A commit with a generation to a missing group gets ILLEGAL_GENERATION there."""
    bench = Bench(coordinator_kind="scala")

    assert bench.commit_error("c1", member_id="m", generation=1, version=9) is E.ILLEGAL_GENERATION


def test_scala_writes_no_record_for_a_new_group() -> None:
    """The Java coordinator writes the empty group's record."""
    bench = Bench(coordinator_kind="scala")
    bench.join("c1")

    assert bench.log() == []


def test_scala_writes_no_tombstone_for_a_group_without_a_generation() -> None:
    """A group at generation 0 has no record to remove."""
    bench = Bench(coordinator_kind="scala")
    bench.commit("c1", 1)
    bench.ask("admin", DeleteGroups(groups=(GROUP,)))
    assert bench.log()[-1] == offset_tombstone(GROUP, "t", 0)

    bench.join("c1")
    written = len(bench.log())
    reply = bench.ask("admin", DeleteGroups(groups=(GROUP,))).reply

    assert (reply.outcomes[0].error, len(bench.log())) == (E.NONE, written)
    assert GROUP not in bench.coordinator.groups


@pytest.mark.parametrize("kind", ["java", "scala"])
def test_who_wants_stable_offsets_waits_in_java_and_is_refused_in_scala_while_a_commit_is_written(kind: str) -> None:
    """RequireStable and an offset that is not replicated yet -> 88; GroupCoordinatorService.fetchOffsets
    (4.0.0) makes it an operation without records, which waits for those before it.
    """
    bench = Bench(coordinator_kind=kind)
    bench.commit("c1", 1)
    bench.hold_appends = True
    bench.commit("c1", 2)
    topics = (TopicPartitions(topic="t", partitions=(0,)),)

    fetch = bench.ask("admin", OffsetFetch(group=GROUP, topics=topics, require_stable=True))
    assert (fetch.reply is None) is (kind.startswith("java"))
    bench.release()

    (row,) = fetch.reply.offsets
    assert (row.error, row.offset) == ((E.NONE, 2) if kind.startswith("java") else (E.UNSTABLE_OFFSET_COMMIT, -1))


@pytest.mark.parametrize(("kind", "kept"), [("java", ["range", "roundrobin"]), ("scala", ["range"])])
def test_scala_keeps_the_new_protocols_of_a_replacement_that_failed(kind: str, kept: list[str]) -> None:
    """The Java coordinator restores the old ones."""
    bench = Bench(coordinator_kind=kind)
    formed = bench.stable_group("c1", static=True, names=("range", "roundrobin"))
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]
    bench.join("c1", instance="i-c1", names=("range",))

    assert [own.name for own in bench.group.members.by_id[formed.leader].protocols] == kept
