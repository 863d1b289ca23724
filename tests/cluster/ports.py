"""Ports that the documents name, moved to free ones."""

from __future__ import annotations

import re

from tests.helpers import free_port


class Ports:
    """A free port for each that the documents name."""

    def __init__(self) -> None:
        self._free: dict[str, str] = {}

    def moved(self, text: str) -> str:
        """A text with the ports that this test has."""
        return re.sub(
            r":(\d{4})\b", lambda found: f":{self._free.setdefault(found[1], str(free_port()))}", text
        )

    def __getitem__(self, port: str) -> int:
        return int(self.moved(f":{port}")[1:])
