"""The table of faults and actions: complete, recordable, and told in words that tell them apart."""

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.plan import actions as faults
from kemu.emulator.plan.action import KINDS, Action, HostNames, OneOf, keys_of, kind_of
from kemu.emulator.plan.actions import (
    ACTIONS,
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    ExpiredSession,
    FrozenSession,
    LateWatches,
    LostStoreAnswer,
    StoreElection,
)
from kemu.emulator.plan.known import role_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.values import from_row, to_row

CLASSES = [row.cls for row in ACTIONS.values()]


def actions() -> st.SearchStrategy[Action]:
    """Any action with any values of the right types."""

    def values(cls: type[Action]) -> st.SearchStrategy[Action]:
        fields: dict[str, st.SearchStrategy[object]] = {}
        for key in keys_of(cls):
            if isinstance(key.accepts, OneOf):
                fields[key.name] = st.sampled_from(key.accepts.words)
            elif key.annotation is int:
                fields[key.name] = st.integers(0, 10**9)
            elif key.annotation is bool:
                fields[key.name] = st.booleans()
            elif key.annotation is ErrorCode:
                fields[key.name] = st.sampled_from(ErrorCode)
            elif key.annotation is str:
                fields[key.name] = st.sampled_from(["", "c1", "b0", "g", "leader of g", "SyncGroup"])
            else:
                fields[key.name] = st.lists(st.sampled_from(["c1", "c2", "b0"]), unique=True).map(tuple)
        return st.builds(cls, **fields)

    return st.one_of([values(cls) for cls in CLASSES])


def test_every_declared_action_is_in_the_table() -> None:
    """The table is written out; a class without a row could not be named by a scenario."""
    assert set(CLASSES) == set(KINDS)
    assert len(CLASSES) == len(set(CLASSES))
    assert all(row.summary for row in ACTIONS.values())


def test_hosts_of_fields_are_of_a_kind_there_is() -> None:
    """Reading a scenario checks hosts by these."""
    accepted = [key.accepts for cls in CLASSES for key in keys_of(cls)]

    kinds = {accepts.kind for accepts in accepted if isinstance(accepts, HostNames)}
    assert kinds == {"any", "member", "broker"}


def test_choices_are_the_default_and_others() -> None:
    """A field with choices has its default among them."""
    chosen = [key for cls in CLASSES for key in keys_of(cls) if isinstance(key.accepts, OneOf)]

    assert chosen
    assert all(key.required or key.default in key.accepts.words for key in chosen if isinstance(key.accepts, OneOf))


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
    assert (one.words() == other.words()) == (one == other)


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
            "expire the session of b1, with its nodes left for 5s",
        ),
        (faults.FailedLogDir(host="b1", log_dir=1), "log directory 1 of b1 fails until healed"),
        (StoreElection(), "the store's leader dies, another is elected"),
        (StoreElection(for_us=3_000_000), "the store's leader dies, another is elected for 3s"),
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
    assert action.words() == words


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
