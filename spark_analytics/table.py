"""What a table of the catalogue is: columns in one notation, which Spark and Arrow read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

#: The day (UTC) that a row belongs to; the folders below a table are called after it.
DAY = "day"


#: The largest number of a `bigint`.
_MOST = 2**63 - 1


def as_bigint(number: int) -> int:
    """The nearest number that a `bigint` holds: the nanoseconds of clocks that were never set may be beyond the year 2262."""
    return max(-_MOST, min(_MOST, number))


@attrs.frozen
class Column:
    """One column: its type as SQL writes it, and what it means."""

    name: str
    type: str
    meaning: str


@attrs.frozen
class Table:
    """One table.

    Attributes:
        columns: All of them; the last one is `day`, by which the table is partitioned.
        sorted_by: In which order the rows of a file are written, so that a question about one stream skips the others.
    """

    name: str
    version: int
    meaning: str
    columns: tuple[Column, ...]
    sorted_by: tuple[str, ...]

    @property
    def column_names(self) -> list[str]:
        """The names, in order."""
        return [column.name for column in self.columns]

    def spark_schema(self) -> StructType:
        """The columns as Spark wants them."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(column.name, spark_type(column.type)) for column in self.columns])

    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow wants them."""
        import pyarrow as pa

        return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in self.columns])


def spark_type(name: str) -> DataType:
    """A type of Spark from its name in SQL."""
    from pyspark.sql import types

    if name.startswith("array<"):
        return types.ArrayType(spark_type(name.removeprefix("array<").removesuffix(">")))
    if name.startswith("map<string,"):
        return types.MapType(
            types.StringType(), spark_type(name.removeprefix("map<string,").removesuffix(">"))
        )
    simple: dict[str, type[DataType]] = {
        "string": types.StringType,
        "bigint": types.LongType,
        "int": types.IntegerType,
        "double": types.DoubleType,
        "boolean": types.BooleanType,
        "timestamp": types.TimestampType,
        "date": types.DateType,
        "binary": types.BinaryType,
    }
    return simple[name]()


def arrow_type(name: str) -> pa.DataType:
    """A type of Arrow from its name in SQL. Times are in UTC, to the microsecond."""
    import pyarrow as pa

    if name.startswith("array<"):
        return pa.list_(arrow_type(name.removeprefix("array<").removesuffix(">")))
    if name.startswith("map<string,"):
        return pa.map_(pa.string(), arrow_type(name.removeprefix("map<string,").removesuffix(">")))
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "binary": pa.binary(),
    }[name]
