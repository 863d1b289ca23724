"""A catalogue as programs and notebooks use it: one version of it, whose tables are given as what they work with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import attrs

from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueError
from spark_analytics.store.part_files import dataset_of
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import PublishedVersion, Snapshot

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession


@attrs.frozen
class OpenCatalogue:
    """One version of a catalogue. What is published later is seen by whoever opens it then."""

    catalogue: Catalogue
    snapshot: Snapshot

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.snapshot.version

    @property
    def tables(self) -> list[str]:
        """The names of all tables."""
        return list(TABLES)

    def table(self, name: str) -> OpenTable:
        """One table.

        Raises:
            CatalogueError: There is none of this name.
        """
        if name not in TABLES:
            raise CatalogueError(f"There is no table {name}; there are: {', '.join(TABLES)}.")
        return OpenTable(self, name)

    def sql(self, question: str) -> pa.Table:
        """Answer a question by DuckDB; every table is a view.

        Raises:
            CatalogueError: It cannot be answered.
        """
        from spark_analytics.engine.duck import DuckEngine

        engine = DuckEngine(self.snapshot)
        try:
            return engine.ask(question)
        finally:
            engine.close()

    def versions(self) -> list[PublishedVersion]:
        """All versions that can be opened, the last first."""
        return self.catalogue.versions()


@attrs.frozen
class OpenTable:
    """One table of one version."""

    opened: OpenCatalogue
    name: str

    def arrow(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        days: tuple[date, date] | None = None,
    ) -> pa.Table:
        """The rows as a table of Arrow.

        Args:
            columns: Those that are read; None is all of them.
            where: A condition, as pyarrow writes it.
            days: The first and the last day; the files of others are not opened.
        """
        return self.opened.snapshot.arrow(self.name, columns, where, days)

    def pandas(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        days: tuple[date, date] | None = None,
    ) -> Any:
        """The same as a frame of pandas."""
        return self.arrow(columns, where, days).to_pandas()

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The same as a relation of DuckDB, which reads what a question needs; of the default connection if none is given."""
        import duckdb

        snapshot = self.opened.snapshot
        rows = dataset_of(snapshot.folder(self.name), TABLES[self.name], snapshot.files(self.name))
        return (connection or duckdb.default_connection()).from_arrow(rows)

    def spark(self, session: SparkSession) -> DataFrame:
        """The same as a frame of Spark."""
        return self.opened.snapshot.read(session, self.name)

    def versions(self) -> list[PublishedVersion]:
        """All versions of the catalogue that can be opened, the last first."""
        return self.opened.versions()
