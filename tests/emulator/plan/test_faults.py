"""The table of faults and actions: complete, recordable, and told in words that tell them apart."""

import typing

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.plan import actions as faults
from kemu.emulator.plan.actions import ACTIONS, CHOICES, Action, kind_of, role_of
from kemu.emulator.plan.store_actions import (
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    ExpiredSession,
    FrozenSession,
    LateWatches,
    LostStoreAnswer,
)
from kemu.emulator.plan.words import describe_action
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import STRUCTS
from kemu.protocol.wire.values import from_row, to_row

CLASSES = typing.get_args(Action)


def actions() -> st.SearchStrategy[Action]:
    """Any action with any values of the right types."""

    def values(cls: type) -> st.SearchStrategy[Action]:
        fields = {}
        for spec in STRUCTS[cls]:
            if (cls, spec.name) in CHOICES:
                fields[spec.name] = st.sampled_from(CHOICES[cls, spec.name])
            elif spec.annotation is int:
                fields[spec.name] = st.integers(0, 10**9)
            elif spec.annotation is bool:
                fields[spec.name] = st.booleans()
            elif spec.annotation is ErrorCode:
                fields[spec.name] = st.sampled_from(ErrorCode)
            elif spec.annotation is str:
                fields[spec.name] = st.sampled_from(["", "c1", "b0", "g", "leader of g", "SyncGroup"])
            else:
                fields[spec.name] = st.lists(st.sampled_from(["c1", "c2", "b0"]), unique=True).map(tuple)
        return st.builds(cls, **fields)

    return st.one_of([values(cls) for cls in CLASSES])


def test_every_action_has_exactly_one_row_in_the_table() -> None:
    """The table is written out; a class without a row could not be named by a scenario."""
    assert sorted(row.cls.__name__ for row in ACTIONS.values()) == sorted(cls.__name__ for cls in CLASSES)
    assert all(row.summary for row in ACTIONS.values())


def test_host_fields_of_the_table_are_fields_of_the_class() -> None:
    """Reading a scenario checks hosts by these rows."""
    for row in ACTIONS.values():
        names = {spec.name for spec in STRUCTS[row.cls]}
        assert {field for field, _ in row.hosts} <= names
        assert {kind for _, kind in row.hosts} <= {"any", "member", "broker"}


def test_choices_are_the_default_and_others_of_fields_that_exist() -> None:
    """A field with choices has its default among them."""
    for (cls, field), choices in CHOICES.items():
        (spec,) = [spec for spec in STRUCTS[cls] if spec.name == field]
        assert spec.default in choices


@given(actions())
def test_an_action_can_be_recorded_and_read_back(action: Action) -> None:
    """Traces hold the plan."""
    packed = msgpack.packb(to_row(action))

    assert from_row(msgpack.unpackb(packed, use_list=False)) == action


@given(actions(), actions())
def test_different_actions_read_differently(one: Action, other: Action) -> None:
    """A report names faults by their words only."""
    if "" in (*attrs.astuple(one), *attrs.astuple(other)):
        return  # "" stands for everyone, which some words say by leaving it out
    assert (describe_action(one) == describe_action(other)) == (one == other)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (faults.Crash(host="b0", for_us=20_000_000), "crash b0 (power) for 20s"),
        (faults.Crash(host="leader of g", mode="process"), "crash leader of g (process)"),
        (faults.Pause(host="c2", for_us=25_000_000), "pause c2 for 25s"),
        (faults.Split(side=("c1", "c2")), "split c1, c2 from everyone else until healed"),
        (faults.Split(side=("b0",), other=("c2",), one_way=True, for_us=1_000), "c2 hears nothing of b0 for 1ms"),
        (faults.Slow(sender="c1", add_us=3_000, jitter_us=5_000), "slow c1 -> any by 3ms to 8ms until healed"),
        (faults.ClockDrift(host="c1", ppm=-500), "clock of c1 drifts by -500 ppm until healed"),
        (
            faults.ErrorReply(api="SyncGroup", sender="c3", nth=2, error=ErrorCode.REBALANCE_IN_PROGRESS),
            "answer request 2 SyncGroup of c3 with REBALANCE_IN_PROGRESS",
        ),
        (
            faults.RollingRestart(group="g", every_us=20_000_000, down_us=8_000_000),
            "rolling restart of g (close), one every 20s, each down for 8s",
        ),
        (
            LostStoreAnswer(host="b0", nth=2, applied=False),
            "lose the store's answer to write 2 of b0 (broker), which is not applied",
        ),
        (FrozenSession(host="controller"), "freeze the session of controller until healed"),
        (LateWatches(host="b1", for_us=3_000_000), "keep the next watch of b1 back for 3s"),
        (
            ExpiredSession(host="b1", linger_us=5_000_000),
            "expire the session of b1, whose nodes linger for 5s",
        ),
        (
            CreateTopic(topic="t", partitions=4, replication_factor=2, records_per_s=9),
            "create topic t with 4 partitions, 2 replicas each, 9 records/s",
        ),
        (DeleteTopic(topic="t"), "delete topic t"),
        (ElectPreferredLeaders(), "elect the preferred leaders of all partitions"),
        (ElectPreferredLeaders(topics=("t", "u")), "elect the preferred leaders of t, u"),
    ],
)
def test_an_action_is_told_in_words(action: Action, words: str) -> None:
    """What reports and transcripts print."""
    assert describe_action(action) == words


def test_kinds_and_classes_belong_together() -> None:
    """``kind_of`` is the table read backwards."""
    assert kind_of(faults.Heal()) == "heal"
    assert kind_of(faults.LoseDiskTail(host="b0", records=1)) == "lose-disk-tail"


def test_roles_are_told_from_host_names() -> None:
    """Hosts may be named by what they are at that moment."""
    assert role_of("coordinator of my group") == ("coordinator", "my group")
    assert role_of("leader of g") == ("leader", "g")
    assert role_of("c1") is None
    assert role_of("follower of g") is None
    assert role_of("leader of ") is None
