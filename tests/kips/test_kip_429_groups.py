"""KIP-429 in whole clusters: what each protocol costs, the upgrade paths, and what goes wrong on them."""

from typing import Any

import attrs
import pytest

from kemu.emulator.plan.actions import AddMembers, CloseHost, GrowTopic, RemoveMembers, RollingUpgrade
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.assign.base import Assignment
from kemu.protocol.messages.versions import KAFKA_2_4, KAFKA_3_4
from kemu.protocol.profiles import PROFILES
from kemu.protocol.rebalancing.kip_429 import PAGE_COOPERATIVE, PAGE_LEADER, segment
from kemu.protocol.rebalancing.rules import Given

S = 1_000_000
COOPERATIVE = {"rebalance.protocol": "cooperative", "metadata.max.age.ms": 5_000}
PROTOCOLS = [("kip-429-v99", "sticky"), ("kafka-2.4", "cooperative-sticky"), ("kafka-3.4", "cooperative-sticky")]
EVENT_US = 30 * S
EAGER = {"rebalance.protocol": "eager"}
PAGE: dict[str, Any] = {"profile": "kip-429-v99", "loop": "bare"}


def small(assignor: str, members: int, partitions: int, *actions: object, **config: Any) -> Scenario:
    """A group whose members all start at once, and actions from second 30 on, 30 s apart; in an exact rhythm."""
    plan: Plan = tuple(At(EVENT_US * (1 + index), action) for index, action in enumerate(actions))  # type: ignore[arg-type]
    return Scenario(
        draws="calm",
        name="small",
        duration_us=EVENT_US * (2 + len(actions)),
        topics={"t": TopicSpec(partitions=partitions, records_per_s=2)},
        groups={
            "g": GroupSpec(topics=("t",), members=members, assignors=(assignor,), config={**COOPERATIVE, **config})
        },
        plan=plan,
    )


def costs(result: RunResult) -> list[tuple[int, int]]:
    """(join phases, partitions moved) of every rebalance after the one that formed the group."""
    assert result.verdict == "holds", result.violations
    return [(row.rounds, row.moved) for row in result.figures.rebalances[1:]]


def down(result: RunResult) -> set[str]:
    """The partitions that were without service for a time."""
    return {name for name, us in result.figures.downtime_us.items() if us > 0}


def upgrade(settings: str, *hosts: str) -> RollingUpgrade:
    return RollingUpgrade(group="g", every_us=20 * S, down_us=5 * S, hosts=hosts, settings=(settings,))


# --- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "assignor"), PROTOCOLS)
def test_a_join_that_moves_something_costs_two_rebalances(profile: str, assignor: str) -> None:
    """The page: "we use consecutive rebalances where the end of the first rebalance will actually be used as the
    synchronization barrier." Only what moves is down, from the revocation to the follow-up.
    """
    result = run(small(assignor, 2, 6, AddMembers(group="g")), seed=3, profile=profile, loop="bare")

    assert costs(result) == [(1, 0), (1, 2)]
    assert len(down(result)) == 2


@pytest.mark.parametrize(("profile", "assignor"), PROTOCOLS)
def test_a_join_that_moves_nothing_costs_one_rebalance(profile: str, assignor: str) -> None:
    """More members than partitions: the newcomer gets nothing, and nobody stops."""
    result = run(small(assignor, 2, 2, AddMembers(group="g")), seed=3, profile=profile, loop="bare")

    assert costs(result) == [(1, 0)]
    assert down(result) == set()


@pytest.mark.parametrize(("profile", "assignor"), PROTOCOLS)
def test_a_leave_costs_one_rebalance(profile: str, assignor: str) -> None:
    """The page: "it maybe revoked in previous rebalance and hence not in any assigned partitions".

    The departed member's partitions have no owner, and are assigned at once.
    """
    result = run(small(assignor, 3, 6, RemoveMembers(group="g")), seed=3, profile=profile, loop="bare")

    assert costs(result) == [(1, 2)]
    assert len(down(result)) == 2


@pytest.mark.parametrize(("profile", "assignor"), PROTOCOLS)
def test_partitions_that_are_added_cost_one_rebalance(profile: str, assignor: str) -> None:
    """The page: "or it is a newly created partition due to add-partitions"."""
    result = run(small(assignor, 2, 2, GrowTopic(topic="t", partitions=4)), seed=3, profile=profile, loop="bare")

    assert costs(result) == [(1, 0)]
    assert down(result) == set()


@pytest.mark.parametrize("interval_ms", [500, 1_000, 3_000])
def test_a_partition_that_moves_waits_for_a_heartbeat(interval_ms: int) -> None:
    """The member that revoked asks for the follow-up at once; the next owner hears of it with its next heartbeat.

    Kafka's consumers learn of a rebalance by nothing else (AbstractCoordinator), so this is what cooperative transfers
    cost: all heartbeats began with the answers to one SyncGroup, the wait is a whole ``heartbeat.interval.ms``.
    """
    # A leader whose metadata is too old waits for newer, behind its fetch: not here.
    config = {"heartbeat.interval.ms": interval_ms, "metadata.max.age.ms": 300_000}
    scenario = small("cooperative-sticky", 2, 6, AddMembers(group="g"), **config)
    result = run(scenario, seed=1, profile="kafka-3.4", loop="bare")

    waits_ms = [us / 1_000 for us in result.figures.downtime_us.values() if us > 0]
    assert len(waits_ms) == 2
    assert all(interval_ms <= wait_ms <= interval_ms + 100 for wait_ms in waits_ms)


@pytest.mark.parametrize("profile", ["kip-429-v99", "kafka-2.4", "kafka-3.4"])
@pytest.mark.parametrize("action", [AddMembers(group="g"), RemoveMembers(group="g")])
def test_an_eager_group_pays_one_rebalance_each_and_stops_altogether(profile: str, action: object) -> None:
    """The page: "When rebalance starts, all stream threads would 1. Join group with all currently assigned tasks
    revoked."
    """
    scenario = small("sticky", 3, 6, action, **{"rebalance.protocol": "eager"})

    result = run(scenario, seed=3, profile=profile, loop="bare")

    assert [rounds for rounds, _ in costs(result)] == [1]
    assert len(down(result)) == 6
    assert result.figures.rebalances[1].stop_the_world_us > 0


def test_cooperatively_an_assignor_that_is_not_sticky_costs_as_much_as_eager() -> None:
    """Vector c05: with range nearly all partitions move, are paused in between, and a follow-up rebalance is needed."""
    result = run(small("range", 5, 12, AddMembers(group="g")), seed=3, profile="kip-429-v99", loop="bare")

    (first, second) = costs(result)
    assert first == (1, 0)
    assert second == (1, 9)
    assert len(down(result)) == 9


# --- the upgrade of the page -----------------------------------------------------------------------------------------


def test_the_page_s_second_bounce_stops_the_group_for_nearly_all_of_it() -> None:
    """The page: "those members in V0 will have a small window where no partitions are assigned, and some partitions are
    not assigned to anyone". The window opens with the first cooperative member and closes when the last eager one
    stops: 35 of the bounce's 45 s.
    """
    result = run(small("sticky", 3, 6, upgrade("rebalance.protocol=cooperative"), **EAGER), seed=1, **PAGE)

    assert result.verdict == "holds"
    assert min(result.figures.downtime_us.values()) > 34 * S
    assert sum(row.stop_the_world_us for row in result.figures.rebalances) > 0


def test_safe_fill_avoids_it() -> None:
    """Ours: V0 members get what no V1 member owns. No partition is down longer than a bounced member needs."""
    config = {**EAGER, "emulated.mixed.policy": "safe_fill"}

    result = run(small("sticky", 3, 6, upgrade("rebalance.protocol=cooperative"), **config), seed=1, **PAGE)

    assert result.verdict == "holds"
    assert max(result.figures.downtime_us.values()) < 7 * S


def test_every_cooperative_member_counts_the_rebalances_in_which_it_met_eager_ones() -> None:
    """The page: '"num.incompatible.rebalance": "total number of rebalances that have failed due to incompatible members
    joining group at the same time."' V0 assignments have no error field, so V0 members count nothing.
    """
    result = run(small("sticky", 3, 6, upgrade("rebalance.protocol=cooperative", "c1", "c2"), **EAGER), seed=1, **PAGE)

    counted = result.figures.num_incompatible_rebalance
    assert list(counted) == ["c1", "c2"]
    assert counted["c1"] > counted["c2"] > 0


def test_asking_again_at_once_as_the_page_has_it_is_a_storm() -> None:
    """The page: "or trigger a rebalance immediately (for incompatible members, see below)".

    No other rebalance could change the result, so members rejoin until the last eager member has left. If the
    subscription's bytes change each time (sticky), rebalance follows rebalance. If they do not (range), the coordinator
    answers with the current generation, and the member sends requests as fast as the network allows.
    """

    def bounced(assignor: str, rejoin: str) -> RunResult:
        config = {**EAGER, "emulated.incompatible.rejoin": rejoin}
        return run(small(assignor, 3, 6, upgrade("rebalance.protocol=cooperative"), **config), seed=1, **PAGE)

    assert len(costs(bounced("sticky", "at-once"))) > 1.5 * len(costs(bounced("sticky", "once")))
    assert bounced("range", "at-once").messages > 10 * bounced("range", "once").messages


def test_a_member_left_behind_keeps_the_group_from_owning_anything() -> None:
    """The page: "otherwise the we would fall into the case 3.b) forever where some partitions would not be assigned to
    anyone."
    """
    result = run(load_scenario("one-eager-member-left-behind"), seed=1, loop="bare")

    assert [(each.checker, each.liveness) for each in result.violations] == [("liveness", True)]
    assert "0 of 6 partitions are owned" in result.violations[0].text


def test_a_leader_of_old_byte_code_fails_for_good_when_it_meets_a_cooperative_member() -> None:
    """The page: "if users did not follow the guidance then it may cause consumers to crash badly due to deserialization
    failures." Whoever of the old byte-code leads, until its session has expired; here the one that the map
    lists first.
    """
    notes = Notes("MemberFailed")

    scenario = with_values(load_scenario("upgrade-without-first-bounce"), ["draws.identity=readable"])
    result = run(scenario, seed=1, loop="bare", observers=(notes,))

    assert [(actor, "SCHEMA_ERROR" in fact.why) for actor, fact in notes.seen] == [("c3", True)]
    assert result.verdict == "holds"  # each is bounced itself, later
    assert sum(row.stop_the_world_us for row in result.figures.rebalances) > 19 * S


def test_after_both_bounces_no_member_fails_and_the_group_is_cooperative() -> None:
    """The page: "eventually when everyone's sending the join-group request with V1"; a join then stops only what
    moves.
    """
    scenario = load_scenario("upgrade-by-two-bounces")
    grown = attrs.evolve(
        scenario, duration_us=270 * S, plan=(*scenario.plan, At(240 * S, AddMembers(group="g", count=1)))
    )
    notes = Notes("PartitionsRevoked", "MemberFailed")

    result = run(grown, seed=1, loop="bare", observers=(notes,))

    assert costs(result)[-2:] == [(1, 0), (1, 1)]
    assert len(notes.seen[-1][1].revoked) == 1
    assert not [fact for _, fact in notes.seen if type(fact).__name__ == "MemberFailed"]


def test_a_downgraded_member_gets_nothing_and_what_another_leaves_is_orphaned() -> None:
    """The page: "At this moment everyone else will still get their existing assigned-partitions and the new comer would
    not get anything. However if another member left the group as well, then its partitions would not be assigned to
    anyone".
    """
    downgrade = upgrade("rebalance.protocol=eager", "c3")
    scenario = small("sticky", 3, 6, downgrade, CloseHost(host="c2"))
    scenario = attrs.evolve(scenario, checks=ChecksSpec(stable_within_us=30 * S))
    owners = Owners()

    result = run(scenario, seed=1, loop="bare", profile="kip-429-v99", observers=(owners,))

    assert owners.at(EVENT_US - 1) == {"c1": 2, "c2": 2, "c3": 2}
    assert owners.at(2 * EVENT_US - 1) == {"c1": 3, "c2": 3, "c3": 0}  # its own went to the others while it was down
    assert owners.at(result.virtual_us) == {"c1": 3, "c3": 0}
    assert [each.text for each in result.violations] == [
        "group g did not come to rest within 30 s: 3 of 6 partitions are owned"
    ]


# --- the upgrade as it shipped ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-3.0", "kafka-3.4"])
def test_the_upgrade_by_assignor_list_never_leaves_the_group_without_work(profile: str) -> None:
    """KIP-429 as it shipped: two bounces by the list of assignors, and at no time members that cannot go together."""
    scenario = with_values(load_scenario("upgrade-by-assignor-list"), ["draws=calm"])
    result = run(scenario, seed=1, profile=profile, loop="bare")

    assert result.verdict == "holds"
    assert max(result.figures.downtime_us.values()) < 12 * S
    assert sum(row.stop_the_world_us for row in result.figures.rebalances) < S


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_members_of_all_releases_share_one_group(assignor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-792: "if there are consumers in old bytecode and some in the new bytecode, it's totally fine".

    Subscriptions v0 (before 2.4), v1 (2.4, 3.0), v2 (the KIP's own) and v3 in one group, through a join and a leave.
    Any leader respects claims without a generation, which 3.0 itself did not (the next test).
    """
    kip_792 = attrs.evolve(PROFILES["kafka-3.4"], name="kip-792", versions=KAFKA_3_4.but(subscription=2))
    monkeypatch.setitem(PROFILES, "kip-792", kip_792)  # type: ignore[arg-type]
    oldest = attrs.evolve(PROFILES["kafka-2.4"], name="before-2.4", versions=KAFKA_2_4.but(subscription=0))
    monkeypatch.setitem(PROFILES, "before-2.4", oldest)  # type: ignore[arg-type]
    heeding = attrs.evolve(PROFILES["kafka-3.0"], name="heeding", assignors=PROFILES["kafka-3.4"].assignors)
    monkeypatch.setitem(PROFILES, "heeding", heeding)  # type: ignore[arg-type]
    releases = {
        "c1": MemberSpec(profile="before-2.4" if assignor == "sticky" else "kafka-3.4"),
        "c2": MemberSpec(profile="kafka-2.4"),
        "c3": MemberSpec(profile="heeding"),
        "c4": MemberSpec(profile="kip-792"),
    }
    scenario = small(assignor, 5, 10, AddMembers(group="g"), RemoveMembers(group="g", count=2))
    group = attrs.evolve(scenario.groups["g"], overrides=releases)

    result = run(attrs.evolve(scenario, groups={"g": group}), seed=1, loop="bare")

    assert result.verdict == "holds"
    assert len(result.figures.rebalances) >= 3


def test_a_leader_of_3_0_gives_away_what_a_member_of_2_4_still_has() -> None:
    """3.0.2, AbstractStickyAssignor.allSubscriptionsEqual: only claims of the newest generation count, and 2.4 tells
    none (KAFKA-14639, mended in 3.4.1).
    """
    scenario = small("cooperative-sticky", 5, 10, AddMembers(group="g"), RemoveMembers(group="g", count=2))
    verdicts = {}
    for release in ("kafka-3.0", "kafka-3.4"):
        overrides = {"c2": MemberSpec(profile="kafka-2.4"), "c3": MemberSpec(profile=release)}
        group = attrs.evolve(scenario.groups["g"], overrides=overrides)
        verdicts[release] = run(attrs.evolve(scenario, groups={"g": group}), seed=1, loop="bare").verdict

    assert verdicts == {"kafka-3.0": "violated", "kafka-3.4": "holds"}


def test_a_custom_assignor_without_generations_believes_a_stale_claim() -> None:
    """KIP-792: "Only appending ownedPartitions data without generation info ... It'll confuse the assignor"."""
    result = run(load_scenario("custom-assignor-without-generation"), seed=1, loop="bare")

    assert {each.checker for each in result.violations} == {"cooperative"}
    assert result.figures.reprocessed > 0


def test_with_generations_the_same_assignor_knows_better() -> None:
    """KIP-792: "they can adopt the ownedPartitions and generation info together to check if it is a stale one"."""
    result = run(load_scenario("custom-assignor-with-generation"), seed=1, loop="bare")

    assert result.violations == ()


# --- checks ----------------------------------------------------------------------------------------------------------


def test_a_leader_that_drops_a_partition_is_refused_by_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's superset check, end to end: the member fails, and a checker says why."""

    def forgetting(assignment: Assignment, told: Any) -> dict[str, Given]:
        return {one: attrs.evolve(given, revoked=()) for one, given in segment(assignment, told).items()}

    rules = attrs.evolve(PAGE_COOPERATIVE, leading=attrs.evolve(PAGE_LEADER, segment=forgetting))
    wrong = attrs.evolve(PROFILES["kip-429-v99"], name="wrong", rules_of=lambda config, assignors: rules)
    monkeypatch.setitem(PROFILES, "wrong", wrong)  # type: ignore[arg-type]

    result = run(small("sticky", 2, 6, AddMembers(group="g")), seed=1, profile="wrong", loop="bare")

    assert result.verdict == "violated"
    assert "PROTOCOL_VIOLATION: neither assigned nor revoked" in result.violations[0].text
    assert result.violations[0].checker == "cooperative"


def test_an_upgrade_is_repeated_from_its_trace(tmp_path: Any) -> None:
    """Members are built from what they were told to become; a trace holds that."""
    trace = tmp_path / "upgrade.kemu"
    scenario = with_values(load_scenario("upgrade-by-two-bounces"), ["rate=1/s"])

    result = run(scenario, seed=1, loop="bare", trace=trace)
    replayed = replay(read_trace(trace))

    assert replayed.difference is None
    assert replayed.steps == result.steps


class Notes:
    """Keeps (actor, fact) of these kinds."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds
        self.seen: list[tuple[str, Any]] = []

    def wants(self, kind: type) -> bool:
        return kind.__name__ in self.kinds

    def see(self, seen: Any) -> None:
        if type(seen.fact).__name__ in self.kinds:
            self.seen.append((seen.actor, seen.fact))


class Owners(Notes):
    """How much every member owned, and when."""

    def __init__(self) -> None:
        super().__init__("PartitionsAssigned", "PartitionsRevoked", "PartitionsLost", "HostDown", "HostStarted")
        self.rows: list[tuple[int, str, int | None]] = []

    def see(self, seen: Any) -> None:
        name = type(seen.fact).__name__
        if name == "HostDown":
            self.rows.append((seen.at_us, seen.fact.host, None))
        elif name in self.kinds and seen.actor:
            self.rows.append((seen.at_us, seen.actor, len(getattr(seen.fact, "owned", ()))))

    def at(self, at_us: int) -> dict[str, int]:
        last = {actor: count for us, actor, count in self.rows if us <= at_us}
        return {actor: count for actor, count in sorted(last.items()) if count is not None}
