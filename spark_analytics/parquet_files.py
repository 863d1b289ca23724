"""The Parquet files of a table, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analytics.schemas import DAY

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a day that are read together: each group says which streams it has, and a question about one stream skips the others.
ROWS_TOGETHER = 1 << 16


def files_of(folders: Iterable[Path], days: tuple[date, date] | None = None) -> list[Path]:
    """The files of these folders, or of those days only."""
    found: list[Path] = []
    for folder in folders:
        for part in sorted(folder.glob(f"{DAY}=*")):
            if days is None or days[0] <= date.fromisoformat(part.name.removeprefix(f"{DAY}=")) <= days[1]:
                found += sorted(file for file in part.glob("*.parquet") if file.name[0] not in "._")
    return found


def count_rows(folders: Iterable[Path]) -> int:
    """How many rows there are in these folders."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(file).num_rows) for file in files_of(folders))


def write_by_day(rows: pa.Table, folder: Path) -> None:
    """Write rows as Spark would: a folder for each day, whose name is not repeated in the file."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for day in pc.unique(rows[DAY]).to_pylist():
        part = folder / f"{DAY}={day.isoformat()}"
        part.mkdir(parents=True)
        of_day = rows.filter(pc.equal(rows[DAY], day)).drop_columns([DAY])
        pq.write_table(of_day, part / "part-0.parquet", compression="zstd", row_group_size=ROWS_TOGETHER)
