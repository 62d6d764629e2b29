"""The columns of a table, for Arrow (executors write with it), for Spark and for queries without Spark."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kemu.protocol.frozen import frozen

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "json": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "ints": pa.list_(pa.field("element", pa.int32())),
    "strings": pa.list_(pa.field("element", pa.string())),
}
LONG = frozenset(("json", "binary"))
"""The types of columns that ``select *`` of a query leaves out: nobody reads them in a table."""
KINDS = frozenset((*_ARROW, *(f"{kind}?" for kind in _ARROW)))
"""Every type; "?": the column may be null."""


@cache
def _spark_types() -> Mapping[str, "DataType"]:
    """Spark's types. Queries without Spark do not import it."""
    from pyspark.sql import types as T  # noqa: N812 - as every text on Spark names it

    return {
        "string": T.StringType(),
        "json": T.StringType(),
        "int": T.IntegerType(),
        "long": T.LongType(),
        "double": T.DoubleType(),
        "boolean": T.BooleanType(),
        "binary": T.BinaryType(),
        "ints": T.ArrayType(T.IntegerType()),
        "strings": T.ArrayType(T.StringType()),
    }


@frozen
class Schema:
    """A table: its name and its columns, (name, type) in order."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that are never null."""
        return tuple(name for name, kind in self.columns if not kind.endswith("?"))

    @property
    def long(self) -> frozenset[str]:
        """The columns of the types ``LONG``."""
        return frozenset(name for name, kind in self.columns if kind.rstrip("?") in LONG)

    def arrow(self) -> pa.Schema:
        """The schema for Arrow."""
        return pa.schema([pa.field(name, _ARROW[kind.rstrip("?")]) for name, kind in self.columns])

    def spark(self) -> "StructType":
        """The schema for Spark."""
        from pyspark.sql.types import StructField, StructType

        of_kind = _spark_types()
        return StructType([StructField(name, of_kind[kind.rstrip("?")]) for name, kind in self.columns])

    def batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        """Rows, in the order of the columns, as Arrow."""
        schema = self.arrow()
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
