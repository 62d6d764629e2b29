"""Past bugs of replication and control, under faults that can show them: found when on, never when off."""

from collections.abc import Callable

import attrs
import pytest

from kemu.emulator.chance import Seeded, Stream
from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.actions import (
    Action,
    CloseHost,
    Crash,
    Duplicate,
    ExpiredSession,
    Hold,
    LostStoreAnswer,
    SetRateOf,
    Split,
    StartHost,
)
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.runner import run
from kemu.emulator.scenario.replication import PAST_BUGS, ReplicationSpec
from kemu.emulator.scenario.scenario import DEFAULT_DRAWS, BrokersSpec, ChecksSpec, Scenario, TopicSpec
from kemu.emulator.watching.panel import Panel
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.protocol.replication import IsrPath

S = 1_000_000
SEEDS = 1_000
"""Within so many seeds a bug is to be found; the tests stop at the first one."""


def scenario(
    plan: Plan,
    bugs: tuple[str, ...] = (),
    *,
    brokers: int = 3,
    unclean: bool = False,
    small_fetches: bool = False,
    calm: bool = False,
    isr_path: IsrPath = IsrPath.STORE,  # as all brokers that had these bugs
) -> Scenario:
    """Two partitions on every broker, short sessions and lags, no group; ``calm`` for a plan of exact moments."""
    config = {"replica.fetch.backoff.ms": 200, "replica.high.watermark.checkpoint.interval.ms": 1_000}
    if small_fetches:
        config["replica.fetch.max.bytes"] = 2_000
    replication = ReplicationSpec(
        factor=brokers,
        unclean=unclean,
        session_us=2 * S,
        lag_us=4 * S,
        isr_path=isr_path,
        bugs=bugs,
        config=config,
    )
    return Scenario(
        name="past-bug",
        duration_us=35 * S,
        brokers=BrokersSpec(count=brokers, replication=replication, config={"offsets.topic.num.partitions": 1}),
        topics={"orders": TopicSpec(partitions=2, records_per_s=40)},
        producers={"request.timeout.ms": 2_000},
        draws=DrawSet("calm" if calm else DEFAULT_DRAWS),
        checks=ChecksSpec(stable_within_us=30 * S),
        plan=plan,
    )


def crashes(chance: Stream) -> Plan:
    """Brokers come and go, one after the other, with short pauses: many elections."""
    entries = []
    at_us = 5 * S
    while at_us < 28 * S:
        host = f"b{chance.below(3)}"
        entries.append(At(at_us, Crash(host=host, mode="process", for_us=chance.between(S // 2, 4 * S))))
        at_us += chance.between(S, 4 * S)
    return tuple(entries)


def _plan(*rows: tuple[float, Action]) -> Plan:
    return tuple(At(int(at_s * S), action) for at_s, action in rows)


def lost_answers(chance: Stream) -> Plan:
    """A follower falls out of the ISR; the answers to the leaders' ISR writes are lost with their connections."""
    return _plan(
        (8, Hold(sender="b2", api="Fetch", for_us=10 * S)),
        (9, Duplicate(api="StoreOps", sender="b0", nth=1)),
        (9, Duplicate(api="StoreOps", sender="b1", nth=1)),
    )


def stale_answers(chance: Stream) -> Plan:
    """b2's questions about epochs are held back while the epoch rises again."""
    return _plan(
        (7, Hold(sender="b2", api="OffsetForLeaderEpoch", for_us=6 * S)),
        (8, Crash(host="b1", mode="process", for_us=9 * S)),
        (8 + chance.between(1, 20) / 10, Crash(host="b3", mode="process", for_us=9 * S)),
    )


def late_joiner(chance: Stream) -> Plan:
    """b3 catches up slowly while the leader dies and the next one waits for b2."""
    return _plan(
        (6, Hold(sender="b3", api="Fetch", for_us=10 * S)),
        (15.6, Hold(sender="b2", api="Fetch", for_us=3 * S)),
        (15.6 + chance.between(0, 10) / 10, Crash(host="b0", mode="process", for_us=12 * S)),
    )


def quick_return(chance: Stream) -> Plan:
    """A broker's process dies, its session expires, it registers again; the controller hears of both at once."""
    host = f"b{chance.below(3)}"
    return _plan(
        (8, Crash(host=host, mode="process", for_us=chance.between(100_000, S))),
        (8.8 + chance.between(0, 12) / 10, Hold(sender="zk", receiver="controller", for_us=1_200_000)),
    )


def in_turns(chance: Stream) -> Plan:
    """Each of two brokers leads alone, several times, without what the other wrote (unclean elections)."""
    return _plan(
        (6, Crash(host="b1", mode="process", for_us=6 * S)),
        (11, Crash(host="b0", mode="process", for_us=8 * S)),
        (18, Crash(host="b1", mode="process", for_us=8 * S)),
        (25, Crash(host="b0", mode="process", for_us=chance.between(5 * S, 7 * S))),
    )


def controller_and_broker(chance: Stream) -> Plan:
    """The controller dies while another broker is on its way back."""
    return _plan(
        (8, Crash(host="b1", mode="process", for_us=5 * S)),
        (12 + chance.between(0, 20) / 10, Crash(host="controller", mode="process", for_us=8 * S)),
    )


def close_and_return(chance: Stream) -> Plan:
    """A broker is closed cleanly and started at once."""
    return _plan((8, CloseHost(host="b1")), (8 + chance.between(5, 30) / 10, StartHost(host="b1")))


def undecided_expand(chance: Stream) -> Plan:
    """b2 joins the ISRs again, the store's answers to the leaders are late, and b2 falls behind meanwhile."""
    return _plan(
        (7, Hold(sender="b2", api="Fetch", for_us=8 * S)),
        (14.2, Hold(sender="zk", receiver="b0", for_us=8 * S)),
        (14.2, Hold(sender="zk", receiver="b1", for_us=8 * S)),
        (15.2 + chance.between(0, 10) / 10, Hold(sender="b2", api="Fetch", for_us=7 * S)),
    )


def lost_store_answers(chance: Stream) -> Plan:
    """As ``lost_answers``, by the store's own fault: the leaders' ISR writes happen, or not, and nobody is told."""
    return _plan(
        (8, Hold(sender="b2", api="Fetch", for_us=10 * S)),
        (9, LostStoreAnswer(host="b0")),
        (9, LostStoreAnswer(host="b1", applied=chance.below(2) == 0)),
    )


def expiry_with_lingering_nodes(chance: Stream) -> Plan:
    """A broker's session ends, and its registration stays until long after it has a new session."""
    return _plan((8 + chance.between(0, 20) / 10, ExpiredSession(host=f"b{chance.below(3)}", linger_us=5 * S)))


def two_controllers(chance: Stream) -> Plan:
    """What the controller says of a broker's return is held back until another one has been elected."""
    return _plan(
        (6, Crash(host=f"b{chance.below(4)}", mode="process", for_us=5 * S)),
        (9 + chance.between(0, 20) / 10, Hold(sender="controller", api="UpdateMetadata", for_us=12 * S)),
        (14, Split(side=("controller",), other=("zk",), for_us=9 * S)),
    )


def behind_an_old_word(chance: Stream) -> Plan:
    """b0 and b1 lead in turns, one without the other's last records; b2 hears of it late, and follows b0 again."""
    return _plan(
        (6, Hold(sender="b1", api="Fetch", for_us=1_500_000)),
        (7 + chance.between(0, 10) / 10, Crash(host="b0", mode="process", for_us=chance.between(2 * S, 3 * S))),
        (7 + chance.between(0, 10) / 10, Hold(sender="controller", receiver="b2", for_us=chance.between(4 * S, 9 * S))),
        (11, Crash(host="b1", mode="process", for_us=2 * S)),
        (17, Crash(host="b0", mode="process", for_us=2 * S)),
    )


def leaders_of_little(chance: Stream) -> Plan:
    """Each of two brokers leads alone, several times, and writes little or nothing (unclean elections)."""
    return _plan(
        (6, SetRateOf(topic="orders", records_per_s=1)),
        (7, Crash(host="b1", mode="process", for_us=6 * S)),
        (12, Crash(host="b0", mode="process", for_us=8 * S)),
        (15, Crash(host="b1", mode="process", for_us=S)),
        (18, Crash(host="b1", mode="process", for_us=8 * S)),
        (25, Crash(host="b0", mode="process", for_us=5 * S)),
    )


def idle_and_silent(chance: Stream) -> Plan:
    """Nothing is produced, and b2, which has everything, asks for nothing."""
    return _plan(
        (10, SetRateOf(topic="orders", records_per_s=0)),
        (12, Hold(sender="b2", api="Fetch", for_us=9 * S)),
        (24, SetRateOf(topic="orders", records_per_s=40)),
    )


CASES: tuple[tuple[str, str, Callable[[Stream], Plan], dict[str, bool | int]], ...] = (
    ("KAFKA-1211", "replicas", crashes, {}),
    ("KAFKA-6361", "replicas", in_turns, {"unclean": True, "brokers": 2}),
    ("KAFKA-1188", "leadership", two_controllers, {"brokers": 4}),
    ("KAFKA-1367", "agreement", lost_answers, {}),
    ("KAFKA-1382", "recovery", lost_answers, {}),
    ("KAFKA-1382", "recovery", lost_store_answers, {}),
    ("KAFKA-7152", "isr", idle_and_silent, {}),
    ("KAFKA-7164", "replicas", behind_an_old_word, {}),
    ("KAFKA-7415", "replicas", leaders_of_little, {"unclean": True, "brokers": 2}),
    ("KAFKA-7786", "recovery", stale_answers, {"brokers": 4}),
    ("KAFKA-7128", "replicas", late_joiner, {"brokers": 4, "small_fetches": True, "calm": True}),
    ("KAFKA-8836", "leadership", undecided_expand, {}),
    ("KAFKA-8836", "replicas", undecided_expand, {"calm": True}),
    ("KAFKA-7235", "recovery", quick_return, {}),
    ("KAFKA-4443", "recovery", controller_and_broker, {}),
    ("KAFKA-7165", "recovery", expiry_with_lingering_nodes, {}),
)


def violated(issue: str, plan: Callable[[Stream], Plan], how: dict[str, bool | int], seed: int) -> set[str]:
    """The checkers that found something."""
    bugs = (issue,) if issue else ()
    made = scenario(plan(Seeded(seed).stream("plan")), bugs, **how)  # type: ignore[arg-type]
    result = run(made, seed=seed, drive="bare")
    assert not result.broke, result.broke
    return {violation.checker for violation in result.violations}


@pytest.mark.parametrize(("issue", "checker", "plan", "how"), CASES, ids=[case[0] for case in CASES])
def test_a_past_bug_is_found_when_it_is_on_and_not_when_it_is_off(issue, checker, plan, how):
    """Spec 4.4."""
    for seed in range(1, SEEDS + 1):
        if checker in violated(issue, plan, how, seed):
            assert not violated("", plan, how, seed)
            return
    raise AssertionError(f"{issue} was not found in {SEEDS} seeds")


@pytest.mark.parametrize(("plan", "calm"), [(lost_answers, True), (lost_answers, False), (undecided_expand, True)])
def test_a_lost_answer_to_the_controllers_isr_write_is_kafkas_own_disagreement(plan, calm):
    """AlterIsr: the controller does not know its write, the leader waits for another epoch (see ``UnheardIsrs``)."""
    panel = Panel()
    made = scenario(plan(Seeded(1).stream("plan")), calm=calm, isr_path=IsrPath.CONTROLLER)
    result = run(made, seed=1, drive="bare", panel=panel)

    assert not result.broke and not result.violations
    unheard = panel.unheard.of(("orders", 0))
    assert unheard is not None and unheard.leader_waits
    assert unheard.told != panel.states["orders", 0].isr


@pytest.mark.parametrize("plan", [lost_answers, undecided_expand])
def test_a_lost_answer_is_forgotten_with_the_next_election(plan):
    """A broker's process comes back: the controller reads the states that it writes, and all agree again."""
    panel = Panel()
    faults = (*plan(Seeded(1).stream("plan")), At(26 * S, Crash(host="b1", mode="process", for_us=4 * S)))
    result = run(scenario(faults, calm=True, isr_path=IsrPath.CONTROLLER), seed=1, drive="bare", panel=panel)

    assert not result.broke and not result.violations
    assert panel.unheard.of(("orders", 0)) is None
    assert sorted(panel.states["orders", 0].isr) == [0, 1, 2]


@pytest.mark.soak
@pytest.mark.parametrize(("plan", "how"), {(case[2], tuple(case[3].items())): None for case in CASES})
def test_nothing_is_found_without_past_bugs(plan, how):
    """The same faults, today's rules, many seeds."""
    for seed in range(1, 301):
        assert not violated("", plan, dict(how), seed), f"{plan.__name__} seed {seed}"


def test_every_bug_that_can_be_switched_on_has_a_plan_that_shows_it():
    """``kemu describe bugs`` promises nothing else."""
    assert set(PAST_BUGS) == {case[0] for case in CASES}


def test_bugs_are_named_by_issue():
    """Scenario files name them so."""
    spec, newest = ReplicationSpec(bugs=("KAFKA-1211", "KAFKA-7235")), PROFILES[DEFAULT_PROFILE]

    assert attrs.evolve(spec, bugs=()).replica_rules(newest) != spec.replica_rules(newest)
    assert attrs.evolve(spec, bugs=()).controller_rules(newest) != spec.controller_rules(newest)
