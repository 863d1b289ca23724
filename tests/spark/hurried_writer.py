"""A process that changes a catalogue again and again until it is killed: rows that belong together, in two tables."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import UTC, datetime

import pyarrow as pa

from spark_analytics import catalogue as catalogues
from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueBusyError
from spark_analytics.store.tables import TABLES

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def table(name: str, **values: object) -> pa.Table:
    """A row of a table; all else is null."""
    schema = TABLES[name].arrow_schema()
    return pa.Table.from_pylist([{"day": DAY.date(), **values}], schema=schema)


def write_once(catalogue: Catalogue) -> None:
    """Publish the next version: its number is in one row of `recordings`, and in three of `incidents`."""
    with catalogue.change(wait=60) as change:
        number = change.base.version + 1
        change.drop("incidents", change.base.files("incidents"))
        for part in range(3):
            change.add("incidents", table("incidents", kind=f"{number}", byte_offset=part, wall=DAY))
        change.replace("recordings", table("recordings", path=f"{number}", started_at=DAY))
        # One that is added to in each version, and never replaced.
        change.add("sessions", table("sessions", stream=f"{number}", started_at=DAY))
        change.publish(f"version {number}")


def main(path: str, rounds: int) -> None:
    """Change it so often, 0 for ever."""
    done = 0
    while not rounds or done < rounds:
        try:
            write_once(Catalogue(path))
        except CatalogueBusyError:
            continue
        done += 1


if __name__ == "__main__":
    if "--unlocked" in sys.argv:
        # As two machines that do not see each other's locks.
        setattr(catalogues, "locked", lambda *_: nullcontext())  # noqa: B010
    main(sys.argv[1], int(sys.argv[2]))
