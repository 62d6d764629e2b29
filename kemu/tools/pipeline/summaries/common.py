"""Functions that several summaries use."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

CELL = ("campaign", "cell")


def with_cell(table: DataFrame, runs: DataFrame) -> DataFrame:
    """The rows of a table with the campaign and the cell of their run.

    In:  table(run_id, ...); runs: RUNS
    Out: the columns of ``table``, campaign, cell
    """
    return table.drop("campaign").join(runs.select("run_id", *CELL), "run_id", how="inner")


def time_by_cause(
    tables: Mapping[str, DataFrame],
    name: str,
    parts: tuple[str, ...],
    *,
    of: tuple[str, ...] = (),
    total: str = "total_s",
) -> DataFrame:
    """Lost time by owner and cause, with shares of the parts of lost time.

    In:  runs; ``name``(run_id, *``of``, cause, from_us, until_us, ``part``_us for each of ``parts``)
    Out: (campaign, cell, *``of``, cause, intervals, runs, ``total``, median_s, p95_s, max_s, *``parts``): the last are
        shares of the total
    """
    length = F.col("until_us") - F.col("from_us")
    seconds = length / F.lit(1e6)
    return (
        with_cell(tables[name], tables["runs"])
        .groupBy(*CELL, *of, "cause")
        .agg(
            F.count("*").alias("intervals"),
            F.countDistinct("run_id").alias("runs"),
            (F.sum(length) / F.lit(1e6)).alias(total),
            F.median(seconds).alias("median_s"),
            F.percentile(seconds, F.lit(0.95)).alias("p95_s"),
            F.max(seconds).alias("max_s"),
            *[(F.sum(f"{part}_us") / F.sum(length)).alias(part) for part in parts],
        )
        .orderBy(*CELL, *of, "cause")
    )
