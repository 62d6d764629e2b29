"""Checkers and metrics over recorded facts, run by run: the same Python classes as live, as grouped Arrow functions.

A checker is a fold over a run's facts in order, which no column function can say. Spark brings the facts of a run
together; everything else is ``emulator``'s. No table has the messages that crossed the wire: the checkers that watch
these (``requests``, ``pace``, ``fields``) say nothing here.
"""

import json

import attrs
import msgpack
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.checkers import checkers_for
from kemu.emulator.facts import Seen
from kemu.emulator.judging import judge
from kemu.emulator.metrics.figures import plain
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.protocol.wire.values import from_row
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import VIOLATIONS

JUDGED = Schema(
    "judged",
    (
        ("run_id", "string"),
        ("verdict", "string"),
        ("violations", "string"),
        ("metrics", "string"),
    ),
)
"""``violations`` and ``metrics``: JSON, as a run's result has them."""


def judged(notes: DataFrame, runs: DataFrame) -> DataFrame:
    """Let today's checkers and metrics see recorded runs.

    In:  notes: of traced runs (others' are not complete); runs(run_id, scenario_json, virtual_us, broke)
    Out: JUDGED, one row per complete run
    """
    complete = runs.where(F.col("traced") & F.col("verdict").isNotNull())
    heads = complete.select("run_id", "scenario_json", "virtual_us", "broke")
    facts = notes.select("run_id", "n", "seq", "at_us", "actor", "life", "row")
    grouped = heads.groupBy("run_id").cogroup(facts.groupBy("run_id"))
    return grouped.applyInArrow(_judge_run, JUDGED.spark())


def _judge_run(head: pa.Table, facts: pa.Table) -> pa.Table:
    if head.num_rows == 0:  # facts of a run that is not complete
        return pa.Table.from_batches([JUDGED.batch([])])
    assert head.num_rows == 1, f"{head['run_id'][0]}: a run has one row"
    scenario = scenario_from_dict(json.loads(head["scenario_json"][0].as_py()))
    ended_us, broke = head["virtual_us"][0].as_py(), head["broke"][0].as_py() or ""
    in_order = facts.sort_by("n")
    columns = [in_order[name].to_pylist() for name in ("seq", "at_us", "actor", "life", "row")]
    seen = (
        Seen(seq, at_us, actor, life, from_row(msgpack.unpackb(row, use_list=False, strict_map_key=False)))
        for seq, at_us, actor, life, row in zip(*columns, strict=True)
    )
    judgement = judge(seen, ended_us=ended_us, checkers=checkers_for(scenario), expect=scenario.expect, broke=broke)
    row = (
        head["run_id"][0].as_py(),
        judgement.verdict,
        json.dumps([attrs.asdict(violation) for violation in judgement.violations]),
        json.dumps(plain(judgement.figures)),
    )
    return pa.Table.from_batches([JUDGED.batch([row])])


def violations_of(verdicts: DataFrame) -> DataFrame:
    """The violations that were found again.

    In:  JUDGED
    Out: VIOLATIONS
    """
    fields = "checker:string,at_us:long,seq:long,entities:array<string>,text:string,liveness:boolean,kind:string"
    shape = f"array<struct<{fields}>>"
    return verdicts.select("run_id", F.explode(F.from_json("violations", shape)).alias("v")).select(
        "run_id", *[F.col(f"v.{name}").alias(name) for name in VIOLATIONS.names[1:]]
    )
