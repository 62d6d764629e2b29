"""The swarm: everything is drawn from the seed, half of the fault families are off, and what is drawn is legal."""

from collections import Counter
from functools import cache
from pathlib import Path

import attrs
import pytest

import kemu
from kemu.emulator.chance import Seeded
from kemu.emulator.exploring.client_operations import CLIENT_OPERATIONS, STREAMS_GROUP
from kemu.emulator.exploring.operations import LONG_CHANGES, OPERATIONS, forgets_offsets, operation_families
from kemu.emulator.exploring.swarm import (
    BATCHES_MS,
    ORDERS,
    SwarmCase,
    drawn_plan,
    drawn_scenario,
    families_of,
    fault_families,
    swarm_case,
)
from kemu.emulator.plan.action import kind_of
from kemu.emulator.plan.actions import (
    ChangeSubscription,
    ConfigsAlteration,
    CreateTopic,
    DeleteTopic,
    Isolate,
    LateMessage,
    LinkPriorities,
    MembersExpulsion,
    OffsetsReset,
    PartitionsReassignment,
    RollingUpgrade,
    SetRateOf,
    StartHost,
    TieOrder,
)
from kemu.emulator.plan.entries import At
from kemu.emulator.scenario.away import WAYS
from kemu.emulator.scenario.expectations import Expectation
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.protocol.profiles import PROFILES

SEEDS = range(1, 121)
SEEDS_OF_BEFORE = Path(__file__).parents[2] / "data" / "swarm"
"""Scenarios that seeds once drew."""


@cache
def cases() -> tuple[SwarmCase, ...]:
    """The cases of ``SEEDS``."""
    return tuple(map(swarm_case, SEEDS))


@cache
def operated_cases() -> tuple[SwarmCase, ...]:
    """The cases of ``SEEDS`` in clusters that are operated."""
    return tuple(swarm_case(seed, operated=True) for seed in SEEDS)


def test_a_seed_draws_the_same_each_time_and_another_one_something_else() -> None:
    """No chance but the seed's."""
    assert swarm_case(7) == swarm_case(7)
    assert len({str(case.scenario.to_dict()) for case in cases()}) == len(cases())


def test_families_that_are_off_are_not_in_the_plan() -> None:
    """Groce et al.: what is on in each run is a random subset."""
    for case in cases():
        faults = case.scenario.plan[: len(case.scenario.plan) - len(case.orders)]
        assert {kind_of(entry.action) for entry in faults} <= set(case.on)
        assert sorted((*case.on, *case.off)) == sorted((*fault_families(case.scenario), ORDERS))
        assert bool(case.orders) is (ORDERS in case.on)


def test_about_half_of_the_families_are_off() -> None:
    """Each as likely as not, over all seeds and for each family."""
    on, off = Counter[str](), Counter[str]()
    for case in cases():
        on.update(case.on)
        off.update(case.off)

    assert 0.45 < on.total() / (on.total() + off.total()) < 0.55
    for kind in on | off:
        assert 0.25 < on[kind] / (on[kind] + off[kind]) < 0.75, kind


def test_every_family_is_drawn_by_some_seed_and_everything_a_cluster_can_be() -> None:
    """Nothing that can be drawn never is."""
    drawn = {kind_of(entry.action) for case in cases() for entry in case.scenario.plan}
    scenarios = [case.scenario for case in cases()]

    families = {kind for scenario in scenarios for kind in fault_families(scenario)}
    assert drawn == {*families, "ties", "priorities", "delay"}
    assert {len(case.scenario.plan) - len(case.orders) for case in cases()} >= {0, 1, 2, 3, 4, 5, 6}
    assert {str(scenario.producers) for scenario in scenarios} == {
        str((("emulated_batch_interval_ms", batch_ms),)) for batch_ms in BATCHES_MS
    }
    assert {scenario.brokers.replication is None for scenario in scenarios} == {True, False}
    assert {scenario.draws.name for scenario in scenarios} == {"life", "calm"}
    groups = [group for scenario in scenarios for group in scenario.groups.values()]
    assert {group.assignors[0] for group in groups} == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert {group.static for group in groups} == {True, False}
    assert {group.members for group in groups} == {1, 2, 3, 4}


def test_what_is_drawn_is_written_down_whole() -> None:
    """A file of it is the same scenario, seed and plan."""
    for case in cases():
        assert scenario_from_dict(case.scenario.to_dict()) == case.scenario
        assert case.scenario.seed == case.seed


def test_draws_are_told_with_all_that_they_decided() -> None:
    """For people: profile, brokers, topics, groups, families."""
    told = dict(swarm_case(3).drawn())

    assert {"profile", "duration", "draws", "brokers", "replication", "faults on", "faults off"} <= told.keys()
    assert "session.timeout.ms=" in next(text for what, text in told.items() if what.startswith("group "))


def test_of_a_scenario_only_faults_are_drawn() -> None:
    """Its own plan stays, before them in the list."""
    own = attrs.evolve(kemu.load("rolling-restart-static"), seed=5)
    case = swarm_case(5, own)

    assert attrs.evolve(case.scenario, plan=own.plan, expect=own.expect) == own
    assert case.scenario.plan[: len(own.plan)] == own.plan


@pytest.mark.parametrize("duration", ["1us", "1s", "1500ms", "2s"])
def test_the_faults_of_a_short_scenario_begin_before_its_end(duration: str) -> None:
    """A line of a plan after the end of the run is refused."""
    short: dict[str, object] = {
        "duration": duration,
        "topics": {"t": {"partitions": 1}},
        "groups": {"g": {"topics": ["t"], "members": 1}},
    }
    given = scenario_from_dict(short)

    for seed in SEEDS[:20]:
        assert swarm_case(seed, given).scenario.runs_us == given.runs_us
        assert len(with_random_faults(given, seed, 5).plan) == 5


def test_in_about_half_of_the_seeds_a_core_alone_is_healed() -> None:
    """In every way, with brokers and with members away, and somebody is left of each group and of what replicates."""
    with_core = [case.scenario for case in cases() if case.scenario.checks.away is not None]
    aways = [scenario.checks.away for scenario in with_core if scenario.checks.away is not None]

    assert 0.3 < len(with_core) / len(cases()) < 0.6
    assert {away.how for away in aways} == set(WAYS)
    assert {away.recalled for away in aways} == {True, False}
    assert {host[0] for away in aways for host in away.hosts} == {"b", "c"}
    for scenario, away in zip(with_core, aways, strict=True):
        groups = {group for host, group, _ in scenario.member_names() if host not in away.hosts}
        assert groups == set(scenario.groups)
        assert scenario.stable_within_us >= scenario.timeouts_us + 29_000_000
        if scenario.brokers.replication is not None:
            left = sum(1 for broker in scenario.broker_names() if broker in away.hosts)
            assert left <= scenario.brokers.replication.factor - scenario.brokers.replication.min_isr


def test_a_core_changes_no_other_draw_and_is_told() -> None:
    """It comes from a stream of its own; who says itself what is to come about is healed whole."""
    case = next(case for case in cases() if case.scenario.checks.away is not None)
    whole = swarm_case(case.seed, cores=False)

    assert attrs.evolve(case.scenario, checks=whole.scenario.checks) == whole.scenario
    assert dict(case.drawn())["healed"].startswith("the core ")
    assert dict(whole.drawn())["healed"] == "everything"
    expecting = attrs.evolve(kemu.load("steady-group"), expect=("liveness",))
    assert all(swarm_case(seed, expecting).scenario.checks == expecting.checks for seed in range(8))


def test_in_about_half_of_the_seeds_what_happens_comes_in_another_order() -> None:
    """Ties, priorities of links and of hosts, single messages of members and between brokers; told as all draws are."""
    ordered = [case for case in cases() if case.orders]
    lines = [entry.action for case in ordered for entry in case.orders]
    late = [line for line in lines if isinstance(line, LateMessage)]

    assert 0.35 < len(ordered) / len(cases()) < 0.65
    assert {type(line) for line in lines} == {TieOrder, LinkPriorities, LateMessage}
    assert {line.of for line in lines if isinstance(line, LinkPriorities)} == {"links", "hosts"}
    assert {(line.sender or line.receiver)[0] for line in late} == {"b", "c"}
    assert {line.api.endswith("Reply") for line in late} == {True, False}
    assert all(isinstance(entry, At) and entry.at_us == 0 for case in ordered for entry in case.orders)
    for case in cases():
        assert (dict(case.drawn())["order"] == "the seed's own") is not bool(case.orders)


def test_an_order_changes_no_other_draw() -> None:
    """It comes from a stream of its own, and its lines end the plan."""
    case = next(case for case in cases() if case.orders)
    plain = swarm_case(case.seed, orders=False)

    assert (*plain.scenario.plan, *case.orders) == case.scenario.plan
    assert attrs.evolve(case.scenario, plan=plain.scenario.plan) == plain.scenario
    assert (plain.orders, ORDERS in plain.off) == ((), True)


@pytest.mark.parametrize("line", [TieOrder, LinkPriorities, LateMessage])
def test_a_seed_with_another_order_is_the_same_run_each_time(line: type) -> None:
    """Byte for byte, and not the run that its seed has by itself."""
    case = next(case for case in cases() if case.orders and type(case.orders[0].action) is line)
    one, again = (kemu.run(case.scenario, seed=case.seed) for _ in range(2))

    assert one.digest == again.digest
    assert one.digest != kemu.run(swarm_case(case.seed, orders=False).scenario, seed=case.seed).digest


def test_that_a_cluster_is_operated_changes_no_other_draw() -> None:
    """What people do and set comes from a stream of its own."""
    for case, plain in zip(operated_cases(), cases(), strict=True):
        assert list(case.scenario.topics.items())[: len(plain.scenario.topics)] == list(plain.scenario.topics.items())
        assert list(case.scenario.groups)[: len(plain.scenario.groups)] == list(plain.scenario.groups)
        assert (case.on, case.off) == (plain.on, plain.off)
    own = kemu.load("steady-group")
    assert swarm_case(2, own, operated=True) == swarm_case(2, own)


def test_what_people_do_and_set_is_drawn_in_every_form() -> None:
    """Each family in about half of these seeds; all of it around the seed's moments, and written down whole."""
    families = {name for case in operated_cases() for name in operation_families(case.scenario)}
    on = Counter(name for case in operated_cases() for name in case.operations if name not in CLIENT_OPERATIONS)
    brokers = [case.scenario.brokers for case in operated_cases()]

    assert families == set(OPERATIONS) == set(on) - set(LONG_CHANGES)
    assert all(scenario_from_dict(case.scenario.to_dict()) == case.scenario for case in operated_cases())
    assert {bool(each.racks) for each in brokers} == {True, False}
    assert {each.replication.unclean for each in brokers if each.replication is not None} == {True, False}
    assert any("offsets_retention_minutes" in dict(each.config) for each in brokers)
    groups = [group for case in operated_cases() for group in case.scenario.groups.values()]
    assert {dict(group.config).get("enable_auto_commit", True) for group in groups} == {True, False}
    for case in operated_cases():
        first = min(case.moments_us) - 3_000_000  # what hangs before partitions move
        times = [each.at_us for each in case.scenario.plan if isinstance(each, At) and each not in case.orders]
        assert all(at_us >= min(first, case.scenario.heal_at_us - 1_000_000) for at_us in times)


def test_what_applications_and_admin_clients_do_is_drawn_in_every_form() -> None:
    """Consumers seek and subscribe; offsets, groups and records are reset or deleted; leaders are elected."""
    kinds = Counter(kind_of(entry.action) for case in operated_cases() for entry in case.scenario.plan)
    resets = [
        entry.action
        for case in operated_cases()
        for entry in case.scenario.plan
        if isinstance(entry.action, OffsetsReset)
    ]

    assert {name for case in operated_cases() for name in case.operations} == {
        *OPERATIONS,
        *CLIENT_OPERATIONS,
        *LONG_CHANGES,
    }
    assert kinds.keys() >= {
        "seek", "reset-offsets", "delete-offsets", "delete-group", "expel-members", "subscribe", "unsubscribe",
        "pause-partitions", "enforce-rebalance", "describe-group", "list-groups", "delete-records", "elect-leaders",
    }  # fmt: skip
    assert {each.to for each in resets} == {"earliest", "latest", "offset", "shift"}


def test_some_operated_clusters_lower_the_limits_of_a_reassignment_while_partitions_move() -> None:
    """KIP-435: a limit, all partitions of a topic move, then a smaller limit."""
    lowered = [case for case in operated_cases() if "lower-limits" in case.operations]

    assert len(lowered) > 3
    for case in lowered:
        limits = [
            int(each.action.value)
            for each in case.scenario.plan
            if isinstance(each.action, ConfigsAlteration) and each.action.key.startswith("reassignment.max.concurrent.")
        ]
        assert case.scenario.brokers.replication is not None
        assert len(limits) == 2 and limits[0] > limits[1] >= 1
        assert any(isinstance(each.action, PartitionsReassignment) for each in case.scenario.plan)


def test_some_operated_clusters_upgrade_a_group_in_two_bounces() -> None:
    """KIP-429: both assignors, then the cooperative one alone, after every member has restarted."""
    upgraded = [case for case in operated_cases() if "two-bounces" in case.operations]

    assert len(upgraded) > 3
    for case in upgraded:
        (at_us, first), (later_us, second) = (
            (each.at_us, each.action)
            for each in case.scenario.plan
            if isinstance(each, At) and isinstance(each.action, RollingUpgrade)
        )
        group = case.scenario.groups[first.group]
        assert first.assignors == ("cooperative-sticky", *group.assignors)
        assert second.assignors == ("cooperative-sticky",)
        assert later_us - at_us > group.members * first.every_us


@pytest.mark.parametrize("name", ["lower-limits", "two-bounces"])
def test_the_first_run_with_a_long_change_holds(name: str) -> None:
    case = next(case for case in operated_cases() if name in case.operations)

    assert kemu.run(case.scenario, seed=case.seed).verdict == "holds"


def test_some_operated_clusters_limit_their_groups_and_some_have_a_streams_group_whose_network_is_cut() -> None:
    """Not both: threads of Streams that are refused stop for good. Without ``operated`` there is neither."""
    limited = [case for case in operated_cases() if "group_max_size" in dict(case.scenario.brokers.config)]
    streams = [case for case in operated_cases() if STREAMS_GROUP in case.scenario.groups]
    instances = {
        (case.seed, host)
        for case in streams
        for host, group, _ in case.scenario.member_names()
        if group == STREAMS_GROUP
    }
    cut_off = [
        case.seed
        for case in streams
        for entry in case.scenario.plan
        if isinstance(entry.action, Isolate) and (case.seed, entry.action.host) in instances
    ]

    fails = Expectation(checker="liveness", kind="member-failed", may=True)
    assert [case for case in operated_cases() if fails in case.scenario.expect] == limited
    assert len(limited) >= 5 and len(streams) >= 15 and cut_off
    assert not {case.seed for case in limited} & {case.seed for case in streams}
    assert all(STREAMS_GROUP not in case.scenario.groups for case in cases())
    assert all(
        case.scenario.checks.away is None
        or not instances & {(case.seed, host) for host in case.scenario.checks.away.hosts}
        for case in streams
    )


def test_where_offsets_are_kept_for_a_minute_alone_groups_have_nothing_to_commit_for_longer() -> None:
    """Topics fall silent, some groups leave as a whole and come back; who commits by itself is not all there is."""
    short = [case.scenario for case in operated_cases() if forgets_offsets(case.scenario)]
    silent = [
        scenario
        for scenario in short
        if any(isinstance(each.action, SetRateOf) and not each.action.records_per_s for each in scenario.plan)
    ]
    by_hand = [dict(group.config).get("emulated_commit_after_poll") for each in short for group in each.groups.values()]

    assert 5 < len(short) < len(operated_cases()) // 4 and all(each.brokers.replication is None for each in short)
    assert len(silent) > len(short) // 2
    assert 3 * by_hand.count(True) > len(by_hand)
    assert all(each.heal_at_us - 60_000_000 > 25_000_000 for each in short)
    back = [each for scenario in short for each in scenario.plan if isinstance(each.action, StartHost)]
    assert any(isinstance(each, At) and each.at_us > 68_000_000 for each in back)


def test_operations_are_told_with_the_other_draws() -> None:
    """Which are on, around which moments, and what brokers are set to."""
    told = dict(operated_cases()[0].drawn())

    assert {"settings", "moments", "operations on"} <= told.keys()
    assert dict(cases()[2].drawn())["operations on"] == "none"


def test_no_families_no_faults() -> None:
    """And without members nothing is drawn that would need one."""
    scenario = drawn_scenario(Seeded(1).stream("x"))
    on, _ = families_of(scenario, Seeded(1).stream("y"))

    assert drawn_plan(scenario, Seeded(1).stream("z"), (), at_most=5) == ()
    assert drawn_plan(attrs.evolve(scenario, groups={}), Seeded(1).stream("z"), on, at_most=5) == ()


@pytest.mark.parametrize("seed", [3, 11])
def test_seeds_hold(seed: int) -> None:
    """A violation here is a bug, of a machine or of a checker; ``kemu swarm`` runs more seeds."""
    case = swarm_case(seed)
    outcome = kemu.run(case.scenario, seed=seed)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-3.9"])
def test_a_member_that_still_has_to_learn_what_a_log_lost_is_waited_for(profile: str) -> None:
    """b2 stays paused with a fetch of c3, b3 is elected uncleanly, and c3 commits what is not there any more.

    After request.timeout.ms c3 asks b3, hears that its offset is not there any more (KIP-320), and goes back.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "learns-what-a-log-lost.toml"), seed=47, profile=profile)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert "unclean-election" in {each.why for each in outcome.losses}
    assert outcome.virtual_us > 91_307_000, "the last fetch that b2 got is 30 s old then"


def test_what_a_leader_lost_that_leads_again_in_its_epoch_is_an_expected_loss() -> None:
    """The controller stands still while b3 loses power and its disk the log's end; b3 is back within its session.

    The next controller finds it alive and leading: no other epoch tells c4, which takes t1-3 over from c5, that what
    c5 worked off is gone and that others stand in its place (PartitionStateMachine.initializePartitionState 3.4.1:
    with a live leader a partition is online).
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "leads-again-in-its-epoch.toml"), seed=47)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    (loss,) = [each for each in outcome.losses if each.why == "read-past"]
    assert (loss.partition, loss.first, loss.last) == ("t1-3", 0, 62)


@pytest.mark.parametrize(
    ("scenario", "seed", "read_past"),
    [
        ("leads-again-with-an-empty-disk", 20087, ("t2-3", 0, 0)),
        ("leads-again-without-what-was-not-flushed", 30137, ("t1-2", 29, 31)),
    ],
)
def test_so_is_what_it_lost_with_its_disk_or_had_not_flushed(
    scenario: str, seed: int, read_past: tuple[str, int, int]
) -> None:
    """b3 leads and is the controller, comes back empty as its session ends, and is there when b2 begins to control.

    And b2, whose session is over: the next controller dies, of an answer that the store did not give, before it elects.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / f"{scenario}.toml"), seed=seed)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    (loss,) = [each for each in outcome.losses if each.why == "read-past"]
    assert (loss.partition, loss.first, loss.last) == read_past


def test_a_follower_that_is_not_told_what_its_leader_lost_keeps_that_and_joins_the_isr() -> None:
    """A leader leads on in its epoch from offset 7 on; a follower waited 30 s for a fetch, and keeps what it has.

    AbstractFetcherThread 2.6: a fetch that fails is tried again from where it was; only an epoch, or an end below its
    own, makes a follower look where its log and its leader's part.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "nobody-tells-a-follower.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert ("t1-3", 7, 9) in [(each.partition, each.first, each.last) for each in outcome.losses]
    assert outcome.virtual_us > 82_000_000, "the follower is in the ISR again then"


def test_a_follower_that_goes_on_behind_what_its_leader_lost_has_not_what_came_there() -> None:
    """b3 comes back empty and leads on in its epoch: p2's batch 52 is its record 0; b2, the next, has another."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "appended-in-the-place-of-the-lost.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert ("t2-1", 0, 51, "lost-disk") in [
        (each.partition, each.first, each.last, each.why) for each in outcome.losses
    ]


def test_a_deposed_leader_that_stays_paused_is_not_asked_for_its_isr() -> None:
    """b0 stands still for good and takes itself for the leader; b2 copies from the next one."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "deposed-leader-stands-still.toml"), seed=20732)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert outcome.virtual_us > 49_000_000, "b2 lacks b0's last record for 30 s then"


def test_a_group_that_is_coordinated_on_both_sides_of_a_split_is_that_of_its_log() -> None:
    """The group's log is lost with all disks; b2 begins it anew for c2 and c3, and all three stay cut off.

    c1 begins it once more where its log is led by then, and is all that is waited for.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "begun-on-both-sides.toml"), seed=48)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert outcome.core is not None and set(outcome.core.away) == {"b2", "c2", "c3"}


def test_a_member_without_a_coordinator_does_not_learn_what_a_log_lost() -> None:
    """b1 stays away with all in-sync replicas of g2's log: c5 never asks b2, which leads t1-1 after losing its tail.

    KafkaConsumer.updateAssignmentMetadataIfNeeded 3.4.1: coordinator.poll comes first, positions are validated then.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "nobody-tells-it.toml"), seed=282)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert outcome.core is not None and "__consumer_offsets-0 can have no leader" in outcome.core.unrecoverable[0]


def test_no_member_of_4_0_hears_that_its_assignment_has_too_few_replicas() -> None:
    """The offsets topic's ISR shrinks below min.insync.replicas while g1's assignment waits for its high watermark.

    CoordinatorPartitionWriter appends with acks=1: SyncGroup is never answered NOT_ENOUGH_REPLICAS_AFTER_APPEND, which
    consumers do not expect; and the high watermark stands until the ISR is whole again (KAFKA-15583).
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "too-few-for-the-assignment.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


@pytest.mark.parametrize(("profile", "stays_degraded"), [("kafka-3.4", 0), ("kafka-3.7", 1), ("kafka-4.0", 1)])
def test_a_group_stands_still_whose_log_has_too_few_in_sync_for_good(profile: str, stays_degraded: int) -> None:
    """The answer to the write that lets b1 into the ISR again is lost: b0 goes on with itself alone, and asks no more.

    Partition 3.4.1 counts the committed ISR (``appendRecordsToLeader``) and gives up for INVALID_UPDATE_VERSION
    (``handleAlterPartitionError``): no assignment of g is written. As seed 55459 of the swarm had it with kafka-3.4.
    Since 3.7 the high watermark stands, too (KAFKA-15583).
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "too-few-while-its-leader-waits.toml"), profile=profile)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert [(each.checker, each.kind) for each in outcome.violations] == [("liveness", "unheard-isr")]
    assert [(each.what, each.why) for each in outcome.unmended] == [
        ("__consumer_offsets-0", "unheard-isr")
    ] * stays_degraded


def test_a_generation_that_was_never_committed_is_loaded_and_lost_again() -> None:
    """b3 loads g1 with what b2 wrote and never committed; b3's power cut takes it away, and generation 1 begins anew.

    GroupMetadataManager.loadGroupsAndOffsets 3.4.1 reads the log to its end, not to the high watermark.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "loaded-and-lost.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_a_group_that_its_log_lost_begins_anew_while_its_coordinator_stands_still() -> None:
    """b0's power cut takes g1's log; b2, which coordinated it, is paused before it hears that b0 leads that log now."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "begun-anew-while-its-coordinator-stands-still.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_a_generation_is_forgotten_where_a_follower_kept_what_its_leader_lost() -> None:
    """b2 loses the groups' log, leads on in its epoch and writes generation 2 where b0 still has generation 1's record.

    b0 is cut to the length of b2's log only (AbstractFetcherThread: out of range), and leads next. So what b2
    wrote there since, which was committed, is lost as well.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "kept-by-a-follower.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert [(each.partition, each.first, each.last) for each in outcome.losses] == [
        ("__consumer_offsets-2", 0, 3),
        ("__consumer_offsets-2", 0, 1),
    ]


def test_records_that_a_leader_deleted_are_not_missed_when_its_disk_loses_the_log() -> None:
    """KIP-107: b0 deletes records 0 to 19 of t2-3, then a power cut takes its log, and the new start with it."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "deleted-and-lost-with-its-disk.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_a_replica_that_lost_records_counts_with_what_its_leader_saw_it_fetch_before() -> None:
    """b3 is back before it is missed; when b2 leaves the ISR, b1 shows what b3 had fetched and has no more."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "back-before-it-is-missed.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_commits_are_read_from_a_connection_that_their_member_has_left() -> None:
    """Commits wait for b3, which is cut off; members time out, come again, and what they had sent before is read late.

    SocketServer.Processor reads on when a muted channel is answered, and does not see that its client is gone.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "read-after-its-client-left.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_a_static_member_is_fenced_for_the_id_that_a_deposed_coordinator_gave_it() -> None:
    """b2 answers c1's join after b0 has loaded the group: b0 has its former id alone, and fences it for good."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "fenced-for-an-id-of-a-deposed-coordinator.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_a_static_member_takes_its_assignment_under_a_third_id_after_the_second_was_lost() -> None:
    """The log loses c1's replacement; c1, which did not run meanwhile, replaces its first id, in one generation."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "an-id-that-was-lost-in-between.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert [(each.partition, each.first, each.last) for each in outcome.losses] == [("__consumer_offsets-0", 4, 5)]


def test_a_partition_that_had_no_leader_yet_is_heard_of_with_the_next_metadata() -> None:
    """c1 is told of t1-0 alone, 30 ms before b1 is seen and t1-1 has a leader: nothing makes it ask for 5 minutes.

    ControllerBrokerRequestBatch.addUpdateMetadataRequestForBrokers 3.4.1 skips partitions without a leader;
    ConsumerCoordinator.MetadataSnapshot has the new count when metadata are metadata.max.age.ms old.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "heard-of-with-the-next-metadata.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert 300_600_000 < outcome.virtual_us < 303_000_000


def test_what_a_deposed_coordinator_does_with_those_that_still_ask_it_is_nobodys() -> None:
    """b2's session is frozen while it is alone in its ISR: b3 leads an older log, b2 goes on with c1 and c2 for 8 s.

    Partition.appendRecordsToLeader 3.4.1 goes by the leader epoch and the ISR that the broker was told.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "committed-to-a-deposed-coordinator.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert ("__consumer_offsets-2", 57) in [(each.partition, each.first) for each in outcome.losses]


def test_what_a_static_member_gave_up_is_nobodys_if_it_comes_back_before_it_was_given_out() -> None:
    """c4's JoinGroup is lost with its coordinator: it comes without its id and owns nothing too much (2.6.1 to 2.6.3).

    AbstractCoordinator.joinGroupIfNeeded 2.6.3 resets its state for a retriable failure; 2.8.1 does not.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "comes-back-before-it-is-given-out.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert [(each.checker, each.kind) for each in outcome.violations] == [("liveness", "forgotten-rebalance")]


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        ("fails-without-its-groups-log", "forgotten-group"),  # two disks that held the groups' log are emptied
        ("upgraded-before-the-former-members-left", "inconsistent-members"),  # sessions of crashed members last
        ("returns-to-a-classic-group", "downgraded-group"),  # the last member of the consumer protocol was paused
        ("crashes-after-an-upgrade", "unreleased-instance"),  # before group.consumer.session.timeout.ms
        ("turned-away-by-a-failed-conversion", "unconverted-group"),  # c2's join phase goes on without c2 (seed 1091)
        ("stable-before-its-records", "forgotten-group"),  # b0's disk loses the first records, too (seed 1092)
        ("asked-without-a-context", "inconsistent-members"),  # an admin asks a controller that found its former node
    ],
)
def test_members_of_4_0_that_fail_for_good_as_kafkas_do(seed: str, kind: str) -> None:
    """``GroupMetadataManager`` (4.0) answers GROUP_ID_NOT_FOUND or INCONSISTENT_GROUP_PROTOCOL, which are fatal."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / f"{seed}.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert {(each.checker, each.kind) for each in outcome.violations} == {("liveness", kind)}


@pytest.mark.parametrize(
    "seed",
    [
        "closes-with-its-former-settings",  # a member rejoins, and only then notices the order to close
        "asks-again-after-the-backoff",  # c1 (seed 61) finds a coordinator that is none, and waits before it asks again
        "closes-without-dropped-partitions",  # c2 (seed 197) closes before it has the positions of a new assignment
        "closes-after-a-fatal-heartbeat",  # c3 (seed 144) ends without an epoch
        "committed-late-after-a-cut",  # c1 (seed 1074) sent commits of 14 and then 0, before it processed up to 17
        "read-again-when-a-replica-is-offline",  # the controller (seed 144) learns the ISR whose answer was lost
    ],
)
def test_failed_seeds_of_4_0_hold(seed: str) -> None:
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / f"{seed}.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


def test_partitions_whose_state_the_controller_wrote_without_an_answer_have_no_leader() -> None:
    """All nine are created at once, and the answer is lost (kip-333, seed 61477).

    PartitionStateMachine.initializeLeaderAndIsrForPartitions 3.9.0: NODEEXISTS is a failed change.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "state-whose-controller-lost-the-answer.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
    assert {(each.checker, each.kind) for each in outcome.violations} == {
        ("duties", "unheard-state"),
        ("liveness", "unheard-state"),
    }


def test_half_of_the_groups_of_a_release_with_the_consumer_protocol_use_it() -> None:
    """KIP-848: other releases never do; a group whose plan needs the classic protocol does not."""
    drawn = [swarm_case(seed, profile="kafka-4.0", operated=seed % 2 == 1).scenario for seed in SEEDS]
    groups = [(scenario, name) for scenario in drawn for name in scenario.groups]
    modern = [(scenario, name) for scenario, name in groups if scenario.groups[name].uses_consumer_protocol]

    assert 0.3 < len(modern) / len(groups) < 0.6
    assert not any(case.scenario.consumer_protocol_groups for case in (*cases(), *operated_cases()))
    for scenario, name in modern:
        group = scenario.groups[name]
        assert not group.assignors and "session_timeout_ms" not in dict(group.config)
    assert any(
        isinstance(entry.action, MembersExpulsion) and entry.action.group == name
        for scenario, name in modern
        for entry in scenario.plan
    )
    assert {dict(scenario.groups[name].config).get("group_remote_assignor") for scenario, name in modern} == {
        None, "uniform", "range",
    }  # fmt: skip
    late = [entry.action.api for scenario in drawn for entry in scenario.plan if isinstance(entry.action, LateMessage)]
    assert any(api.startswith("ConsumerGroupHeartbeat") for api in late)


def test_some_groups_of_such_a_release_migrate_return_or_have_members_of_both_protocols() -> None:
    """KIP-848: a rolling upgrade to the other protocol; a group whose plan needs the classic protocol does not."""
    drawn = [swarm_case(seed, profile="kafka-4.0", operated=seed % 2 == 1).scenario for seed in SEEDS]
    groups = [(scenario, name) for scenario in drawn for name in scenario.groups]
    migrations = {
        (scenario.name, name): [
            entry.action.settings[0].partition("=")[2]
            for entry in scenario.plan
            if isinstance(entry.action, RollingUpgrade) and entry.action.group == name and entry.action.settings
        ]
        for scenario, name in groups
    }
    mixed = [(scenario, name) for scenario, name in groups if scenario.groups[name].overrides]

    assert {tuple(each) for each in migrations.values()} == {
        (), ("consumer",), ("classic",), ("consumer", "classic"), ("classic", "consumer"),
    }  # fmt: skip
    assert 0.1 < len([each for each in migrations.values() if each]) / len(groups) < 0.45
    assert 0.05 < len(mixed) / len(groups) < 0.25
    assert {scenario.groups[name].uses_consumer_protocol for scenario, name in mixed} == {True, False}
    assert all(name in scenario.consumer_protocol_groups for scenario, name in mixed)
    assert not any(scenario.groups[name].overrides for scenario, name in groups if migrations[scenario.name, name])


def test_the_migrations_of_a_seed_are_among_its_draws() -> None:
    """Rolling upgrades of the protocol, and members of another protocol than their group."""
    told = {seed: dict(swarm_case(seed, profile="kafka-4.0").drawn())["migrations"] for seed in (1, 3, 6)}

    assert told[1] == "c1 of g1 has group.protocol=classic; c3 of g2 has group.protocol=consumer"
    assert told[3] == "none"
    assert [each.partition("group.protocol=")[2].partition(";")[0] for each in told[6].split("; at ")] == [
        "classic", "consumer",
    ]  # fmt: skip


def test_some_groups_of_such_a_release_subscribe_to_patterns_and_some_topics_appear_and_disappear() -> None:
    """KIP-848: members of the consumer protocol alone let brokers match a pattern. Other releases draw no pattern."""
    drawn = [swarm_case(seed, profile="kafka-4.0", operated=seed % 2 == 1).scenario for seed in SEEDS]
    groups = [(scenario, group) for scenario in drawn for group in scenario.groups.values()]
    by_members = [group for _, group in groups if group.pattern]
    by_brokers = [group for _, group in groups if group.subscription_pattern]
    changes = [
        each.action for scenario in drawn for each in scenario.plan if isinstance(each.action, ChangeSubscription)
    ]

    assert 0.2 < (len(by_members) + len(by_brokers)) / len(groups) < 0.45 and len(by_brokers) > 5
    assert {group.uses_consumer_protocol for group in by_members} == {True, False}
    assert any(each.subscription_pattern for each in changes) and any(each.pattern for each in changes)
    for scenario in drawn:
        kinds = [kind_of(entry.action) for entry in scenario.plan]
        assert kinds.count("delete-topic") <= kinds.count("create-topic") <= 1
        if "create-topic" in kinds:
            assert any("t10" in group.subscribed_to(["t10"]) for group in scenario.groups.values() if not group.topics)
    assert any(isinstance(entry.action, DeleteTopic) for scenario in drawn for entry in scenario.plan)
    assert not any(group.pattern for case in cases() for group in case.scenario.groups.values())


def test_the_consumer_protocol_changes_no_other_draw() -> None:
    """Its stream is its own, and the last one: the faults and the loads of a seed are those of the classic protocol."""
    for seed in SEEDS[:40]:
        mine, other = (swarm_case(seed, profile=name).scenario for name in ("kafka-4.0", "kafka-3.9"))
        added = LateMessage | RollingUpgrade | CreateTopic | DeleteTopic
        assert [each for each in mine.plan if not isinstance(each.action, added)] == [
            each for each in other.plan if not isinstance(each.action, LateMessage)
        ]
        assert mine.topics == other.topics
        assert mine.member_names() == other.member_names()


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_the_assignors_that_are_drawn_for_it(name: str) -> None:
    """Kafka 2.3 has no cooperative ones: such a group is drawn with the eager sticky one there."""
    drawn = [swarm_case(seed, profile=name).scenario for seed in range(20)]

    used = {assignor for scenario in drawn for group in scenario.groups.values() for assignor in group.assignors}
    assert used <= set(PROFILES[name].assignors) and len(used) >= 3


@pytest.mark.parametrize(
    "seed",
    [
        "committed-again-after-a-late-commit",  # the same member says the same again: KIP-333's page lets it
        "committed-again-after-a-power-cut",  # and after some broker's disk lost its last records, whoever that is
        "committed-where-its-partition-was-cut",  # both replicas of t1-5 begin with empty disks
        "opened-again-after-a-time-out",  # the coordinator gave the request up, and its records stand all the same
        "opened-without-a-word",  # the coordinator's office ended before it could tell: the next one finds the token
        "worked-on-when-the-interval-ends",  # c3 works on its only record for 2 s, and commits that all the same
        "reset-after-a-range",  # its position lies behind a power cut's end of the log: it begins at 0, and says so
        "jumped-to-an-end-that-was-cut",  # c2's commit of the range is acknowledged 17 s after it asked for the end
        "void-where-its-partition-was-cut",  # c2's first consumer goes back to 0, and does what the range was for
        "worked-off-and-then-lost",  # c1 worked a range off and said so; the groups' log lost that, not the range
        "works-on-when-its-range-is-lost",  # the groups' log is lost whole, and c5 has yet to hear of it
    ],
)
def test_a_member_that_catches_up_writes_what_it_must_however_often(seed: str) -> None:
    """All are kip-333's: found by seeds of the swarm."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / f"{seed}.toml"))

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [
        ("arrives-at-a-closed-connection", 41),  # c2's held commits reach a connection that a failed answer closed
        ("committed-to-a-deposed-coordinator", 6),  # c3 rebalances while a dead leader owes it a validation
    ],
)
def test_answers_that_never_come_break_no_rule(scenario: str, seed: int) -> None:
    """``Selector.close`` and ``SubscriptionState.allConsumed`` (3.4.1)."""
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / f"{scenario}.toml"), seed=seed)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke


@pytest.mark.parametrize("seed", [1, 22])
def test_a_task_whose_next_thread_waits_for_its_directory_stays_where_its_state_is(seed: int) -> None:
    """``TaskManager.getTaskOffsetSums`` reads the checkpoint of a task in CREATED (``kemu swarm --operated``, seed 22).

    c2's first thread gives 0_5 up for its second, which has no lock yet; c3 has half of the state.
    """
    outcome = kemu.run(kemu.load(SEEDS_OF_BEFORE / "waits-for-another-threads-directory.toml"), seed=seed)

    assert outcome.verdict == "holds", outcome.reason or outcome.broke
