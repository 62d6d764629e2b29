"""KIP-333, the parallel catch-up consumer: the page's timelines as whole clusters, and its promises under crashes.

The whole of the latter has a command of its own: ``python -m tests.soak_catch_up``.
"""

import itertools
from typing import Any

import pytest
from attrs import evolve

from kemu.emulator.facts import Seen
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions.replies import Duplicate, ErrorReply
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.expectations import stood_still
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_actions, with_values
from kemu.emulator.watching.panel import Panel
from kemu.protocol.catch_up import CommitLogs
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    OffsetCommitted,
    PartitionsAssigned,
    PartitionsLost,
    PositionSet,
    Processed,
)
from kemu.protocol.notes.ranges import (
    ChildConsumerDied,
    ChildConsumerStarted,
    RangeCommitted,
    RangeOpened,
    RangePositionSet,
    RangeProcessed,
    RangesRemoved,
    RangeTrimmed,
)
from tests.soak_catch_up import CLUSTERS, one_script, run_one

S = 1_000_000
FACTS = (
    *(OffsetCommitted, PartitionsAssigned, PartitionsLost, PositionSet, Processed),
    *(ChildConsumerDied, ChildConsumerStarted, RangeCommitted, RangeOpened, RangePositionSet),
    *(RangeProcessed, RangesRemoved, RangeTrimmed),
)


class Watch:
    """Keeps the facts that tell of both consumers."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def wants(self, kind: type) -> bool:
        return kind in FACTS

    def see(self, seen: Seen) -> None:
        self.seen.append(seen)

    def of(self, kind: type, actor: str = "") -> list[Any]:
        return [each.fact for each in self.seen if type(each.fact) is kind and actor in ("", each.actor)]


def went(name: str, seed: int = 1, *settings: str) -> tuple[Watch, RunResult]:
    watch = Watch()
    scenario = with_values(load_scenario(name), settings)
    result = run(scenario, seed=seed, loop="bare", observers=(watch,))
    assert result.verdict == "holds", result.reason or result.broke
    return watch, result


def tokens(watch: Watch) -> list[tuple[int, int]]:
    return [(fact.start, fact.end) for fact in watch.of(RangeOpened)]


def commits(watch: Watch) -> list[int]:
    return list(dict.fromkeys(fact.offset for fact in watch.of(OffsetCommitted)))


def rows(watch: Watch, kind: type) -> list[tuple[int, int]]:
    return [(fact.first, fact.last) for fact in watch.of(kind)]


def covered(spans: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in spans for offset in range(first, last)}


def test_the_first_timeline_of_the_page() -> None:
    """Crash at 100, last commit 70, log end 120: 70 to 120 in the second log, 120 and later in the first."""
    watch, _ = went("catch-up-timeline")

    assert tokens(watch) == [(70, 120)]
    assert commits(watch) == [70, 120]
    assert [fact.offset for fact in watch.of(RangeCommitted)] == [120]
    assert [(fact.offset, fact.why) for fact in watch.of(PositionSet)] == [(0, "reset"), (120, JUMPED)]
    assert covered(rows(watch, Processed)) == set(range(100))
    assert covered(rows(watch, RangeProcessed)) == set(range(70, 120))
    assert len(watch.of(ChildConsumerStarted)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        make(api)
        for api in ("RangeFetch", "RangeCommit", "OffsetCommit")
        for make in (
            lambda api: Duplicate(api=api, sender="c1"),
            lambda api: ErrorReply(api=api, sender="c1", error=ErrorCode.NOT_COORDINATOR),
            lambda api: ErrorReply(api=api, sender="c1", error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )
    ],
    ids=lambda fault: fault.words(),
)
def test_a_jump_whose_requests_fail_ends_where_it_would_have(fault: Action) -> None:
    """Errors or lost answers for the token, the commit, or the read of both logs.

    The member retries, as the client does with any commit (ConsumerCoordinator.OffsetCommitResponseHandler). A token
    that is in the log already is not written a second time.
    """
    watch = Watch()
    scenario = load_scenario("catch-up-timeline")
    plan = (*scenario.plan, At("20s", fault))

    result = run(evolve(scenario, plan=plan), seed=1, loop="bare", observers=(watch,))

    assert result.verdict == "holds", result.reason or result.broke
    assert result.faults[-1].fired == 1
    assert tokens(watch) == [(70, 120)]
    assert commits(watch) == [70, 120]
    assert [(fact.offset, fact.why) for fact in watch.of(PositionSet)] == [(0, "reset"), (120, JUMPED)]
    assert covered(rows(watch, RangeProcessed)) == set(range(70, 120))


def test_the_second_timeline_of_the_page_reuses_the_standby() -> None:
    """Crash again at 170, commit 140, log end 190: the heartbeat thread left for it, the second consumer lived on."""
    watch, _ = went("catch-up-second-crash")

    assert tokens(watch) == [(70, 120), (140, 190)]
    assert commits(watch) == [70, 120, 140, 190]
    assert [fact.offset for fact in watch.of(RangeCommitted)] == [120, 190]
    assert len(watch.of(PartitionsLost)) == 1
    assert len(watch.of(ChildConsumerStarted)) == 1, "no new thread"
    assert covered(rows(watch, RangeProcessed)) == {*range(70, 120), *range(140, 190)}


def test_the_second_consumer_commits_work_that_outlasts_its_interval() -> None:
    """The application works for 2 s on each poll, four times auto.commit.interval.ms; the last work is committed, too.

    As seed 56071 of the swarm had it.
    """
    watch, _ = went("catch-up-timeline", 1, "groups.g.config.auto.commit.interval.ms=500", "draws.poll.work=2s")

    assert watch.of(RangeCommitted)[-1].offset == watch.of(RangeOpened)[-1].end == 120


def test_without_the_mode_the_committed_offset_is_where_it_goes_on() -> None:
    """The page's "current design": the same crashes, and nothing of the second log."""
    watch, _ = went("catch-up-without")

    assert [(fact.offset, fact.why) for fact in watch.of(PositionSet)] == [
        (0, "reset"),
        (70, COMMITTED),
        (140, COMMITTED),
    ]
    assert not watch.of(RangeOpened) and not watch.of(ChildConsumerStarted)


def freshness(name: str, *settings: str) -> Figures:
    return went(name, 1, *settings)[1].figures


def test_the_mode_buys_freshness_and_pays_with_order() -> None:
    """The page: "continue processing as if the crash never happened", and "I don't care about order"."""
    on = freshness("catch-up-both-die", "emulated.process.us.per.record=300000")
    off = freshness("catch-up-both-die", "emulated.process.us.per.record=300000", "enable.parallel.rebalance=false")

    assert on.freshness.fresh_after_max_us < off.freshness.fresh_after_max_us / 5
    assert on.freshness.newest_age_mean_us < off.freshness.newest_age_mean_us
    assert on.freshness.reordered > 0 and on.freshness.reorder_max > 0
    assert off.freshness.reordered == off.freshness.reorder_max == 0
    assert on.lost == off.lost == 0


def test_a_crash_loop_keeps_the_ranges_apart() -> None:
    """Section 6.1 t and d of the resolutions: adjacent, disjoint, each from the end of the one before."""
    watch, result = went("catch-up-crash-loop")

    found = tokens(watch)
    assert len(found) == 5
    assert all(one[1] == two[0] for one, two in itertools.pairwise(found))
    assert watch.of(RangeCommitted)[-1].offset == found[-1][1], "all are worked off in the end"
    assert result.figures.lost == 0


def test_a_second_consumer_that_dies_goes_on_from_its_last_commit() -> None:
    """The page: "it will resume processing from the last committed offset, unlike the first consumer"."""
    watch, _ = went("catch-up-child-dies")

    died = next(number for number, each in enumerate(watch.seen) if isinstance(each.fact, ChildConsumerDied))
    before = [each.fact.offset for each in watch.seen[:died] if isinstance(each.fact, RangeCommitted)]
    after = [each.fact.offset for each in watch.seen[died:] if isinstance(each.fact, RangePositionSet)]
    assert before and after == [before[-1]]
    assert len(watch.of(ChildConsumerStarted)) == 2
    assert tokens(watch) == [tokens(watch)[0]], "the first consumer notices nothing"


def test_when_both_die_all_is_rebuilt_from_both_logs() -> None:
    watch, _ = went("catch-up-both-die")

    first, second = tokens(watch)
    assert first[1] <= second[0]
    assert [fact.offset for fact in watch.of(RangePositionSet)][1] >= first[0]
    assert watch.of(RangeCommitted)[-1].offset == second[1]


def test_what_retention_took_of_a_range_is_jumped_over_and_told() -> None:
    """Resolution n: the start of a range below the log's start."""
    watch, result = went("catch-up-retention")

    ((start, end),) = tokens(watch)
    (trimmed,) = watch.of(RangeTrimmed)
    assert trimmed.first == start < trimmed.last < end
    assert covered(rows(watch, RangeProcessed)) == set(range(trimmed.last, end))
    assert watch.of(RangeCommitted)[-1].offset == end
    never = set(range(trimmed.first, trimmed.last)) - covered(rows(watch, Processed))
    assert result.figures.skipped == len(never)


def test_a_range_goes_with_its_partition_to_the_new_owner() -> None:
    """Resolutions c and s: tokens belong to the group; both commit on revoke, the new owner works off what is left."""
    watch, _ = went("catch-up-rebalance")

    opened: dict[int, str] = {}
    moved = []
    for each in watch.seen:
        if isinstance(each.fact, RangePositionSet):
            if opened.get(each.fact.partition, each.actor) != each.actor:
                moved.append(each.fact.partition)
            opened[each.fact.partition] = each.actor
    assert moved, "a range of another member was gone on with"


class Removals(Watch):
    """Keeps what the panel says of the ranges of a group when they are removed: before that, and then."""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.panel = panel
        self.said: list[tuple[CommitLogs, CommitLogs]] = []

    def see(self, seen: Seen) -> None:
        """Ask the panel, which has taken the fact already."""
        super().see(seen)
        if type(seen.fact) is RangesRemoved:
            key = seen.fact.group, (seen.fact.topic, seen.fact.partition)
            self.said.append((self.panel.ranges.kept(*key).before, self.panel.ranges.of(*key)))


def read_of(watch: Watch, before_s: int) -> set[tuple[int, int]]:
    """Records below 60 that either consumer processed until then: (partition, offset)."""
    return {
        (seen.fact.partition, offset)
        for seen in watch.seen
        if type(seen.fact) in (Processed, RangeProcessed) and seen.at_us < before_s * S
        for offset in range(seen.fact.first, min(seen.fact.last, 60))
    }


@pytest.mark.parametrize(
    ("order", "why", "left", "goes_on"),
    [
        ("delete-group group=g at=40s", "the group was deleted", None, (0, "reset")),
        ("reset-offsets group=g topic=events to=offset offset=60 at=40s", "an operator chose an offset", 60, None),
    ],
)
def test_ranges_go_with_their_group_and_with_an_operators_choice(
    order: str, why: str, left: int | None, goes_on: tuple[int, str] | None
) -> None:
    """Four ranges are open when c1 closes at 36 s; at 40 s nothing of them is left, and who comes opens others."""
    preset = load_scenario("catch-up-rebalance")
    scenario = with_actions(
        evolve(preset, plan=preset.plan[:1]),
        ("remove-members group=g count=1 at=36s", order, "start-host host=c1 at=50s"),
    )
    panel = Panel()
    watch = Removals(panel)
    result = run(scenario, seed=1, loop="bare", observers=(watch,), panel=panel)

    assert result.verdict == "holds", result.reason or result.broke
    assert result.figures.skipped == (0 if left is None else 4 * left - len(read_of(watch, before_s=40)))
    assert sorted((fact.partition, fact.why) for fact in watch.of(RangesRemoved)) == [(each, why) for each in range(4)]
    for before, now in watch.said:
        assert before.open_ranges != ()
        assert now == CommitLogs(primary=left)
    placed = [(seen.fact.offset, seen.fact.why) for seen in watch.seen if type(seen.fact) is PositionSet][-4:]
    opened = [(seen.fact.start, seen.at_us >= 50 * S) for seen in watch.seen if type(seen.fact) is RangeOpened]
    if goes_on is not None:
        assert placed == [goes_on] * 4
        assert not any(late for _, late in opened), "a group that begins anew has nothing to catch up with"
    else:
        assert all(why == JUMPED for _, why in placed)
        assert [start for start, late in opened if late] == [left] * 4


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_both_logs_survive_the_coordinator(cluster: str) -> None:
    """Tokens and commits stand in the coordinator's log: whoever coordinates next answers with them."""
    replication = '[brokers]\ncount = 3\n[brokers.replication]\nfactor = 3\nsession = "6s"\n'
    text = f"""
duration = "120s"
draws = "calm"
{replication if cluster == "replicated" else ""}
[topics.t]
partitions = 1
rate = "4/s"
[groups.g]
topics = ["t"]
members = 1
static = true
[groups.g.config]
enable.parallel.rebalance = true
emulated.process.us.per.record = 120000
max.poll.records = 10
[[plan]]
at = "20s"
do = "crash"
host = "c1"
for = "20s"
[[plan]]
at = "50s"
do = "kill-coordinator"
group = "g"
for = "30s"
[[plan]]
at = "60s"
do = "crash"
host = "c1"
for = "20s"
"""
    watch = Watch()
    result = run(scenario_from_toml(text, name="t"), seed=2, loop="bare", observers=(watch,))

    assert result.verdict == "holds", result.reason or result.broke
    first, second = tokens(watch)
    progress = [fact.offset for fact in watch.of(RangeCommitted)]
    assert first[0] < progress[0] < first[1], "the range was open when the coordinator died"
    assert [fact.offset for fact in watch.of(RangePositionSet)][-1] in progress
    assert progress[-1] == second[1]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("seed", range(1, 4))
def test_clusters_whose_members_and_coordinators_crash_keep_the_promises(cluster: str, seed: int) -> None:
    result = run_one(cluster, seed)

    assert result.verdict == "holds", result.reason or result.broke


@pytest.mark.parametrize("first", [1, 21])
def test_random_scripts_keep_the_promises(first: int) -> None:
    """J1 to J4, J6 and J8 after every event."""
    wrong = {seed: one_script(seed)[1] for seed in range(first, first + 20)}

    assert not {seed: why for seed, why in wrong.items() if why}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_both_loops_take_the_same_turns(cluster: str) -> None:
    assert run_one(cluster, 5, "bare").digest == run_one(cluster, 5, "trio").digest


def test_a_partition_that_kafka_leaves_without_an_owner_keeps_its_open_range() -> None:
    """A static member rejoined before the follow-up rebalance, which then never began."""
    result = run_one("replicated", 27)

    assert result.verdict == "holds", result.reason
    assert [each.kind for each in stood_still(result.violations)] == ["forgotten-rebalance"]


@pytest.mark.soak
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_clusters_keep_the_promises_for_a_hundred_and_fifty_seeds(cluster: str) -> None:
    for seed in range(1, 151):
        result = run_one(cluster, seed)
        assert result.verdict == "holds", f"seed {seed}: {result.reason or result.broke}"
