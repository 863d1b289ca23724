"""The name of one run of a server."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


def new_instance(wall_time: float | None = None) -> str:
    """A name that no other run has, on any machine: when it began (UTC), and some chance. Names sort by time."""
    begun = datetime.fromtimestamp(time.time() if wall_time is None else wall_time, UTC)
    return f"{begun:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
