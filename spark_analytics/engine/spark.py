"""Answers SQL with Spark: the same questions as DuckDB, where there is a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from spark_analytics.engine.duck import Telling, parameters_in, silently, tables_in, what_is_read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_analytics.catalogue import Snapshot


#: On its way to Java, a date is a text whose year must have four digits.
_FIRST_DAY = date(1000, 1, 1)


def _literal(value: Any) -> Any:
    is_date = isinstance(value, date) and not isinstance(value, datetime)
    return max(value, _FIRST_DAY) if is_date else value


class SparkEngine:
    """Answers questions about one version of a catalogue. Every table is a view of the session."""

    def __init__(self, spark: SparkSession, snapshot: Snapshot, telling: Telling = silently) -> None:
        self.snapshot = snapshot
        self._telling = telling
        self._spark = spark
        from spark_analytics.flv.datasource import register

        register(spark)
        snapshot.register(spark)

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Answer a question; `:name` in it is a parameter."""
        values = {name: _literal(parameters[name]) for name in parameters_in(sql)} if parameters else None
        with self._telling(lambda: what_is_read(self.snapshot, tables_in(sql))):
            return self._spark.sql(sql, args=values).toArrow()

    def close(self) -> None:
        """The session is somebody else's."""
