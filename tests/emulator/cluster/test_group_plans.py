"""What befalls groups and their brokers, in whole clusters, each once: the plan, and what Kafka makes of it."""

from typing import Any

import pytest

from kemu.emulator.facts import HostClosed, HostDown
from kemu.emulator.plan.actions import (
    AddMembers,
    CloseHost,
    Crash,
    GrowTopic,
    LoseDiskTail,
    RemoveMembers,
    StartHost,
)
from kemu.emulator.plan.entries import At, Entry, Noted, When
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import (
    TRUNCATED,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberFailed,
    PartitionsAssigned,
    PositionSet,
    Processed,
    RequestRefused,
)
from kemu.protocol.notes.replication import BecameController, IsrChanged, LeaderElectedForPartition
from tests.emulator.engine.toys import Watcher

S = 1_000_000


class Played:
    """A run of a plan and its facts."""

    def __init__(self, scenario: Scenario, *, profile: str | None = None) -> None:
        self.watcher = Watcher()
        self.result: RunResult = run(scenario, seed=1, profile=profile, loop="bare", observers=(self.watcher,))

    def seen(self, kind: type) -> list[Any]:
        return [seen.fact for seen in self.watcher.facts if type(seen.fact) is kind]

    def times_s(self, kind: type) -> list[float]:
        return [seen.at_us / S for seen in self.watcher.facts if type(seen.fact) is kind]

    def held(self) -> "Played":
        assert self.result.verdict == "holds", (self.result.broke, self.result.violations[:3])
        return self


def played(
    *plan: Entry,
    profile: str = "kafka-3.4",
    members: int = 2,
    static: bool = False,
    duration_s: int = 60,
    racks: tuple[str, ...] = (),
    brokers: int = 3,
    partitions: int = 4,
    assignors: tuple[str, ...] = ("range",),
    config: dict[str, Any] | None = None,
    broker_config: dict[str, Any] | None = None,
    overrides: dict[str, MemberSpec] | None = None,
    draws: str = "calm",
) -> Played:
    """A small cluster whose logs are not replicated, and one group."""
    scenario = Scenario(
        draws=draws,
        name="plans",
        duration_us=duration_s * S,
        brokers=BrokersSpec(
            count=brokers, racks=racks, config={"offsets.topic.num.partitions": 3, **(broker_config or {})}
        ),
        topics={"t": TopicSpec(partitions=partitions, records_per_s=4)},
        groups={
            "g": GroupSpec(
                topics=("t",),
                members=members,
                static=static,
                racks=racks,
                assignors=assignors,
                config=config or {},
                overrides=overrides or {},
            )
        },
        plan=plan,
    )
    return Played(scenario, profile=profile)


@pytest.mark.parametrize(("profile", "generations"), [("kafka-3.0", 1), ("kafka-3.4", 2)])
def test_a_static_leader_that_restarted_sees_its_topic_grow_since_3_2(profile: str, generations: int) -> None:
    """KIP-814, KAFKA-13435: JoinGroup v9 tells the leader that it leads and is to assign nothing; before, it was told
    that another one leads, so that nobody watched the metadata any more.
    """
    restart = (At(15 * S, CloseHost(host="leader of g")), At(18 * S, StartHost(host="c1")))
    run_of = played(*restart, At(30 * S, GrowTopic(topic="t", partitions=6)), profile=profile, members=1, static=True)

    assert len(run_of.seen(JoinPhaseCompleted)) == generations
    assigned = {at for fact in run_of.seen(PartitionsAssigned) for at in fact.added}
    assert len(assigned) == (6 if generations == 2 else 4)


def test_one_more_than_group_max_size_fails_and_disturbs_nobody() -> None:
    """KIP-389: GROUP_MAX_SIZE_REACHED is fatal to who asks; a full Stable group goes on."""
    run_of = played(At(20 * S, AddMembers(group="g", count=1)), broker_config={"group.max.size": 2})

    (failed,) = run_of.seen(MemberFailed)
    assert failed.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(run_of.seen(JoinPhaseCompleted)) == 1


def test_a_second_removal_takes_another_member_while_the_first_still_closes() -> None:
    """A closing member waits behind its JoinGroup for up to 30 s, because a broker answers a connection in turn."""
    removals = [At(at_us, RemoveMembers(group="g", count=1)) for at_us in (20 * S, 20 * S + 1)]
    run_of = played(*removals, members=3)

    assert [fact.host for fact in run_of.seen(HostDown)] == ["c3", "c2"]


def test_a_close_that_is_asked_for_twice_takes_its_time_since_the_first_request() -> None:
    """Here the member waits for its coordinator, which is down."""
    closes = [At(at_us, CloseHost(host="c2")) for at_us in (20 * S, 24 * S)]
    run_of = played(At(19 * S, Crash(host="coordinator of g")), *closes, draws="life")

    (closed,), (closed_s,) = run_of.seen(HostClosed), run_of.times_s(HostClosed)
    assert closed_s > 24, "the close lasts until the second request"
    assert closed.took_us == round(closed_s * S) - 20 * S


def test_an_id_whose_owner_dies_before_it_joins_disturbs_nobody_and_is_forgotten() -> None:
    """KIP-394: an id that was handed out is no member: no rebalance, neither when it is given nor when it expires."""
    handed_out = Noted(note="RequestRefused", nth=3, fields=(("error", "MEMBER_ID_REQUIRED"),))
    run_of = played(At(20 * S, AddMembers(group="g", count=1)), When(handed_out, Crash(host="c3")), duration_s=90)

    refused = [fact for fact in run_of.seen(RequestRefused) if fact.error is ErrorCode.MEMBER_ID_REQUIRED]
    assert len(refused) == 3
    assert len(run_of.seen(JoinPhaseCompleted)) == 1


@pytest.mark.parametrize(("minutes", "expires"), [(1, True), (3, False)])
def test_offsets_of_a_group_that_was_empty_for_too_long_are_gone_when_it_is_back(minutes: int, expires: bool) -> None:
    """KIP-211: offsets.retention.minutes count from the moment the group became empty."""
    back = [At(130 * S, StartHost(host=f"c{number}")) for number in (1, 2)]
    run_of = played(
        At(20 * S, RemoveMembers(group="g", count=2)),
        *back,
        duration_s=160,
        config={"auto.offset.reset": "earliest"},
        broker_config={
            "offsets.retention.minutes": minutes,
            "offsets.retention.check.interval.ms": 10_000,
        },
    )

    again = [seen.fact for seen in run_of.watcher.facts if type(seen.fact) is PositionSet and seen.at_us > 130 * S]
    assert {(fact.why, fact.offset > 0) for fact in again} == {("reset", False) if expires else ("committed", True)}


def test_a_coordinator_that_loads_a_log_without_its_end_knows_an_older_group_and_gets_over_it() -> None:
    """GroupMetadataManager.loadGroupsAndOffsets (3.4.1): what is not in the log was not; members learn and rejoin."""
    run_of = played(
        At(20 * S, AddMembers(group="g", count=1)),
        At(28 * S, LoseDiskTail(host="b0", records=1, for_us=3 * S)),
        brokers=1,
        config={"enable.auto.commit": False},
    ).held()

    (loaded,) = [fact for fact in run_of.seen(GroupLoaded) if fact.group == "g"]
    assert loaded.generation < max(fact.generation for fact in run_of.seen(JoinPhaseCompleted)[:-1])
    assert len(run_of.seen(JoinPhaseCompleted)[-1].members) == 3


@pytest.mark.parametrize(("profile", "own"), [("kafka-3.4", False), ("kafka-3.7", True)])
def test_range_gives_members_partitions_of_their_own_rack_since_3_5(profile: str, own: bool) -> None:
    """KIP-881."""
    run_of = played(profile=profile, brokers=2, racks=("r1", "r2")).held()

    assert sorted(tuple(number for _, number in fact.added) for fact in run_of.seen(PartitionsAssigned)) == (
        [(0, 2), (1, 3)] if own else [(0, 1), (2, 3)]
    )


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_clients_of_2_4_and_3_9_share_a_group_whoever_leads(assignor: str) -> None:
    """Subscriptions v1 and v3 in one group, first led by the old client, then by the new one, then by either."""
    run_of = played(
        At(20 * S, AddMembers(group="g", count=1)),
        At(30 * S, CloseHost(host="leader of g")),
        At(40 * S, CloseHost(host="leader of g")),
        profile="kafka-3.9",
        members=3,
        partitions=8,
        assignors=(assignor,),
        overrides={"c1": MemberSpec(profile="kafka-2.4"), "c3": MemberSpec(profile="kafka-2.4")},
    ).held()

    leaders = [fact.leader.split("-")[0] for fact in run_of.seen(JoinPhaseCompleted)]
    assert {leader in ("c1", "c3") for leader in leaders} == {True, False}
    assert len(run_of.seen(JoinPhaseCompleted)[-1].members) == 2


def test_a_reader_that_had_read_further_goes_back_to_where_the_unclean_leaders_log_ends() -> None:
    """KIP-320, SubscriptionState.maybeCompleteValidation (3.4.1): the position goes back, nothing is passed over."""
    run_of = Played(load_scenario("unclean-election")).held()

    read: dict[tuple[str, int], int] = {}
    went_back = []
    for fact in (seen.fact for seen in run_of.watcher.facts):
        if isinstance(fact, Processed):
            read[fact.topic, fact.partition] = max(read.get((fact.topic, fact.partition), 0), fact.last + 1)
        elif isinstance(fact, PositionSet) and fact.why == TRUNCATED:
            went_back.append(read[fact.topic, fact.partition] - fact.offset)
    assert went_back
    assert all(records > 0 for records in went_back)
    assert run_of.result.figures.expected_losses > 0


@pytest.mark.parametrize(("path", "shrinks"), [("store", True), ("controller", False)])
def test_a_leader_cut_off_from_the_controller_keeps_its_isr_since_2_7(path: str, shrinks: bool) -> None:
    """KIP-497: AlterIsr goes through the controller; to 2.6 leaders wrote to ZooKeeper themselves. While the split
    lasts (30 to 55 s) no follower on the controller's host fetches from other leaders.
    """
    scenario = with_values(load_scenario("controller-split"), [f"brokers.replication.isr_path={path}", "draws=calm"])
    run_of = Played(scenario).held()

    (controller, *_) = run_of.seen(BecameController)
    shrunk = [
        seen.fact
        for seen in run_of.watcher.facts
        if type(seen.fact) is IsrChanged and seen.fact.why == "shrink" and 30 * S < seen.at_us < 55 * S
    ]
    assert bool([fact for fact in shrunk if fact.leader != controller.broker_id]) is shrinks


def test_preferred_leaders_lead_again_only_when_operators_ask() -> None:
    """KafkaController.onReplicaElection (2.8.2): after a broker is back; by itself only every five minutes."""
    run_of = Played(load_scenario("preferred-leaders-return")).held()

    at_s = [
        seen.at_us / S
        for seen in run_of.watcher.facts
        if type(seen.fact) is LeaderElectedForPartition and seen.fact.strategy == "preferred"
    ]
    assert at_s
    assert 60 <= min(at_s) <= max(at_s) < 62
