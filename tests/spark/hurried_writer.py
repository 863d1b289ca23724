"""A process that changes a catalogue again and again until it is killed: rows that belong together, in two tables."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pyarrow as pa

from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueBusyError
from spark_analytics.schemas import TABLES

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def table(name: str, **values: object) -> pa.Table:
    """A row of a table; all else is null."""
    schema = TABLES[name].arrow_schema()
    return pa.Table.from_pylist([{"day": DAY.date(), **values}], schema=schema)


def main(path: str, rounds: int) -> None:
    """Change it so often, 0 for ever."""
    done = 0
    while not rounds or done < rounds:
        try:
            with Catalogue(path).change(wait=60) as change:
                number = change.base.manifest.version + 1
                for part in range(3):
                    rows = table("incidents", kind=f"{number}", byte_offset=part, wall=DAY)
                    change.write_arrow("incidents", rows, part=f"-{part}")
                change.write_arrow("recordings", table("recordings", path=f"{number}", started_at=DAY))
                change.publish()
        except CatalogueBusyError:
            continue
        done += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
