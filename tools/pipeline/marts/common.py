"""What marts share."""

from pyspark.sql import DataFrame

CELL = ("campaign", "cell")


def with_cell(table: DataFrame, runs: DataFrame) -> DataFrame:
    """A table's rows with the campaign and the cell of their run.

    In:  table(run_id, ...); runs: RUNS
    Out: the same, campaign, cell
    """
    return table.drop("campaign").join(runs.select("run_id", *CELL), "run_id", how="inner")
