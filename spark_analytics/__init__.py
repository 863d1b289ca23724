"""The catalogue of recordings: Spark indexes what was recorded, and answers by SQL. See docs/catalogue.rst.

Only `rtmprelay.flv` is used of the server: there is no Twisted in a Spark worker.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_analytics.door import OpenCatalogue

__all__ = ["open"]


def open(path: str | os.PathLike[str], as_of: int | datetime | None = None) -> OpenCatalogue:
    """Open a catalogue for reading: `spark_analytics.open("catalogue").table("recordings").pandas()`.

    Args:
        path: A folder, or an address such as `s3://bucket/catalogue`.
        as_of: The number of an earlier version, or a moment; the newest one is meant if nothing is said.

    Raises:
        CatalogueError: There is no catalogue, or no such version of it.
    """
    from spark_analytics.catalogue import Catalogue
    from spark_analytics.door import OpenCatalogue

    catalogue = Catalogue(path)
    return OpenCatalogue(catalogue, catalogue.open(as_of))
