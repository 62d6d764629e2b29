"""ISR changes, leaderships and leaderless time: by hand-written facts, and against another count over whole runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, LeadershipStated, RunEnded, TopicReplicated
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    IsrChanged,
    LeaderElectedForPartition,
    NodeWritten,
)
from kemu.tools.pipeline.ingest import Tables, Views, register
from kemu.tools.pipeline.quality import check
from kemu.tools.pipeline.summaries.replication import isr_health, leader_changes, leaderless_by_cause
from kemu.tools.pipeline.tables.replication import isr_changes, leaderless, leaderships
from kemu.tools.pipeline.tables.schemas import ISR_CHANGES, LEADERLESS, LEADERSHIPS, RUNS
from tests.tools.pipeline.lone import REPLICATED, Analyzed, LoneRuns
from tests.tools.pipeline.test_summaries import columns_of, notes_of, run_rows, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def assigned(*replicas: int, adding: tuple[int, ...] = ()) -> NodeWritten:
    data = topic_data({0: ReplicaAssignment(replicas, adding)})
    return NodeWritten(what="set", path=topic_path("t"), data=data, version=0, zxid=1, client="")


def state(leader: int, epoch: int, isr: tuple[int, ...], version: int, by: str) -> NodeWritten:
    data = state_data(PartitionState(leader, epoch, isr, 1))
    what = "set" if version else "created"
    return NodeWritten(what=what, path=state_path("t", 0), data=data, version=version, zxid=1, client=by)


def elected(leader: int, epoch: int, isr: tuple[int, ...], strategy: str) -> LeaderElectedForPartition:
    return LeaderElectedForPartition(
        topic="t", partition=0, leader=leader, leader_epoch=epoch, isr=isr, controller_epoch=1, strategy=strategy,
        unclean=False,
    )  # fmt: skip


def changed(leader: int, epoch: int, isr: tuple[int, ...], version: int, why: str) -> IsrChanged:
    return IsrChanged(topic="t", partition=0, leader=leader, leader_epoch=epoch, isr=isr, zk_version=version, why=why)


def leads(epoch: int) -> BecameLeader:
    return BecameLeader(topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=0, high_watermark=0)


def follows(epoch: int, leader: int) -> BecameFollower:
    return BecameFollower(topic="t", partition=0, leader_epoch=epoch, leader=leader, end_offset=0, high_watermark=0)


CONTROLLER = "b2/controller"


def kept(rows: "DataFrame") -> "DataFrame":
    """The rows as data: what asks for them does not make them again."""
    return rows.sparkSession.createDataFrame(rows.toArrow(), rows.schema)


@pytest.fixture(scope="module")
def story(spark: "SparkSession") -> "DataFrame":
    """b0 leads and shrinks the ISR, stands still for a second, dies; b1 is named, takes over, and is deposed for b2."""
    return notes_of(
        spark,
        (0, "", TopicReplicated(topic="t", replicas=((0, 1, 2),), min_isr=2, unclean=True)),
        (0, "zk", assigned(0, 1, 2)),
        (10, "zk", state(0, 0, (0, 1, 2), 0, CONTROLLER)),
        (11, CONTROLLER, elected(0, 0, (0, 1, 2), "new")),
        (12, "b0", leads(0)),
        (1000, "zk", state(0, 0, (0, 1), 1, "b0")),
        (1001, "b0", changed(0, 0, (0, 1), 1, "shrink")),
        (2000, "", HostPaused(host="b0")),
        (3000, "", HostResumed(host="b0")),
        (4000, "", HostDown(host="b0", life=1, how="power")),
        (6000, "zk", state(-1, 1, (0,), 2, CONTROLLER)),
        (7000, "zk", state(1, 2, (1,), 3, CONTROLLER)),
        (7001, CONTROLLER, elected(1, 2, (1,), "offline")),
        (7500, "b1", leads(2)),
        (8000, "zk", assigned(2, 1, 3, adding=(3,))),
        (8200, "zk", state(1, 2, (1, 2), 4, "b1")),
        (9000, "zk", state(2, 3, (1, 2), 5, CONTROLLER)),
        (9001, CONTROLLER, elected(2, 3, (1, 2), "preferred")),
        (9100, "b2", leads(3)),
        (9200, "b1", follows(3, 2)),
        (10000, "", RunEnded(reason="")),
    )


@pytest.fixture(scope="module")
def states(story: "DataFrame") -> "DataFrame":
    return kept(isr_changes(story))


@pytest.fixture(scope="module")
def led(story: "DataFrame", states: "DataFrame") -> "DataFrame":
    return kept(leaderships(story, states))


@pytest.fixture(scope="module")
def without(story: "DataFrame", led: "DataFrame", states: "DataFrame") -> "DataFrame":
    return kept(leaderless(story, led, states))


def rows_of(frame: "DataFrame", *names: str, order: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy(order).select(*names).collect()]


def test_every_state_in_the_store_is_a_row_with_what_its_writer_said_of_it(states: "DataFrame") -> None:
    """Of epoch 1 and version 4 nobody ever said a word: null. The ISR is held against the replicas assigned."""
    assert columns_of(states.schema) == columns_of(ISR_CHANGES.spark())
    told = rows_of(states, "at_us", "until_us", "leader", "isr", "joined", "gone", "why", "unclean", order="n")
    assert told == [
        (10_000, 1_000_000, 0, [0, 1, 2], [], [], "new", False),
        (1_000_000, 6_000_000, 0, [0, 1], [], [2], "shrink", False),
        (6_000_000, 7_000_000, -1, [0], [], [1], None, False),
        (7_000_000, 8_200_000, 1, [1], [1], [0], "offline", True),
        (8_200_000, 9_000_000, 1, [1, 2], [2], [], None, False),
        (9_000_000, 10_000_000, 2, [1, 2], [], [], "preferred", False),
    ]
    sizes = rows_of(states, "replicas", "min_isr", "under_replicated", "under_min_isr", "old_leader", order="n")
    assert sizes == [
        ([0, 1, 2], 2, False, False, None),
        ([0, 1, 2], 2, True, False, 0),
        ([0, 1, 2], 2, True, True, 0),
        ([0, 1, 2], 2, True, True, -1),
        ([2, 1], 2, False, False, 1),
        ([2, 1], 2, False, False, 1),
    ]


def test_leaderships_end_with_the_host_or_with_the_stores_word(led: "DataFrame") -> None:
    """b1 goes on until 9.2 s, but from 9 s on the store names b2."""
    assert columns_of(led.schema) == columns_of(LEADERSHIPS.spark())
    assert rows_of(led, "actor", "leader_epoch", "from_us", "until_us", "ended_by", "why", order="from_us") == [
        ("b0", 0, 12_000, 4_000_000, "down", None),
        ("b1", 2, 7_500_000, 9_000_000, "deposed", "preferred"),
        ("b2", 3, 9_100_000, 10_000_000, "end", None),
    ]


def test_leaderless_time_is_parted_into_electing_and_taking_over(without: "DataFrame") -> None:
    """A pause that ends needs no election; nobody leads before the first leader does, and that is no loss."""
    assert columns_of(without.schema) == columns_of(LEADERLESS.spark())
    assert rows_of(without, "from_us", "until_us", "cause", "elect_us", "take_over_us", order="from_us") == [
        (2_000_000, 3_000_000, "paused", 1_000_000, 0),
        (4_000_000, 7_500_000, "down", 3_000_000, 500_000),
        (9_000_000, 9_100_000, "preferred", 0, 100_000),
    ]


def test_summaries_sum_it_up_per_partition(spark: "SparkSession", states: "DataFrame", without: "DataFrame") -> None:
    """Times on average per run, changes of leaders by why, leaderless time by cause."""
    runs = table(spark, RUNS, [{**run_rows("a", [0])[0], "run_id": "r"}])
    tables = {"runs": runs, "isr_changes": states, "leaderless": without}

    (health,) = isr_health(tables).drop("campaign", "cell").collect()
    changes = rows_of(leader_changes(tables), "partition", "why", "changes", "to_none", "unclean", order="why")
    causes = rows_of(leaderless_by_cause(tables), "cause", "intervals", "total_s", "elect", order="cause")

    assert tuple(health) == ("t-0", 1, 3.0, 2.0, 7.2, 7.2, 2.2, 2.2, 1)
    assert changes == [("t-0", "nobody said", 1, 1, 0), ("t-0", "offline", 1, 0, 1), ("t-0", "preferred", 1, 0, 0)]
    assert causes == [("down", 1, 3.5, 3.0 / 3.5), ("paused", 1, 1.0, 1.0), ("preferred", 1, pytest.approx(0.1), 0.0)]


# --- whole runs ----------------------------------------------------------------------------------------------------


def test_the_tables_of_replicas_hold_their_constraints_over_whole_runs(lone: Analyzed) -> None:
    """What controllers and leaders say they wrote is in the table, one leader at a time, parts add up."""
    assert lone.analysis.broken == []
    assert all(lone.analysis.rows[name] > 0 for name in ("isr_changes", "leaderships", "leaderless"))


def test_tables_of_replicas_that_are_wrong_break_constraints(spark: "SparkSession", lone: Analyzed) -> None:
    """A state that is missing, a leadership that lasts too long: otherwise the test above proves nothing."""
    tables = Tables(spark.sparkContext, (lone.out / "tables").resolve())
    views = Views(tables)
    register(views, " ".join(views))
    wrong = {
        "isr_changes": views["isr_changes"].where("why is null or why <> 'expand'"),
        "leaderships": views["leaderships"].withColumn("until_us", F.col("until_us") + 60_000_000),
        "leaderless": views["leaderless"].withColumn("elect_us", F.col("elect_us") + 1),
    }
    found = {broken.constraint.name for broken in check(wrong, dict.fromkeys(wrong, 1))}

    assert found >= {
        "holds what its writers say they wrote", "a partition has one leader at a time", "its parts add up",
        "adds up to runs.under_replicated_us",
    }  # fmt: skip


def by_partition(spark: "SparkSession", run_id: str, query: str) -> Mapping[str, int]:
    """A query's (partition, number) for one run."""
    rows = spark.sql(query.replace("$RUN", f"run_id = '{run_id}'")).collect()
    return {row[0]: row[1] for row in rows if row[1]}


@pytest.mark.parametrize("name", REPLICATED)
def test_times_are_those_of_the_runs_own_metrics_partition_by_partition(
    spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed, name: str
) -> None:
    """``emulator.metrics.leading`` counts one fact after the other."""
    views = Views(Tables(spark.sparkContext, (lone.out / "tables").resolve()))
    register(views, " ".join(views))
    run_id, figures = lone_runs.replicated[name].run_id, lone_runs.replicated[name].live.figures.replication
    assert figures is not None
    in_isr = "select partition, sum(until_us - at_us) from isr_changes where $RUN and {} group by partition"
    without = "select partition, sum(until_us - from_us) from leaderless where $RUN group by partition"

    assert by_partition(spark, run_id, in_isr.format("under_replicated")) == figures.under_replicated_us
    assert by_partition(spark, run_id, in_isr.format("under_min_isr")) == figures.under_min_isr_us
    assert by_partition(spark, run_id, without) == figures.leaderless_us
    assert figures.leaderless_us and figures.under_replicated_us


def test_tables_of_replicas_have_their_declared_schemas(spark: "SparkSession", lone: Analyzed) -> None:
    """What is read back is the contract plus the campaign."""
    tables = Tables(spark.sparkContext, (lone.out / "tables").resolve())
    for schema in (ISR_CHANGES, LEADERSHIPS, LEADERLESS):
        assert tables.read(schema).schema == schema.spark().add("campaign", "string")


def test_isrs_of_logs_begin_where_the_stated_isr_changes(spark: "SparkSession") -> None:
    """The lines "Shrinking ISR" and "ISR updated" are one state; values that no line states are null, not 0."""

    def stated(kind: str, isr: tuple[int, ...] | None, **values: Any) -> LeadershipStated:
        return LeadershipStated(kind=kind, topic="t", partition=0, isr=isr, **values)

    notes = notes_of(
        spark,
        (0, "b1", stated("isr-shrunk", (1,), isr_before=(1, 2))),
        (5, "b1", stated("isr-updated", (1,), version=7)),
        (900, "b1", stated("fetch-refused", None, why="NOT_LEADER_OR_FOLLOWER")),
        (1000, "b1", stated("isr-updated", (2, 1), version=8)),
        (3000, "", RunEnded(reason="")),
    )
    rows = isr_changes(notes)

    told = [
        (r["at_us"], r["until_us"], r["isr"], r["joined"], r["gone"], r["version"], r["leader"], r["under_replicated"])
        for r in rows.orderBy("n").collect()
    ]
    assert told == [
        (0, 1_000_000, [1], [], [2], 7, None, None),
        (1_000_000, 3_000_000, [1, 2], [2], [], 8, None, None),
    ]
    runs = table(spark, RUNS, [{"run_id": "r", "cell": "logs", "source": "log"}])
    health = isr_health({"runs": runs, "isr_changes": kept(rows)}).first()
    assert health is not None
    assert (health["shrinks"], health["expands"], health["smallest_isr"]) == (1, 1, 1)
    assert (health["under_replicated_s"], health["under_min_isr_s"]) == (None, None)
