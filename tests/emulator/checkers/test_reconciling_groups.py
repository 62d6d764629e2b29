"""A group of the consumer protocol reaches its target within three heartbeats and the time for revocations."""

import pytest

from kemu.actors.machine import Received
from kemu.emulator.checkers.group_progress import MARGIN_US, GroupDuties
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.facts import BrokerReconfigured, FaultApplied, FaultEnded, HostStarted, Seen
from kemu.emulator.judging import judge
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.watching.group_times import GroupTimes
from kemu.emulator.watching.settings import Settings
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.consumer_groups import MemberReconciled
from tests.emulator.checkers.story import COORDINATOR, GROUP, SECOND, Story, partitions

TIMES = GroupTimes(
    session_us=10 * SECOND, rebalance_us=60 * SECOND, request_us=5 * SECOND, heartbeat_us=5 * SECOND, target_us=SECOND
)
COMPUTED_S, RECONCILED_S, REVOKED_S = 5 + 1 + 5, 2 * 5 + 5, 2 * 5 + MARGIN_US // SECOND + 5
LOOK_S = 6


class Told(Story):
    """c1 and c2 are members of a Stable group of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__("c1", "c2")
        for member in ("c1", "c2"):
            self.by(member, notes.CoordinatorKnown(group=GROUP, host=COORDINATOR, why="found"))
            request = ConsumerGroupHeartbeat(group=GROUP, member_id=self.ids[member], member_epoch=0)
            self.by(COORDINATOR, Received(peer=member, connection=1, request_id=1, version=1, message=request))
        self.add("c1", "c2")
        self.become("Stable", 2)
        for member in ("c1", "c2"):
            self.became(member, "STABLE")

    def reconciles(self, member: str, state: str, revoking: str = "") -> None:
        reconciled = MemberReconciled(
            group=GROUP,
            member_id=self.ids[member],
            epoch=3,
            state=state,
            assigned=(),
            revoking=partitions(revoking),
        )
        self.by(COORDINATOR, reconciled)

    def joins(self, member: str) -> None:
        """The member joins with the classic protocol."""
        request = JoinGroup(group=GROUP, session_timeout_ms=1, protocol_type="consumer", protocols=())
        joins = evolve(request, member_id=self.ids[member])
        self.by(COORDINATOR, Received(peer=member, connection=1, request_id=2, version=9, message=joins))

    def found_after(self, seconds: float, *, follows_target: bool = False) -> list[str]:
        """The kinds of violations after this time."""
        for _ in range(int(seconds)):
            self.wait(1)
            self.by("p1", notes.RecordsAcknowledged(topic="t", partition=0, base_offset=0, count=0))
        checkers = [
            GroupDuties({GROUP: TIMES}, follows_target=lambda coordinator: follows_target),
            Liveness(bound_us=SECOND, follows_target=lambda coordinator: follows_target),
        ]
        return [each.kind for each in judge(self.facts, ended_us=self.at_us, checkers=checkers).violations]


@pytest.fixture
def story() -> Told:
    return Told()


def test_a_target_that_no_heartbeat_computes_is_a_violation(story: Told) -> None:
    story.become("Assigning", 3)

    assert story.found_after(COMPUTED_S - LOOK_S) == []
    assert story.found_after(2 * LOOK_S) == ["not-reconciled"]


def test_a_group_that_no_heartbeat_makes_stable_is_a_violation(story: Told) -> None:
    story.become("Assigning", 3)
    story.become("Reconciling", 3)

    assert story.found_after(RECONCILED_S - LOOK_S) == []
    assert story.found_after(2 * LOOK_S) == ["not-reconciled"]


def test_the_time_of_a_revocation_counts_for_the_member_that_revokes(story: Told) -> None:
    story.become("Reconciling", 3)
    story.reconciles("c1", "UNREVOKED_PARTITIONS", "0")
    assert story.found_after(REVOKED_S - LOOK_S) == []

    story.reconciles("c1", "STABLE")
    assert story.found_after(RECONCILED_S - LOOK_S) == []
    assert story.found_after(2 * LOOK_S) == ["not-reconciled"]


def test_a_member_that_never_gives_up_its_partitions_is_a_violation(story: Told) -> None:
    story.become("Reconciling", 3)
    story.reconciles("c1", "UNREVOKED_PARTITIONS", "0")

    assert story.found_after(REVOKED_S + LOOK_S) == ["not-revoked"]


def test_after_a_topic_was_deleted_a_commit_may_hold_up_a_revocation_until_the_rebalance_timeout(story: Told) -> None:
    """AbstractMembershipManager.maybeReconcile 4.0 to 4.3 retries the commit until that time."""
    story.world(FaultApplied(index=1, kind="delete-topic", text="", links=(), lasts=False))
    story.become("Reconciling", 3)
    story.reconciles("c1", "UNREVOKED_PARTITIONS", "0")

    assert story.found_after(60) == []
    assert story.found_after(2 * LOOK_S) == ["not-revoked"]


@pytest.mark.parametrize(
    ("classic", "state", "follows_target", "kinds"),
    [
        ("c1 c2", "Assigning", True, ["unheard-epoch"]),
        ("c1 c2", "Assigning", False, ["not-at-rest", "not-reconciled"]),
        ("c1", "Assigning", True, ["not-at-rest", "not-reconciled"]),
        ("c1 c2", "Reconciling", True, ["not-at-rest", "not-reconciled"]),
    ],
)
def test_since_4_3_no_heartbeat_tells_classic_members_of_an_epoch_without_a_target(
    story: Told, classic: str, state: str, follows_target: bool, kinds: list[str]
) -> None:
    """GroupMetadataManager.classicGroupHeartbeatToConsumerGroup 4.3 (kafka-4.3 operated, seed 5005)."""
    for member in classic.split():
        story.joins(member)
    story.become(state, 3)
    story.heal()

    assert story.found_after(200, follows_target=follows_target) == kinds


@pytest.mark.parametrize("host", ["c2", "b0"])
def test_a_group_has_its_time_after_a_fault_on_a_member_or_the_coordinator(story: Told, host: str) -> None:
    story.world(FaultApplied(index=1, kind="slow", text="", links=((host, ""),), lasts=True))
    story.become("Reconciling", 3)
    assert story.found_after(RECONCILED_S + LOOK_S) == []

    story.world(FaultEnded(index=1, kind="slow"))
    assert story.found_after(MARGIN_US // SECOND + RECONCILED_S - LOOK_S) == []
    assert story.found_after(2 * LOOK_S) == ["not-reconciled"]


@pytest.mark.parametrize("state", ["FENCED", "JOINING", "FAILED"])
def test_a_member_outside_the_group_sends_no_heartbeats(story: Told, state: str) -> None:
    """Its session ends instead (``member-kept``)."""
    story.become("Reconciling", 3)
    story.became("c2", state)

    assert story.found_after(3 * RECONCILED_S) == []


def test_the_time_begins_when_a_member_that_was_down_is_removed(story: Told) -> None:
    """Its partitions wait for the end of its session; the group is Reconciling all the while."""
    story.become("Reconciling", 3)
    story.down("c2")
    assert story.found_after(3 * RECONCILED_S) == []

    story.remove(story.ids["c2"])
    assert story.found_after(RECONCILED_S - LOOK_S) == []
    assert story.found_after(2 * LOOK_S) == ["not-reconciled"]


def test_a_classic_member_has_the_time_to_rejoin(story: Told) -> None:
    story.remove(story.ids["c2"])
    story.ids["c2"] = "classic"
    story.add("c2")
    story.became("c2", "STABLE")
    story.become("Reconciling", 3)

    assert story.found_after(60) == []
    assert story.found_after(RECONCILED_S + 10 + LOOK_S) == ["not-reconciled"]


@pytest.mark.parametrize(("profile", "follows"), [("kafka-4.2", False), ("kafka-4.3", True)])
def test_only_coordinators_since_4_3_compare_classic_members_with_the_target(profile: str, follows: bool) -> None:
    """The release is that of the coordinator's broker, which may be another one than the run's."""
    scenario = load_scenario("consumer-protocol-steady")
    assert Settings(scenario, profile).classic_members_follow_target(COORDINATOR) is follows

    upgraded = Settings(scenario, "kafka-4.2")
    changed = BrokerReconfigured(host="b0", profile=profile, protocol="")
    started = HostStarted(host="b0", life=2, kept_disk=True)
    for fact in (changed, started):
        upgraded.on[type(fact)](Seen(0, 0, "", 0, fact), fact)
    assert upgraded.classic_members_follow_target(COORDINATOR) is follows


@pytest.mark.parametrize(("profile", "seconds"), [("kafka-4.2", 0), ("kafka-4.3", 1)])
def test_only_since_4_3_a_target_may_wait_for_the_assignment_interval(profile: str, seconds: int) -> None:
    settings = Settings(load_scenario("consumer-protocol-steady"), profile)

    assert settings.times["g"].target_us == seconds * SECOND
