"""Tables and summaries over rows written here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.watching.interruptions import Cause
from kemu.tools.intervals import median_ranks
from kemu.tools.pipeline.rows import NoteRows, note_row, rebalance_rows
from kemu.tools.pipeline.summaries.comparison import differences, headline, quantiles
from kemu.tools.pipeline.summaries.coverage import edges, first_violations
from kemu.tools.pipeline.summaries.faults import fault_effects
from kemu.tools.pipeline.summaries.rebalancing import balance, moves, plain_reason, reconciling
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.groups import epochs, generations, layouts, member_epochs, ownership, unowned
from kemu.tools.pipeline.tables.schemas import (
    DOWNTIME,
    EPOCHS,
    GENERATIONS,
    LAYOUTS,
    LEADERLESS,
    MEMBER_EPOCHS,
    NOTES,
    OWNERSHIP,
    REBALANCES,
    RUNS,
    UNOWNED,
    VIOLATIONS,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from kemu.emulator.facts import FaultApplied, HostDown, HostPaused, HostResumed, RunEnded
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    JoinPhaseCompleted,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsRevoked,
)

T0, T1 = ("t", 0), ("t", 1)


def table(spark: "SparkSession", schema: Schema, rows: list[Mapping[str, Any]]) -> "DataFrame":
    """Rows with the columns given, the others null; and the campaign's name."""
    given = [(*[row.get(name) for name in schema.names], "c") for row in rows]
    return spark.createDataFrame(given, schema.spark().add("campaign", "string"))


def notes_of(spark: "SparkSession", *facts: tuple[int, str, Any]) -> "DataFrame":
    """(time in ms, actor, fact) of one run, in order."""
    rows = [
        dict(zip(NOTES.names, note_row("r", n, n, at_ms * 1000, actor, 1, fact), strict=True))
        for n, (at_ms, actor, fact) in enumerate(facts)
    ]
    return table(spark, NOTES, rows).drop("campaign")


def columns_of(schema: Any) -> list[tuple[str, str]]:
    """Names and types; Spark says of what it computes itself that it is never null, of files that all may be."""
    return [(column.name, column.dataType.simpleString()) for column in schema]


def assigned(*partitions: tuple[str, int]) -> PartitionsAssigned:
    return PartitionsAssigned(group="g", member_id="m", generation=1, added=partitions, owned=partitions)


def revoked(*partitions: tuple[str, int]) -> PartitionsRevoked:
    return PartitionsRevoked(group="g", member_id="m", generation=1, revoked=partitions, owned=())


def became(new: str, generation: int, why: str = "") -> GroupBecame:
    return GroupBecame(group="g", old="", new=new, generation=generation, why=why)


def began(generation: int) -> JoinPhaseCompleted:
    return JoinPhaseCompleted(group="g", generation=generation, protocol="range", leader="m", members=("m", "n"))


def test_ownership_and_what_nobody_owns_in_a_crash_a_pause_and_a_handover(spark: "SparkSession") -> None:
    """Seconds 1 to 3 nobody owns t-0 (crash), 5 to 6 (pause); t-1 goes from hand to hand within a rebalance."""
    notes = notes_of(
        spark,
        (0, "c1", assigned(T0)),
        (0, "c2", assigned(T1)),
        (1000, "", HostDown(host="c1", life=1, how="power")),
        (2000, "b0/coordinator", became("PreparingRebalance", 1, "c1-b0.1-1: session expired")),
        (2200, "c2", revoked(T1)),
        (2500, "b0/coordinator", began(2)),
        (3000, "c2", assigned(T0, T1)),
        (5000, "", HostPaused(host="c2")),
        (6000, "", HostResumed(host="c2")),
        (9000, "", RunEnded(reason="")),
    )
    owned = ownership(notes)
    nobodys = unowned(notes, owned, table(spark, RUNS, [{"run_id": "r", "source": "run"}]))

    held = owned.orderBy("actor", "partition", "from_us").collect()
    assert columns_of(owned.schema) == columns_of(OWNERSHIP.spark())
    assert [(r["actor"], r["partition"], r["from_us"], r["until_us"], r["ended_by"]) for r in held] == [
        ("c1", "t-0", 0, 1_000_000, "down"),
        ("c2", "t-0", 3_000_000, 9_000_000, "end"),
        ("c2", "t-1", 0, 2_200_000, "revoked"),
        ("c2", "t-1", 3_000_000, 9_000_000, "end"),
    ]
    assert columns_of(nobodys.schema) == columns_of(UNOWNED.spark())
    told = [tuple(row)[2:] for row in nobodys.orderBy("partition", "from_us").collect()]
    assert told == [
        ("t-0", 1_000_000, 3_000_000, "down"),
        ("t-0", 5_000_000, 6_000_000, "paused"),
        ("t-1", 2_200_000, 3_000_000, "revoked"),
        ("t-1", 5_000_000, 6_000_000, "paused"),
    ]


def test_what_two_own_is_somebody_s_when_one_goes(spark: "SparkSession") -> None:
    """A zombie overlaps its successor."""
    notes = notes_of(
        spark,
        (0, "c1", assigned(T0)),
        (1000, "c2", assigned(T0)),
        (2000, "c1", revoked(T0)),
        (3000, "", RunEnded(reason="")),
    )
    runs = table(spark, RUNS, [{"run_id": "r", "source": "run"}])
    assert unowned(notes, ownership(notes), runs).count() == 0


@pytest.mark.parametrize(("moved", "intervals"), [(None, 0), (1, 1)])
def test_logs_without_the_log_of_a_member_state_no_time_without_an_owner(
    spark: "SparkSession", moved: int | None, intervals: int
) -> None:
    """The member without a log may own the partition."""
    notes = notes_of(
        spark, (0, "c1", assigned(T0)), (1000, "c1", revoked(T0)), (3000, "", RunEnded(reason=""))
    )  # fmt: skip
    runs = table(spark, RUNS, [{"run_id": "r", "source": "log", "moved": moved}])
    assert unowned(notes, ownership(notes), runs).count() == intervals


def run_rows(cell: str, values: list[int]) -> list[dict[str, Any]]:
    """Runs of a cell, seeds from 1, with these values of reprocessed."""
    return [
        {
            "run_id": f"{cell}/{seed}", "cell": cell, "scenario": "s", "profile": cell, "settings": "", "seed": seed,
            "verdict": "holds", "reprocessed": value, "command": f"kemu run {cell} --seed {seed}",
        }
        for seed, value in enumerate(values, start=1)
    ]  # fmt: skip


def test_quantiles_and_paired_differences(spark: "SparkSession") -> None:
    """Median 50.5 of 1..100 with ranks 40 and 61 as its interval; b is 7 more on every seed, whatever the spread."""
    a, b = list(range(1, 101)), [value + 7 for value in range(1, 101)]
    runs = table(spark, RUNS, [*run_rows("a", a), *run_rows("b", b)])

    tables = {"runs": runs, "violations": table(spark, VIOLATIONS, [])}

    row = quantiles(tables).where("cell = 'a' and figure = 'reprocessed'").first()
    pair = differences(tables).where("figure = 'reprocessed'").first()

    assert row is not None and pair is not None
    assert (row["runs"], row["median"], row["low"], row["high"], row["p95"], row["max"]) == (100, 50.5, 40, 61, 95, 100)
    assert median_ranks(100) == (40, 61)
    assert (pair["cell_a"], pair["cell_b"], pair["seeds"]) == ("a", "b", 100)
    assert (pair["median"], pair["low"], pair["high"], pair["b_is_more"], pair["differs"]) == (7, 7, 7, 1.0, True)


def test_five_seeds_claim_no_interval_and_say_of_nothing_that_it_differs(spark: "SparkSession") -> None:
    """Not "it does not": nobody can tell. Six can; for a 95th percentile 59 are needed."""
    few, more = ([*run_rows("a", [1] * n), *run_rows("b", [9] * n)] for n in (5, 6))

    none = {"violations": table(spark, VIOLATIONS, [])}

    row = quantiles({"runs": table(spark, RUNS, few), **none}).where("figure = 'reprocessed'").first()
    pairs = [differences({"runs": table(spark, RUNS, rows), **none}).where("figure = 'reprocessed'").first()
             for rows in (few, more)]  # fmt: skip

    assert row is not None
    assert (row["median"], row["low"], row["high"], row["p95"], row["max"]) == (1, None, None, None, 1)
    assert [pair and (pair["low"], pair["differs"], pair["p95"]) for pair in pairs] == [
        (None, None, None),
        (8, True, None),
    ]


def test_a_cell_that_did_not_work_has_no_figures_and_is_compared_with_none(spark: "SparkSession") -> None:
    """One dead member in one of three runs, or a run in which nothing was processed."""
    rows = [*run_rows("alive", [3, 3, 3]), *run_rows("dead", [0, 0, 0]), *run_rows("idle", [0, 0, 0])]
    for row in rows:
        row |= {"appended": 10, "processed": 0 if row["run_id"] == "idle/2" else 10, "lost": 0}
    failed = {
        "run_id": "dead/3",
        "checker": "liveness",
        "at_us": 1,
        "seq": 1,
        "entities": ["g", "c1"],
        "liveness": True,
    }
    found = [{**failed, "text": "c1 of group g failed for good", "kind": "member-failed"}]
    tables = {"runs": table(spark, RUNS, rows), "violations": table(spark, VIOLATIONS, found)}

    assert {row["cell"] for row in quantiles(tables).collect()} == {"alive"}
    assert differences(tables).count() == 0
    told = {row["cell"]: row for row in headline(tables).collect()}
    assert (told["alive"]["did_not_work"], told["alive"]["reprocessed"]) == (0, 3)
    assert (told["dead"]["did_not_work"], told["dead"]["reprocessed"]) == (1, None)
    assert told["dead"]["why"] == "c1 of group g failed for good"
    assert (told["idle"]["did_not_work"], told["idle"]["why"]) == (1, "nothing processed")


def test_a_move_in_two_steps_is_one_move_and_an_orphan_is_none(spark: "SparkSession") -> None:
    """Cooperative: c1 gives t-2 up in one rebalance, c2 gets it in the next. c3 is gone: t-3 had to go somewhere."""
    runs = table(spark, RUNS, run_rows("a", [0]))
    rebalances = table(
        spark,
        REBALANCES,
        [
            {"run_id": "a/1", "number": number, "group": "g", "generation": number + 1, "reason": "", "rounds": 1,
             "started_us": number, "ended_us": number, "members": 2, "moved": 0, "stop_the_world_us": 0}
            for number in range(3)
        ],
    )  # fmt: skip
    steps = [
        {"c1": ["t-0", "t-1", "t-2"], "c3": ["t-3"]},
        {"c1": ["t-0", "t-1"], "c2": ["t-3"]},
        {"c1": ["t-0", "t-1"], "c2": ["t-2", "t-3"]},
    ]
    layouts = table(
        spark,
        LAYOUTS,
        [
            {"run_id": "a/1", "group": "g", "generation": generation, "actor": actor, "at_us": 0, "assigned": has,
             "partitions": len(has), "gained": 0, "kept": 0}
            for generation, layout in enumerate(steps, start=1)
            for actor, has in layout.items()
        ],
    )  # fmt: skip

    row = moves({"runs": runs, "rebalances": rebalances, "layouts": layouts}).first()

    assert row is not None
    assert (row["rebalances"], row["moved"], row["fewest"], row["excess"], row["with_excess"]) == (2, 1, 1, 0, 0)


# --- the consumer protocol -------------------------------------------------------------------------------------------


def raised(epoch: int, target_epoch: int) -> GroupEpochsChanged:
    return GroupEpochsChanged(group="g", epoch=epoch, target_epoch=target_epoch)


def reconciled(member: str, epoch: int, state: str, *has: int, revoking: tuple[int, ...] = ()) -> MemberReconciled:
    owned, given_up = (tuple(("t", number) for number in numbers) for numbers in (has, revoking))
    return MemberReconciled(group="g", member_id=member, epoch=epoch, state=state, assigned=owned, revoking=given_up)


def received(member: str, epoch: int, *has: int) -> AssignmentReceived:
    partitions = tuple(("t", number) for number in has)
    return AssignmentReceived(group="g", member_id=member, generation=epoch, partitions=partitions)


def a_member_joins(spark: "SparkSession") -> "DataFrame":
    """Member n joins m, which owns t-0 to t-2; m gives up t-2. Then n leaves; nobody computes a target."""
    at = "b0/coordinator"
    return notes_of(
        spark,
        (0, at, raised(1, 0)),
        (0, at, became("Assigning", 1, "m joined")),
        (0, at, raised(1, 1)),
        (0, at, began(1)),
        (0, at, reconciled("m", 1, "STABLE", 0, 1, 2)),
        (0, at, became("Stable", 1)),
        (10, "c1", received("m", 1, 0, 1, 2)),
        (1000, at, raised(2, 1)),
        (1000, at, became("Assigning", 2, "n joined")),
        (1500, at, raised(2, 2)),
        (1500, at, began(2)),
        (1500, at, reconciled("n", 2, "UNRELEASED_PARTITIONS")),
        (1510, "c2", received("n", 2)),
        (2000, at, reconciled("m", 1, "UNREVOKED_PARTITIONS", 0, 1, revoking=(2,))),
        (2010, "c1", received("m", 1, 0, 1)),
        (3000, at, reconciled("m", 2, "STABLE", 0, 1)),
        (5000, at, reconciled("n", 2, "STABLE", 2)),
        (5000, at, became("Stable", 2)),
        (5010, "c2", received("n", 2, 2)),
        (9000, at, MemberRemoved(group="g", member_id="n", client_id="c2", why="left")),
        (9000, at, raised(3, 2)),
        (9500, "", RunEnded(reason="")),
    )


def test_epochs_of_groups_and_members_are_tables(spark: "SparkSession") -> None:
    """An epoch without a target has no later times. A member's state lasts until the next state, or its removal."""
    notes = a_member_joins(spark)
    of_group, of_members = epochs(notes), member_epochs(notes)
    assert columns_of(of_group.schema) == columns_of(EPOCHS.spark())
    assert columns_of(of_members.schema) == columns_of(MEMBER_EPOCHS.spark())
    told = [tuple(row)[2:] for row in of_group.orderBy("epoch").collect()]
    assert told == [(1, 0, 0, 0), (2, 1_000_000, 1_500_000, 5_000_000), (3, 9_000_000, None, None)]
    rows = of_members.where("member_id = 'n' or state = 'UNREVOKED_PARTITIONS'").orderBy("n").collect()
    assert [(row["actor"], row["epoch"], row["state"], row["from_us"], row["until_us"]) for row in rows] == [
        ("c2", 2, "UNRELEASED_PARTITIONS", 1_500_000, 5_000_000),
        ("c1", 1, "UNREVOKED_PARTITIONS", 2_000_000, 3_000_000),
        ("c2", 2, "STABLE", 5_000_000, 9_000_000),
    ]
    assert (rows[1]["assigned"], rows[1]["revoking"]) == (["t-0", "t-1"], ["t-2"])


def test_a_generation_of_the_consumer_protocol_has_its_reason(spark: "SparkSession") -> None:
    """The state Assigning begins the rebalance, as PreparingRebalance does in a classic group."""
    rows = generations(a_member_joins(spark)).orderBy("generation").collect()
    assert [(row["generation"], row["at_us"], row["prepared_us"], row["reason"]) for row in rows] == [
        (1, 0, 0, "m joined"),
        (2, 1_500_000, 1_000_000, "n joined"),
    ]


def test_a_layout_is_what_a_member_has_when_it_reaches_the_epoch(spark: "SparkSession") -> None:
    """The assignment that m receives to give up t-2 still has the former epoch."""
    notes = a_member_joins(spark)
    rows = layouts(notes, member_epochs(notes)).orderBy("generation", "actor").collect()
    assert [(row["actor"], row["generation"], row["assigned"], row["gained"], row["kept"]) for row in rows] == [
        ("c1", 1, ["t-0", "t-1", "t-2"], 3, 0),
        ("c1", 2, ["t-0", "t-1"], 0, 2),
        ("c2", 2, ["t-2"], 1, 0),
    ]


def test_generations_and_layouts_name_the_protocol_of_the_group(spark: "SparkSession") -> None:
    """A conversion changes the protocol of later rows. Without an earlier state the protocol is unknown."""
    at = "b0/coordinator"
    notes = notes_of(
        spark,
        (0, at, began(1)),
        (10, "c1", received("m", 1, 0, 1)),
        (1000, at, became("PreparingRebalance", 1, "n joined")),
        (1100, at, began(2)),
        (1110, "c1", received("m", 2, 0)),
        (2000, at, GroupConverted(group="g", protocol="consumer", state="Stable", generation=2, members=("m",))),
        (2000, at, began(3)),
        (2000, at, reconciled("m", 3, "STABLE", 0)),
        (2010, "c1", received("m", 3, 0)),
        (9500, "", RunEnded(reason="")),
    )
    of_group, of_members = generations(notes), layouts(notes, member_epochs(notes))

    assert columns_of(of_group.schema) == columns_of(GENERATIONS.spark())
    assert columns_of(of_members.schema) == columns_of(LAYOUTS.spark())
    for rows in (of_group, of_members):
        told = [(row["generation"], row["protocol"]) for row in rows.orderBy("generation").collect()]
        assert told == [(1, None), (2, "classic"), (3, "consumer")]


def test_summaries_of_a_run_of_the_consumer_protocol_count_every_member(spark: "SparkSession") -> None:
    """Also a member whose assignment stays the same reaches the new epoch."""
    scenario = with_values(load_scenario("consumer-protocol-scale-out"), ["topics.orders.rate=0/s"])
    noted = NoteRows("r")
    figures = run(scenario, seed=1, loop="bare", observers=(noted,)).figures
    runs = table(spark, RUNS, [{**run_rows("a", [0])[0], "run_id": "r"}])
    notes = spark.createDataFrame(noted.rows(), NOTES.spark())
    of_members = member_epochs(notes)
    rebalances = spark.createDataFrame(rebalance_rows("r", figures), REBALANCES.spark())
    tables = {
        "runs": runs,
        "rebalances": rebalances,
        "layouts": layouts(notes, of_members),
        "epochs": epochs(notes),
        "member_epochs": of_members,
    }
    balanced, moved, waits = (make(tables).first() for make in (balance, moves, reconciling))
    assert balanced is not None and moved is not None and waits is not None
    assert balanced["balanced"] == 1
    assert moved["moved"] == sum(each.moved for each in figures.rebalances)
    assert (waits["epochs"], waits["runs"], waits["not_computed"], waits["not_stable"]) == (7, 1, 0, 0)
    assert 0 < waits["computed_s"] + waits["stable_s"] < waits["stable_p95_s"] < 15
    assert 0 < waits["unrevoked_s"] < waits["unreleased_s"]


def test_costs_are_charged_to_the_fault_that_came_last(spark: "SparkSession") -> None:
    """Before any fault: to none."""
    crash = FaultApplied(index=0, kind="crash", text="")
    runs = table(spark, RUNS, [{**run_rows("a", [0])[0], "run_id": "r"}])
    notes = notes_of(spark, (5000, "", crash))
    down = [
        {"run_id": "r", "group": "g", "partition": "t-0", "from_us": at, "until_us": at + 1_000_000, "cause": "down",
         "member": "c1", **{f"{cause.name.lower()}_us": 0 for cause in Cause}}
        for at in (1_000_000, 5_000_000, 8_000_000)
    ]  # fmt: skip
    schemas = {"rebalances": REBALANCES, "violations": VIOLATIONS, "leaderless": LEADERLESS}
    empty = {name: table(spark, schema, []) for name, schema in schemas.items()}

    rows = fault_effects({"runs": runs, "notes": notes, "downtime": table(spark, DOWNTIME, down), **empty}).collect()

    assert [(row["kind"], row["applied"], row["downtime_partition_s"]) for row in rows] == [
        ("crash", 1, 2.0),
        ("nothing yet", 0, 1.0),
    ]


def test_seeds_to_the_first_violation_are_counted_in_the_order_of_seeds(spark: "SparkSession") -> None:
    """Seeds 3 and 5 of six break a rule: it took three seeds, and the command repeats seed 3."""
    runs = table(spark, RUNS, run_rows("a", [0] * 6))
    found = [
        {"run_id": f"a/{seed}", "checker": "one-owner", "at_us": 1, "seq": 1, "entities": [], "text": "",
         "liveness": False, "kind": "two-owners"}
        for seed in (5, 3, 3)
    ]  # fmt: skip

    row = first_violations({"runs": runs, "violations": table(spark, VIOLATIONS, found)}).first()

    assert row is not None
    assert (row["runs"], row["violated"], row["violations"], row["first_seed"], row["seeds_to_first"]) == (
        6,
        2,
        3,
        3,
        3,
    )
    assert row["command"] == "kemu run a --seed 3"


@pytest.mark.parametrize(
    ("reason", "plain"),
    [
        ("removing member my-app.x-b0.1-1 on heartbeat expiration", "removing member a member on heartbeat expiration"),
        (
            "removing member c1-3fa85f64-5717-4562-b3fc-2c963f66afa6 on heartbeat expiration",
            "removing member a member on heartbeat expiration",
        ),
        (
            "explicit `LeaveGroup` request for (c1-b0.1-12) members.",
            "explicit `LeaveGroup` request for (a member) members.",
        ),
        (
            "Adding new member c3-b12.4-3 with group instance id None; client reason: not provided",
            "Adding new member a member with group instance id None; client reason: not provided",
        ),
        (
            "Adding new member c3-b12.4-3 with group instance id Some(c3); client reason: ",
            "Adding new member a member with group instance id of its own; client reason: ",
        ),
        ("metadata changed", "metadata changed"),
    ],
)
def test_reasons_read_alike_whoever_it_was(spark: "SparkSession", reason: str, plain: str) -> None:
    """Or no two would be counted together."""
    from pyspark.sql import functions as F  # noqa: N812

    row = spark.createDataFrame([(reason,)], "reason string").select(plain_reason(F.col("reason"))).first()

    assert row is not None and row[0] == plain


def test_every_edge_of_the_state_tables_is_named() -> None:
    """From the machines' own tables."""
    assert ("GroupBecame", "Stable", "PreparingRebalance") in edges()
    assert len(edges()) == len(set(edges())) > 10
