"""SQL over an analysis by Spark, for analyses that one machine is too small for (``kemu query --master``).

A query can read the tables and summaries of the analysis and nothing else, and it can write nothing, by construction:

* The SQL becomes a subquery (``select * from (SQL)``), so a command is no query that Spark can parse.
* ``spark.sql.runSQLOnFiles`` is off, so "parquet.`/path`" is an unknown table; the only tables are ours.
* A plan that calls a program (``TRANSFORM ... USING``) or Java (``reflect``, ``java_method``) is refused, and never
  runs.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kemu.tools.pipeline.errors import CampaignError
from kemu.tools.pipeline.ingest import Tables, Views, register
from kemu.tools.pipeline.query import QueryAnswer, first_line, parts_of, shown, summaries_of

RUNS_CODE = {
    "ScriptTransformation": "TRANSFORM ... USING",
    "CallMethodViaReflection": "reflect, try_reflect or java_method",
}
"""Nodes of plans that run programs or Java -> their SQL."""


def ask_spark(spark: SparkSession, place: Path, sql: str, limit: int) -> QueryAnswer:
    """Run a query with Spark.

    Args:
        spark: The session to use.
        place: The folder of an analysis.
        sql: The query, in Spark's SQL.
        limit: The largest number of rows; 0 = all.

    Raises:
        CampaignError: no tables there, or a query that Spark does not understand or may not do.
    """
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "false", "or a query reads any file"
    parts = parts_of(place)
    _register(spark, place, sql)
    try:
        answer = _parsed(spark, sql)
        for node in _nodes(answer):
            if node in RUNS_CODE:
                raise CampaignError(f"the query: {RUNS_CODE[node]} is not allowed: a query reads the analysis")
        rows = (answer.limit(limit + 1) if limit else answer).collect()
    except PySparkException as error:
        raise CampaignError(f"the query: {first_line(error)}") from None
    return shown(answer.columns, [tuple(row) for row in rows], limit, parts, sql)


def _register(spark: SparkSession, place: Path, sql: str) -> None:
    """Register the tables and summaries that the SQL names as views of their names."""
    register(Views(Tables(spark.sparkContext, (place / "tables").resolve())), sql)
    words = set(re.findall(r"\w+", sql.lower()))
    for name, path in summaries_of(place).items():
        if name in words:
            declared = from_arrow_schema(pq.read_schema(path))
            spark.read.schema(declared).parquet(str(path)).createOrReplaceTempView(name)


def _parsed(spark: SparkSession, sql: str) -> DataFrame:
    """The query as a DataFrame that has not run."""
    try:
        return spark.sql(f"select * from (\n{sql}\n)")
    except ParseException:
        _parse(spark, sql)
        raise CampaignError("the query must be one SELECT: a query reads the analysis and changes nothing") from None


def _parse(spark: SparkSession, sql: str) -> None:
    """Raise ``ParseException`` with the right position if the SQL is no statement at all."""
    session: Any = spark._jsparkSession
    session.sessionState().sqlParser().parsePlan(sql)


def _nodes(answer: DataFrame) -> Iterator[str]:
    """The names of all nodes of the analyzed plan and of its subqueries: operators and expressions."""
    plan: Any = answer._jdf.queryExecution().analyzed()
    operators = [plan, *_items(plan.subqueriesAll())]
    expressions: list[Any] = []
    for operator in operators:
        yield operator.nodeName()
        operators += _items(operator.children())
        expressions += _items(operator.expressions())
    for expression in expressions:
        yield expression.nodeName()
        expressions += _items(expression.children())


def _items(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]
