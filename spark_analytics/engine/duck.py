"""Answers SQL with DuckDB, from the Parquet files of a catalogue, without Java."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_analytics.errors import CatalogueError
from spark_analytics.store.part_files import PartFile, dataset_of
from spark_analytics.store.schema import DAY, Table
from spark_analytics.store.tables import TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from spark_analytics.store.versions import Snapshot

#: Functions that the questions use, under the names that Spark has for them.
_FUNCTIONS = (
    "explode(x) AS unnest(x)",
    "sequence(first, last, step) AS generate_series(first, last, step)",
    "percentile(x, p) AS quantile_cont(x, p)",
    "collect_list(x) AS list(x)",
    "array_sort(x) AS list_sort(x)",
    "struct(a, b) AS struct_pack(a := a, b := b)",
    "unix_micros(t) AS epoch_us(t)",
    "timestamp_micros(n) AS make_timestamptz(n)",
    "to_date(t) AS CAST(t AS DATE)",
    "try_sum(x) AS sum(x)",
    "try_divide(a, b) AS CASE WHEN b <> 0 THEN a / b END",
    "get_json_object(text, path) AS json_extract_string(text, path)",
    "date_trunc_minute(t) AS date_trunc('minute', t)",
    # Of the row with the largest `y`, also if its `x` is null: DuckDB's own passes over that row.
    "max_by(x, y) AS arg_max_null(x, y)",
    "min_by(x, y) AS arg_min_null(x, y)",
)

#: Standard SQL, and Spark, write this after the brackets.
_IGNORE_NULLS = re.compile(r"(\blast_value\([^()]*)\)\s+IGNORE NULLS\b")

_TYPES = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "int": "INTEGER",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "date": "DATE",
    "binary": "BLOB",
    "array<string>": "VARCHAR[]",
    "map<string,bigint>": "MAP(VARCHAR, BIGINT)",
}

#: How a question names its parameters.
PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")


#: Says in a block that takes long what goes on there.
Telling: TypeAlias = "Callable[[Callable[[], str]], AbstractContextManager[None]]"


def silently(_: Callable[[], str]) -> AbstractContextManager[None]:
    """Nobody waits."""
    return nullcontext()


def tables_in(sql: str) -> list[str]:
    """The tables that a question names."""
    return [table for table in TABLES if re.search(rf"\b{table}\b", sql, re.IGNORECASE)]


def what_is_read(snapshot: Snapshot, tables: Iterable[str]) -> str:
    """How much there is to read for a question, for people who wait for the answer."""
    names = list(tables)
    files = [file for table in names for file in snapshot.files(table)]
    size = sum(file.size for file in files)
    where = f" of {', '.join(names)}" if names else ""
    return f"reading up to {size / 1e6:,.1f} MB in {len(files)} files{where}"


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB in this process, with the functions that the questions use.

    Raises:
        CatalogueError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise CatalogueError(
            "This needs duckdb, which is not installed: pip install 'rtmprelay[catalogue]'"
        ) from None
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for function in _FUNCTIONS:
        connection.execute(f"CREATE MACRO {function}")
    return connection


def parameters_in(sql: str) -> set[str]:
    """The names of the parameters of a question."""
    return set(PARAMETER.findall(sql))


def in_dialect(sql: str) -> str:
    """A question, with its parameters, as DuckDB writes it."""
    return _IGNORE_NULLS.sub(r"\1 IGNORE NULLS)", PARAMETER.sub(r"$\1", sql))


class DuckEngine:
    """Answers questions about one version of a catalogue.

    Every table is a view, made when a question first names it: a question opens the files of its own tables only.
    """

    def __init__(self, snapshot: Snapshot, telling: Telling = silently) -> None:
        """Begin.

        Args:
            telling: Around each question; what is said there, if it takes long.

        Raises:
            CatalogueError: DuckDB is not installed.
        """
        self._connection = connect()
        import duckdb

        self.snapshot = snapshot
        self._telling = telling
        self._views: set[str] = set()
        self._error = duckdb.Error

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Answer a question; `:name` in it is a parameter.

        Raises:
            CatalogueError: It cannot be answered; in one line.
        """
        values = parameters or {}
        text = in_dialect(sql) if values else sql
        used = parameters_in(sql) if values else set()
        tables = tables_in(sql)
        with self._telling(lambda: what_is_read(self.snapshot, tables)):
            try:
                for table in tables:
                    if table not in self._views:
                        self._connection.execute(self._view_of(TABLES[table]))
                        self._views.add(table)
                relation = self._connection.sql(text, params={name: values[name] for name in used} or None)
                if relation is None:
                    raise CatalogueError("This is no question: it has no rows to show.")
                return _plain(relation.to_arrow_table())
            except self._error as error:
                raise CatalogueError(_in_one_line(str(error))) from error

    def close(self) -> None:
        """Let go of the files."""
        self._connection.close()

    def _view_of(self, table: Table) -> str:
        folder = self.snapshot.folder(table.name)
        found = self.snapshot.files(table.name)
        if not folder.is_local:
            return self._view_elsewhere(table, found)
        files = [f"{folder}/{file.path}" for file in found]
        if not files:
            columns = [f'CAST(NULL AS {_TYPES[column.type]}) AS "{column.name}"' for column in table.columns]
            return f'CREATE VIEW "{table.name}" AS SELECT {", ".join(columns)} WHERE false'
        names = ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}'" for name in files)
        # Files of other days are passed over. That is not for a catalogue below folders of this form.
        is_hive = "=" not in str(self.snapshot.root)
        hive = f"true, hive_types = {{'{DAY}': DATE}}" if is_hive else "false, filename = true"
        # If all files have the same columns, one of them is opened to see which; a question opens those of its days.
        is_mixed = any(file.schema != str(table.version) for file in found)
        union = f"union_by_name = {'true' if is_mixed else 'false'}"
        source = f"read_parquet([{names}], {union}, hive_partitioning = {hive})"
        day = DAY if is_hive else f"CAST(regexp_extract(filename, '.*/{DAY}=([0-9-]+)/', 1) AS DATE)"
        there = self._columns_of(source) if is_mixed else set(table.column_names)
        columns = []
        for column in table.columns:
            if column.name == DAY:
                columns.append(f"{day} AS {DAY}")
            elif column.name in there:
                columns.append(f'"{column.name}"')
            else:
                # Another version of this program wrote it, before there was such a column.
                columns.append(f'CAST(NULL AS {_TYPES[column.type]}) AS "{column.name}"')
        return f'CREATE VIEW "{table.name}" AS SELECT {", ".join(columns)} FROM {source}'

    def _view_elsewhere(self, table: Table, files: Iterable[PartFile]) -> str:
        """A view of files that pyarrow reads: DuckDB would need an extension from the network."""
        name = f"{table.name}_files"
        self._connection.register(name, dataset_of(self.snapshot.folder(table.name), table, files))
        return f'CREATE VIEW "{table.name}" AS SELECT * FROM "{name}"'

    def _columns_of(self, source: str) -> set[str]:
        rows = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        return {str(row[0]) for row in rows}


def _in_one_line(text: str) -> str:
    """What DuckDB says, without the drawing of the place."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("LINE ", "^")))


def _plain(table: pa.Table) -> pa.Table:
    """The answer in the types that Spark would have given: sums of whole numbers are numbers of 128 bits in DuckDB."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            column = table.column(number).cast(pa.int64())
            table = table.set_column(number, field.name, column)
    return table
