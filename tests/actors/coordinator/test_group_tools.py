"""The answers to tools about a group, by state: describe, list, delete, remove members, reset and delete offsets.

Source: GroupCoordinator.scala (handleDescribeGroup, handleListGroups, handleDeleteGroups, handleDeleteOffsets,
handleLeaveGroup, validateOffsetCommit), Kafka 3.4 and 3.9.
"""

import pytest

from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from kemu.actors.machine import Told
from kemu.protocol.commands import KnowTopics
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.consumer_group import JOINS, ConsumerGroupHeartbeat
from kemu.protocol.messages.group import (
    DeleteGroups,
    DescribeGroups,
    LeavingMember,
    ListGroups,
    OffsetDelete,
    TopicPartitions,
)
from tests.actors.coordinator.coordinator_harness import GROUP, Bench, metadata

STATES = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)


def seen(state: GroupState, kind: str) -> GroupState:
    """The state that admins see: since 4.0 a group that is being deleted is still Empty in the log."""
    return EMPTY if state is DEAD and kind.startswith("java") else state


def in_state(state: GroupState, **config: object) -> tuple[Bench, dict[str, str]]:
    """A group of two static members of topic t with an offset of t and u, brought into a state; client -> member id."""
    bench = Bench(**config)
    formed = bench.stable_group("c1", "c2", static=True, data=metadata("t"))
    for topic in ("t", "u"):
        bench.commit("c1", 5, member_id=formed.leader, generation=1, topic=topic, instance="i-c1")
    if state in (PREPARING, COMPLETING):
        bench.join("c2", formed.ids["c2"], instance="i-c2", data=metadata("t", "t2"))
    if state is COMPLETING:
        bench.join("c1", formed.ids["c1"], instance="i-c1", data=metadata("t"))
    if state in (EMPTY, DEAD):
        bench.leave("admin", LeavingMember(instance_id="i-c1"), LeavingMember(instance_id="i-c2"))
    if state is DEAD:
        bench.hold_appends = True
        bench.ask("admin", DeleteGroups(groups=(GROUP,)))
    group = bench.coordinator.groups.get(GROUP)
    if state is DEAD and bench.config.coordinator_kind.startswith("java"):
        assert group is None, "since 4.0 requests do not find a group that is being deleted"
    else:
        assert group is not None and group.state is state
    return bench, formed.ids


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_only_an_empty_group_is_deleted(state: GroupState, kind: str) -> None:
    """handleDeleteGroups: Empty -> NONE; Dead -> GROUP_ID_NOT_FOUND; any other -> NON_EMPTY_GROUP."""
    bench, _ = in_state(state, coordinator_kind=kind)

    (outcome,) = bench.ask("admin2", DeleteGroups(groups=(GROUP,)), 2).reply.outcomes

    assert outcome.error is {EMPTY: E.NONE, DEAD: E.GROUP_ID_NOT_FOUND}.get(state, E.NON_EMPTY_GROUP)
    assert (GROUP in bench.coordinator.groups) == (state is not EMPTY and seen(state, kind) is state)


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_offsets_are_deleted_but_those_that_members_consume(state: GroupState, kind: str) -> None:
    """handleDeleteOffsets: Dead -> GROUP_ID_NOT_FOUND; Empty -> all; else not what is subscribed (KIP-496)."""
    bench, _ = in_state(state, coordinator_kind=kind)
    topics = tuple(TopicPartitions(topic=topic, partitions=(0, 1)) for topic in ("t", "u"))

    reply = bench.ask("admin2", OffsetDelete(group=GROUP, topics=topics)).reply

    if state is DEAD:
        assert (reply.error, reply.outcomes) == (E.GROUP_ID_NOT_FOUND, ())
        return
    of_t = E.NONE if state is EMPTY else E.GROUP_SUBSCRIBED_TO_TOPIC
    assert reply.error is E.NONE
    assert [(row.topic, row.partition, row.error) for row in reply.outcomes] == [
        ("t", 0, of_t),
        ("t", 1, of_t),
        ("u", 0, E.NONE),
        ("u", 1, E.NONE),
    ]
    assert (bench.committed("t"), bench.committed("u")) == (-1 if state is EMPTY else 5, -1)


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_offsets_are_reset_only_while_the_group_is_empty(state: GroupState, kind: str) -> None:
    """validateOffsetCommit: generation -1 and no ids: Empty -> NONE, Dead -> COORDINATOR_NOT_AVAILABLE, else 25.

    Since 4.0 a commit beside a deletion begins the next group, and its offset follows the tombstones.
    """
    bench, _ = in_state(state, coordinator_kind=kind)

    ask = bench.commit("admin2", offset=1, topic="t")
    if seen(state, kind) is not state:
        assert (ask.reply, bench.committed("t")) == (None, 5)
        bench.release()

    expected = {EMPTY: E.NONE, DEAD: E.COORDINATOR_NOT_AVAILABLE}
    assert ask.reply.outcomes[0].error is expected.get(seen(state, kind), E.UNKNOWN_MEMBER_ID)
    assert bench.committed("t") == (1 if seen(state, kind) is EMPTY else 5)


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_members_are_removed_by_instance_id_or_by_id(state: GroupState, kind: str) -> None:
    """handleLeaveGroup (KIP-345): each entry has its own outcome; a Dead group refuses the whole request."""
    bench, ids = in_state(state, coordinator_kind=kind)
    state = seen(state, kind)
    ask = bench.leave(
        "admin2",
        LeavingMember(instance_id="i-c1"),
        LeavingMember(member_id=ids["c2"]),
        LeavingMember(member_id="ghost", instance_id="i-c2"),
        LeavingMember(instance_id="nobody"),
    )

    if state is DEAD:
        assert (ask.error, ask.reply.members) == (E.COORDINATOR_NOT_AVAILABLE, ())
        return
    there = E.UNKNOWN_MEMBER_ID if state is EMPTY else E.NONE
    assert ask.error is E.NONE
    assert [row.error for row in ask.reply.members] == [there, there, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    assert GROUP not in bench.coordinator.groups or bench.group.state is EMPTY


def test_an_id_that_another_took_over_is_fenced_when_it_is_removed() -> None:
    """handleLeaveGroup: instance and id are checked together, the instance first."""
    bench, ids = in_state(STABLE)

    ask = bench.leave("admin", LeavingMember(member_id="ghost", instance_id="i-c2"))

    assert [row.error for row in ask.reply.members] == [E.FENCED_INSTANCE_ID]
    assert ids["c2"] in bench.group.members.by_id


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_a_description_shows_subscriptions_only_in_stable(state: GroupState, kind: str) -> None:
    """handleDescribeGroup: summary in Stable, summaryNoMetadata and no protocol in any other state.

    In 4.0 ClassicGroupMember.describeNoMetadata shows assignments in every state.
    """
    bench, ids = in_state(state, coordinator_kind=kind)

    (row,) = bench.ask("admin2", DescribeGroups(groups=(GROUP,)), 5).reply.groups

    assert (row.error, row.state, row.protocol_type) == (E.NONE, seen(state, kind).value, "consumer")
    assert row.protocol == ("range" if state is STABLE else "")
    expected = {} if state in (EMPTY, DEAD) else ids
    assert {member.member_id: member.instance_id for member in row.members} == {
        member_id: f"i-{client}" for client, member_id in expected.items()
    }
    shown = (
        metadata("t") if state is STABLE else b"",
        b"for-c1" if state is STABLE or kind.startswith("java") else b"",
    )
    of_first = [member for member in row.members if member.member_id == ids["c1"]]
    assert [(member.metadata, member.assignment) for member in of_first] == ([shown] if expected else [])


@pytest.mark.parametrize("kind", ["java", "scala"])
@pytest.mark.parametrize("state", STATES)
def test_a_list_filters_by_state(state: GroupState, kind: str) -> None:
    """ListGroups v4 (KIP-518)."""
    bench, _ = in_state(state, coordinator_kind=kind)
    state = seen(state, kind)

    def listed(*states: str) -> list[tuple[str, str, str]]:
        reply = bench.ask("admin2", ListGroups(states_filter=states), 4).reply
        assert reply.error is E.NONE
        return [(row.group, row.protocol_type, row.state) for row in reply.groups]

    assert listed() == listed(state.value) == [(GROUP, "consumer", state.value)]
    assert listed(*[other.value for other in STATES if other is not state]) == []


def test_admins_see_the_former_group_until_the_log_has_the_group_in_its_place() -> None:
    """``GroupMetadataManager.listGroups``, ``describeGroups`` 4.0 to 4.3 read the committed groups."""
    bench = Bench(coordinator_kind="java")
    bench.feed(Told(KnowTopics(topics=())))
    join = bench.join_twice("c1", protocol_type="connect")
    bench.until_answered(join)
    bench.leave("c1", LeavingMember(member_id=join.reply.member_id))

    def listed() -> list[tuple[str, str]]:
        return [(row.protocol_type, row.state) for row in bench.ask("admin", ListGroups(), 4).reply.groups]

    def described() -> tuple[str, str]:
        (row,) = bench.ask("admin", DescribeGroups(groups=(GROUP,)), 5).reply.groups
        return row.protocol_type, row.state

    bench.hold_appends = True
    heartbeat = ConsumerGroupHeartbeat(
        group=GROUP, member_id="m", member_epoch=JOINS, rebalance_timeout_ms=1_000, topics=("t",), owned=()
    )
    bench.ask("c2", heartbeat, 1)
    assert listed() == [described()] == [("connect", "Empty")]

    bench.release()
    assert listed() == [("consumer", "Stable")]
    assert described() == ("", "Dead"), "it is not a classic group"


@pytest.mark.parametrize(("kind", "named"), [("java", []), ("scala", [GROUP])])
def test_a_list_during_a_load_is_an_error_beside_which_scala_names_what_it_knows(kind: str, named: list[str]) -> None:
    """handleListGroups answers with the error and the current groups; GroupCoordinatorService with the error alone."""
    bench, _ = in_state(STABLE, coordinator_kind=kind)
    bench.lead("grp", load_us=1_000)

    reply = bench.ask("admin", ListGroups(), 4).reply

    assert (reply.error, [row.group for row in reply.groups]) == (E.COORDINATOR_LOAD_IN_PROGRESS, named)
