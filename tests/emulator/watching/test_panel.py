"""The panel: who owns, coordinates, leads and runs, by members and not by hosts."""

from typing import Any

import pytest

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, RunStarted, Seen
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import OFFSETS_TOPIC, TopicPartition
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CoordinatorKnown,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    MemberAdded,
    MemberBecame,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.protocol.notes.replication import BecameLeader, NodeWritten

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


class Fed:
    """A panel and facts for it."""

    def __init__(self) -> None:
        self.panel = Panel()
        self.seq = 0

    def by(self, actor: str, fact: Any, life: int = 1) -> Panel:
        self.seq += 1
        self.panel.see(Seen(self.seq, self.seq * 1_000, actor, life, fact))
        return self.panel

    def takes(self, actor: str, *partitions: TopicPartition, life: int = 1, generation: int = 1) -> Panel:
        member_id = f"{actor}-{life}"
        received = AssignmentReceived(group="g", member_id=member_id, generation=generation, partitions=partitions)
        self.by(actor, received, life)
        fact = PartitionsAssigned(
            group="g", member_id=member_id, generation=generation, added=partitions, owned=partitions
        )
        return self.by(actor, fact, life)

    def speaks(self, coordinator: str, old: str, new: str, generation: int = 0) -> Seen:
        self.by(coordinator, GroupBecame(group="g", old=old, new=new, generation=generation, why="told"))
        assert self.panel.now is not None
        return self.panel.now


@pytest.fixture(name="fed")
def fresh() -> Fed:
    fed = Fed()
    fed.by("", RunStarted(groups=("g",), members=(("c1", "g"), ("c2", "g")), brokers=("b0",), topics=(("t", 3),)))
    for host in ("c1", "c2", "b0"):
        fed.by("", HostStarted(host=host, life=1, kept_disk=True))
    return fed


def test_several_members_of_one_host_own_serve_and_end_each_for_itself(fed: Fed) -> None:
    """A Streams instance's threads, or a consumer that catches up beside the member it helps."""
    for actor in ("c1/thread-1", "c1/thread-2"):
        fed.by(actor, MemberBecame(group="g", member_id="", old="", new="PREPARING_REBALANCE", generation=0, why=""))
    fed.takes("c1/thread-1", T0)
    panel = fed.takes("c1/thread-2", T1, T2)

    assert panel.running_members("g") == ["c1/thread-1", "c1/thread-2", "c2"], "the host itself is no member"
    assert [list(panel.holdings[actor].owned) for actor in ("c1/thread-1", "c1/thread-2")] == [[T0], [T1, T2]]
    assert panel.took["g", "c1/thread-2-1"].actor == "c1/thread-2"
    fed.by("", HostPaused(host="c1"))
    assert panel.ceased == [("g", T0), ("g", T1), ("g", T2)]
    fed.by("", HostResumed(host="c1"))
    assert panel.served == [("g", T0), ("g", T1), ("g", T2)]
    closed = MemberBecame(group="g", member_id="m", old="STABLE", new="CLOSED", generation=1, why="")
    fed.by("c1/thread-1", closed)
    assert panel.ceased == [("g", T0)]
    assert panel.running_members("g") == ["c1/thread-2", "c2"]
    fed.by("", HostDown(host="c1", life=1, how="power"))
    assert panel.ceased == [("g", T1), ("g", T2)], "what the closed one served had ended before"
    assert {holding.actor for holding in panel.ended} == {"c1/thread-1", "c1/thread-2"}
    assert panel.running_members("g") == ["c2"]


def test_callbacks_change_what_is_owned_and_only_by_what_they_change(fed: Fed) -> None:
    """Naming again what is owned gains nothing; giving up what is not owned loses nothing."""
    fed.takes("c1", T0, T1)
    panel = fed.takes("c1", T1, T2)
    assert (panel.gained, panel.served) == ([T2], [("g", T2)])
    fed.by("c1", PartitionsRevoked(group="g", member_id="c1-1", generation=1, revoked=(T0, ("u", 0)), owned=(T1, T2)))
    assert (panel.given_up, panel.ceased) == ([T0], [("g", T0)])
    fed.by("c1", PartitionsLost(group="g", member_id="c1-1", lost=()))
    assert panel.given_up == [T1, T2]


def test_a_new_life_owns_nothing_whether_or_not_the_end_of_the_old_one_was_told(fed: Fed) -> None:
    """Logs may lack the moment of a death."""
    fed.takes("c1", T0)
    fed.by("c1", AssignmentReceived(group="g", member_id="c1-2", generation=2, partitions=(T1,)), life=2)

    assert fed.panel.ceased == [("g", T0)]
    assert (fed.panel.holdings["c1"].life, list(fed.panel.holdings["c1"].owned)) == (2, [])
    assert fed.panel.took["g", "c1-1"].life == 1, "whose commits may come in late"


def test_a_zombie_is_no_coordinator_any_more(fed: Fed) -> None:
    """Another one loaded the group; only what it does not give up by itself goes on in the old one."""
    fed.speaks("b0/coordinator", "Empty", "PreparingRebalance")
    fed.by("b1/coordinator", GroupLoaded(group="g", state="Stable", generation=3, members=("m",)))
    late = fed.speaks("b0/coordinator", "PreparingRebalance", "Empty", 1)

    assert not fed.panel.is_current(late)
    assert fed.panel.groups["g"].state == "Stable"
    begins = fed.speaks("b0/coordinator", "Empty", "PreparingRebalance", 1)
    assert not fed.panel.is_current(begins), "the group has been Stable elsewhere: it is not its to begin"


def test_a_group_that_was_never_stable_is_begun_anew_by_the_next_coordinator(fed: Fed) -> None:
    """Nothing of it was in the log, so nobody says that it was loaded."""
    fed.speaks("b0/coordinator", "Empty", "PreparingRebalance")
    anew = fed.speaks("b1/coordinator", "Empty", "PreparingRebalance")

    assert fed.panel.is_current(anew)
    assert not fed.panel.is_current(Seen(9, 9, "b0/coordinator", 1, GroupUnloaded(group="g")))


@pytest.mark.parametrize(("state", "is_current"), [("Dead", True), ("Stable", False)])
def test_the_next_group_of_a_deleted_groups_name_may_have_another_coordinator(
    fed: Fed, state: str, is_current: bool
) -> None:
    """The coordinator moved after the deletion, so that it loaded nothing (kafka-4.0 operated, seed 9383)."""
    fed.speaks("b0/coordinator", "CompletingRebalance", "Stable", 2)
    fed.speaks("b0/coordinator", "Stable", state, 2)
    added = MemberAdded(group="g", member_id="n", client_id="c1", instance_id=None)

    assert fed.panel.is_current(Seen(9, 9, "b1/coordinator", 1, added)) == is_current


def test_a_coordinator_speaks_for_nobody_from_its_successors_first_moment_on_unless_it_leads_again(fed: Fed) -> None:
    """The successor has nothing of the group and says nothing: b0, which heard nothing, goes on alone."""
    log = (OFFSETS_TOPIC, 0)

    def leads(broker: int, epoch: int) -> None:
        data = state_data(PartitionState(broker, epoch, (broker,), 1))
        at = state_path(*log)
        fed.by("zk", NodeWritten(what="set", path=at, data=data, version=epoch, zxid=epoch, client=""))
        fed.by(
            f"b{broker}",
            BecameLeader(topic=log[0], partition=0, leader_epoch=epoch, isr=(broker,), end_offset=0, high_watermark=0),
        )

    assignment = topic_data({0: ReplicaAssignment((0, 1))})
    at = topic_path(OFFSETS_TOPIC)
    fed.by("zk", NodeWritten(what="set", path=at, data=assignment, version=0, zxid=0, client=""))
    leads(0, 1)
    assert fed.panel.is_current(fed.speaks("b0/coordinator", "CompletingRebalance", "Stable", 2))
    leads(1, 2)
    late = fed.speaks("b0/coordinator", "Stable", "PreparingRebalance", 2)
    assert not fed.panel.is_current(late)
    assert (fed.panel.groups["g"].coordinator, fed.panel.groups["g"].loaded) == ("", False)
    for host, deposed in (("b0/coordinator", True), ("b1/coordinator", False), ("", False)):
        found = CoordinatorKnown(group="g", host=host, why="told")
        fed.by("c1", found)
        assert fed.panel.asks_deposed(Seen(99, 99, "c1", 1, found)) == deposed

    leads(0, 3)
    assert fed.panel.is_current(fed.speaks("b0/coordinator", "Empty", "PreparingRebalance", 0))


def test_a_group_that_its_log_lost_is_proven_no_more_when_it_is_begun_anew(fed: Fed) -> None:
    """b0 is cut off while it begins the group anew; who leads the log by then begins it once more, and has it."""
    fed.speaks("b0/coordinator", "CompletingRebalance", "Stable", 2)
    fed.by("b0/coordinator", GroupUnloaded(group="g"))
    fed.speaks("b0/coordinator", "Empty", "PreparingRebalance")
    anew = fed.speaks("b1/coordinator", "Empty", "PreparingRebalance")
    assert fed.panel.is_current(anew)

    fed.speaks("b1/coordinator", "CompletingRebalance", "Stable", 1)
    assert not fed.panel.is_current(fed.speaks("b0/coordinator", "Empty", "PreparingRebalance"))


def test_a_group_that_was_given_up_has_no_state_until_somebody_speaks(fed: Fed) -> None:
    """GroupUnloaded; the coordinator's death does the same to who coordinates."""
    fed.speaks("b0/coordinator", "Empty", "PreparingRebalance")
    fed.by("b0/coordinator", GroupUnloaded(group="g"))
    assert (fed.panel.groups["g"].coordinator, fed.panel.groups["g"].loaded) == ("", False)
    fed.by("b1/coordinator", GroupLoaded(group="g", state="Empty", generation=0, members=()))
    fed.by("", HostStarted(host="b1", life=1, kept_disk=True))
    assert fed.panel.groups["g"].loaded
    fed.by("", HostDown(host="b1", life=1, how="power"))
    assert fed.panel.groups["g"].coordinator == ""


def test_the_store_says_who_is_to_lead_and_the_broker_that_it_does(fed: Fed) -> None:
    """A partition is led from office taken until deposed, down or still."""

    def written(leader: int, epoch: int) -> NodeWritten:
        data = state_data(PartitionState(leader, epoch, (0, 1), 1))
        return NodeWritten(what="set", path=state_path("t", 0), data=data, version=0, zxid=1, client="")

    def leads(epoch: int) -> BecameLeader:
        return BecameLeader(topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=0, high_watermark=0)

    panel = fed.by("zk", written(0, 0))
    assert (panel.written, panel.state_before, panel.leaders) == (T0, None, {})
    fed.by("b0", leads(0))
    assert (panel.leaders, panel.led, panel.roles) == ({T0: "b0"}, [T0], {("b0", T0): (0, True)})
    fed.by("zk", written(1, 1))
    assert (panel.leaders, panel.led) == ({}, [T0])
    assert panel.state_before is not None and panel.state_before.leader == 0
    fed.by("b0", leads(0))
    assert panel.leaders == {}, "it learns late of an office that it has lost"
