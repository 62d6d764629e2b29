"""Facts that no world produced: written by hand here, as a reader of real logs would."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from kemu.emulator.checkers import CHECKERS, checkers_for
from kemu.emulator.facts import HostDown, HostPaused, HostStarted, RunStarted, Seen, WarmUpEnded, take_all_of
from kemu.emulator.judging import Judgement, Judging, judge
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CallbackReturned,
    EpochRead,
    GroupBecame,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    OffsetCommitted,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsRevoked,
    PositionSet,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)

MS = 1_000
ORDERS = ("orders", 0)


def from_logs(*, committed: int) -> list[Seen]:
    """A consumer ``app-1`` of one partition: it joins, processes 0 to 9, revokes and gets its partition back."""
    rows: list[tuple[int, str, Any]] = [
        (0, "", RunStarted(groups=("g",), members=(("app-1", "g"),), brokers=("b7",), topics=(("orders", 1),))),
        (0, "", HostStarted(host="b7", life=1, kept_disk=True)),
        (0, "", HostStarted(host="app-1", life=1, kept_disk=True)),
        (1, "b7", PartitionHosted(topic="orders", partition=0, end_offset=0)),
        (2, "b7", RecordsAppended(topic="orders", partition=0, base_offset=0, count=10)),
        (3, "b7/coordinator", MemberAdded(group="g", member_id="m", client_id="app-1", instance_id=None)),
        (3, "b7/coordinator", became("Empty", "PreparingRebalance", 0)),
        *generation(4, 1),
        (20, "app-1", PositionSet(group="g", member_id="m", topic="orders", partition=0, offset=0, why="reset")),
        (30, "app-1", processed(0, 10)),
        (40, "b7/coordinator", commit(committed)),
        (100, "b7/coordinator", became("Stable", "PreparingRebalance", 1)),
        (110, "app-1", PartitionsRevoked(group="g", member_id="m", generation=1, revoked=(ORDERS,), owned=())),
        *generation(150, 2),
        (152, "app-1", regained(committed)),
    ]
    return [Seen(seq, at_ms * MS, actor, 1 if actor else 0, fact) for seq, (at_ms, actor, fact) in enumerate(rows)]


def became(old: str, new: str, number: int) -> GroupBecame:
    return GroupBecame(group="g", old=old, new=new, generation=number, why="in the log")


def generation(at_ms: int, number: int) -> list[tuple[int, str, Any]]:
    completed = JoinPhaseCompleted(group="g", generation=number, protocol="range", leader="m", members=("m",))
    received = AssignmentReceived(group="g", member_id="m", generation=number, partitions=(ORDERS,))
    assigned = PartitionsAssigned(group="g", member_id="m", generation=number, added=(ORDERS,), owned=(ORDERS,))
    return [
        (at_ms, "b7/coordinator", became("PreparingRebalance", "CompletingRebalance", number)),
        (at_ms, "b7/coordinator", completed),
        (at_ms + 1, "b7/coordinator", became("CompletingRebalance", "Stable", number)),
        (at_ms + 2, "app-1", received),
        (at_ms + 2, "app-1", assigned),
    ]


def processed(first: int, last: int) -> Processed:
    return Processed(
        group="g", member_id="m", generation=1, topic="orders", partition=0, first=first, last=last, started_us=0
    )


def regained(offset: int) -> PositionSet:
    return PositionSet(group="g", member_id="m", topic="orders", partition=0, offset=offset, why="committed")


def commit(offset: int) -> OffsetCommitted:
    return OffsetCommitted(group="g", topic="orders", partition=0, offset=offset, generation=1, member_id="m")


def test_facts_from_outside_give_figures_and_a_verdict() -> None:
    judgement = judge(from_logs(committed=10), ended_us=1_000 * MS)

    assert (judgement.verdict, judgement.violations, judgement.losses) == ("holds", (), ())
    figures = judgement.figures
    assert [(row.reason, row.started_us, row.ended_us) for row in figures.rebalances] == [
        ("in the log", 3 * MS, 5 * MS),
        ("in the log", 100 * MS, 151 * MS),
    ]
    assert figures.downtime_us == {"g/orders-0": 42 * MS}
    assert (figures.records.processed, figures.lost, figures.groups["g"].commits) == (10, 0, 1)


def test_facts_from_outside_are_held_to_the_rules() -> None:
    """It commits two records that it never processed."""
    judgement = judge(from_logs(committed=12), ended_us=1_000 * MS)

    assert judgement.verdict == "violated"
    assert {violation.checker for violation in judgement.violations} == {"commits", "no-lost-record"}
    assert judge(from_logs(committed=12), ended_us=1_000 * MS, expect={"commits", "no-lost-record"}).verdict == "holds"


def test_whoever_reads_the_panel_sees_it_as_of_the_fact_in_hand() -> None:
    """One panel for checkers, metrics and others."""
    panel = Panel()
    judging = Judging((), panel=panel)
    owned = []
    for seen in from_logs(committed=10):
        judging.see(seen)
        owned.append("app-1" in panel.holdings and list(panel.holdings["app-1"].owned) == [ORDERS])

    assert judging.finish(1_000 * MS).verdict == "holds"
    assert owned[-1] and not owned[-4] and not owned[0]


Continues = Callable[[int, str, Sequence[Any]], Sequence[Any]]


def judged_twice(name: str) -> tuple[RunResult, Judgement, Counter[type]]:
    """A run with the facts that its panel alone took, and the judgement of a panel that shows all facts to everyone."""
    scenario, alone, shown = load_scenario(name), Panel(), Panel()
    taken: Counter[type] = Counter()

    def counted(kind: type, continues: Continues) -> Continues:
        def take(at_us: int, actor: str, facts: Sequence[Any]) -> Sequence[Any]:
            left = continues(at_us, actor, facts)
            taken[kind] += len(facts) - len(left)
            return left

        return take

    alone.continues = {kind: counted(kind, continues) for kind, continues in alone.continues.items()}
    shown.continues = {}
    other = Judging(checkers_for(scenario), expect=scenario.expect, panel=shown)
    result = run(scenario, seed=1, loop="bare", panel=alone, observers=(other,))
    return result, other.finish(result.virtual_us), taken


@pytest.mark.parametrize("name", ["disk-tail-lost", "gc-pause-zombie", "coordinator-failover-stable"])
def test_facts_that_only_continue_an_account_change_no_judgement_if_all_observers_take_them(name: str) -> None:
    result, judgement, taken = judged_twice(name)

    assert set(taken) == {Processed, RecordsAcknowledged, RecordsAppended}
    assert min(taken.values()) > 20
    for each in ("verdict", "violations", "losses", "figures", "unmended", "waiting"):
        assert getattr(result, each) == getattr(judgement, each)


@pytest.mark.parametrize("name", ["coordinator-crash-replicated", "gc-pause-zombie"])
def test_offsets_of_one_commit_are_judged_together_as_one_after_the_other(name: str) -> None:
    scenario = load_scenario(name)
    other = Judging(checkers_for(scenario), expect=scenario.expect)
    assert take_all_of(other.handlers_of(OffsetCommitted)) is not None

    together = run(scenario, seed=1, loop="bare")
    apart = run(scenario, seed=1, loop="bare", observers=(other,))  # with two observers, each takes one fact at a time

    assert together.figures.groups
    for each in ("verdict", "violations", "losses", "figures", "unmended", "waiting"):
        assert getattr(together, each) == getattr(apart, each)


@pytest.mark.parametrize(
    ("offsets", "kinds"),
    [
        ([(0, 10), (1, 20)], []),
        ([(0, 10), (1, 21)], ["ahead-of-work"]),
        ([(0, 11), (1, 21)], ["ahead-of-work", "ahead-of-work"]),
        ([(0, 10), (0, 5)], ["went-back"]),  # two commits in one step: their order matters
        ([(0, 5), (0, 10)], []),
    ],
)
def test_each_offset_of_a_commit_is_judged(offsets: list[tuple[int, int]], kinds: list[str]) -> None:
    checker = CHECKERS["commits"]()
    judging = Judging([checker])
    for seen in from_logs(committed=10)[:14]:
        judging.see(seen)
    for fact in (evolve(regained(0), partition=1, why="reset"), evolve(processed(0, 20), partition=1)):
        judging.see(Seen(14, 35 * MS, "app-1", 1, fact))
    take_all = take_all_of(judging.handlers_of(OffsetCommitted))
    assert take_all is not None
    facts = [evolve(commit(offset), partition=partition) for partition, offset in offsets]
    take_all(15, 40 * MS, "b7/coordinator", 1, facts)

    assert [each.kind for each in checker.violations] == kinds


def appended(base: int, sequence: int) -> RecordsAppended:
    return RecordsAppended(
        topic="orders", partition=0, base_offset=base, count=10, producer_id=7, producer_epoch=0, sequence=sequence
    )


def acknowledged(base: int, count: int = 10) -> RecordsAcknowledged:
    return RecordsAcknowledged(topic="orders", partition=0, base_offset=base, count=count)


READ = EpochRead(topic="orders", partition=0, offset=0, leader_epoch=0, life=1)


def kinds_after_continuing(*last: tuple[str, Any]) -> set[str]:
    """The kinds of violations in these facts, after facts of a producer and a member that continue each other."""
    rows: list[tuple[int, str, Any]] = [
        (0, "", RunStarted(groups=("g",), members=(("app-1", "g"),), brokers=("b7",), topics=(("orders", 1),))),
        *[(0, "", HostStarted(host=host, life=1, kept_disk=True)) for host in ("b7", "app-1", "p1")],
        (1, "b7", PartitionHosted(topic="orders", partition=0, end_offset=0)),
        *generation(2, 1),
        (5, "app-1", PositionSet(group="g", member_id="m", topic="orders", partition=0, offset=0, why="reset")),
        (5, "app-1", READ),
        *[(6, "b7", appended(each, each)) for each in (0, 10, 20)],
        *[(7, "p1", acknowledged(each)) for each in (0, 10)],
        *[(8, "app-1", processed(each, each + 5)) for each in (0, 5, 10)],
        *[(9, actor, fact) for actor, fact in last],
    ]
    checkers = [CHECKERS[name]() for name in ("idempotence", "lifecycle", "no-lost-record")]
    judging = Judging(checkers)
    for seq, (at_ms, actor, fact) in enumerate(rows):
        if seq == len(rows) - len(last):
            progress = judging.panel.progress
            assert progress.continuing["app-1"] and progress.acknowledged_by["p1"] and judging.panel.logs.lines
        judging.see(Seen(seq, at_ms * MS, actor, 1 if actor else 0, fact))
    return {violation.kind for checker in checkers for violation in checker.violations}


REVOKED = PartitionsRevoked(group="g", member_id="m", generation=1, revoked=(ORDERS,), owned=())


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ([("app-1", processed(15, 20))], ""),
        ([("app-1", processed(16, 20))], "out-of-order"),
        ([("app-1", processed(15, 31))], "processed-unwritten"),
        ([("", HostPaused(host="app-1")), ("app-1", processed(15, 20))], "works-when-down"),
        ([("app-1", REVOKED), ("app-1", processed(15, 20))], "not-owned"),
        ([("b7", appended(30, 30))], ""),
        ([("b7", appended(31, 30))], "append-gap"),
        ([("b7", appended(30, 10))], "appended-twice"),
        (
            [("", HostDown(host="b7", life=1, how="power")), ("b7", appended(30, 30))],
            "works-when-down",
        ),
        ([("p1", acknowledged(20))], ""),
        ([("p1", acknowledged(20, 11))], "acknowledged-unwritten"),
    ],
)
def test_a_fault_among_facts_that_continue_each_other_is_caught(last: Sequence[tuple[str, Any]], kind: str) -> None:
    assert kinds_after_continuing(*last) == ({kind} if kind else set())


OTHER = ("orders", 1)


def received(partition: TopicPartition) -> AssignmentReceived:
    return AssignmentReceived(group="g", member_id="n", generation=2, partitions=(partition,))


def assigned(partition: TopicPartition) -> PartitionsAssigned:
    return PartitionsAssigned(group="g", member_id="n", generation=2, added=(partition,), owned=(partition,))


def member_became(new: str) -> MemberBecame:
    return MemberBecame(group="g", member_id="n", old="STABLE", new=new, generation=1, why="")


CALLED_BACK = CallbackReturned(group="g", member_id="n", callback="onPartitionsAssigned", took_us=1)


@pytest.mark.parametrize(
    ("actor", "fact", "is_news"),
    [
        ("app-2", received(ORDERS), True),
        ("app-2", received(OTHER), False),
        ("app-2", assigned(ORDERS), True),
        ("app-2", assigned(OTHER), False),
        ("app-2", regained(0), True),
        ("app-2", evolve(regained(0), partition=1), False),
        ("app-1", CALLED_BACK, True),
        ("app-2", CALLED_BACK, False),
        ("app-1", READ, True),
        ("app-1", evolve(READ, partition=1), False),
        ("app-2", READ, False),
        ("app-2", member_became("FAILED"), True),
        ("app-2", member_became("PREPARING_REBALANCE"), False),
        ("", HostStarted(host="app-2", life=2, kept_disk=True), True),
        ("", WarmUpEnded(), False),
    ],
)
def test_a_fact_of_a_member_is_news_only_for_the_records_that_it_concerns(
    actor: str, fact: object, is_news: bool
) -> None:
    """All observers take the next records of ``app-1`` on partition 0 if the fact concerns them, else the panel."""
    alone, shown = Panel(), Panel()
    shown.continues = {}
    judgings = [Judging(checkers_for(load_scenario("steady-group")), panel=panel) for panel in (alone, shown)]
    rows: list[tuple[str, Any]] = [
        ("", RunStarted(groups=("g",), members=(("app-1", "g"),), brokers=("b7",), topics=(("orders", 2),))),
        *[("", HostStarted(host=host, life=1, kept_disk=True)) for host in ("b7", "app-1", "app-2")],
        *[("b7", PartitionHosted(topic="orders", partition=each, end_offset=0)) for each in (0, 1)],
        *[(actor, fact) for _, actor, fact in generation(2, 1)],
        ("app-1", PositionSet(group="g", member_id="m", topic="orders", partition=0, offset=0, why="reset")),
        ("app-1", READ),
        *[("b7", appended(each, each)) for each in (0, 10)],
        *[("app-1", processed(each, each + 5)) for each in (0, 5, 10)],
        (actor, fact),
    ]
    for judging in judgings:
        for seq, (by, each) in enumerate(rows):
            judging.see(Seen(seq, seq * MS, by, 1 if by else 0, each))
    last = processed(15, 20)
    left = alone.continues[Processed](len(rows) * MS, "app-1", [last])

    assert bool(left) == is_news
    for judging, facts in zip(judgings, (left, [last]), strict=True):
        for each in facts:
            judging.see(Seen(len(rows), len(rows) * MS, "app-1", 1, each))
    one, other = [judging.finish(100 * MS) for judging in judgings]
    assert one == other


@pytest.mark.parametrize(
    ("fact", "is_news"),
    [
        (HostStarted(host="app-1", life=2, kept_disk=True), False),
        (HostStarted(host="p1", life=2, kept_disk=True), True),
        (HostStarted(host="b7", life=2, kept_disk=True), True),
        (HostStarted(host="b8", life=1, kept_disk=True), True),
        (WarmUpEnded(), False),
    ],
)
@pytest.mark.parametrize("producer", ["p1", "app-2"])
def test_the_start_of_a_member_is_news_for_written_records_only_if_the_member_produces(
    fact: HostStarted | WarmUpEnded, is_news: bool, producer: str
) -> None:
    if isinstance(fact, HostStarted) and fact.host == "p1":
        fact = evolve(fact, host=producer)
    judging = Judging(checkers_for(load_scenario("steady-group")))
    members = (("app-1", "g"), ("app-2", "g"))
    rows: list[tuple[str, Any]] = [
        ("", RunStarted(groups=("g",), members=members, brokers=("b7", "b8"), topics=(("orders", 1),))),
        *[("", HostStarted(host=host, life=1, kept_disk=True)) for host in ("b7", "app-1", "app-2", "p1")],
        ("b7", PartitionHosted(topic="orders", partition=0, end_offset=0)),
        ("b7", appended(0, 0)),
        (producer, acknowledged(0)),
        ("", fact),
    ]
    for seq, (by, each) in enumerate(rows):
        judging.see(Seen(seq, seq * MS, by, 1 if by else 0, each))

    now_us, continues = len(rows) * MS, judging.panel.continues
    assert bool(continues[RecordsAppended](now_us, "b7", [appended(10, 10)])) == is_news
    assert bool(continues[RecordsAcknowledged](now_us, producer, [acknowledged(10)])) == is_news
