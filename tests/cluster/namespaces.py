"""Network namespaces of a test's own, one for each node, with links that can be cut.

Each has two links to this one: one for media, and one for the directory alone. A link that is cut loses everything, and
nobody is told, as with a cable.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import attrs
import pytest


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def can_be_made() -> bool:
    """Whether this system lets the tests make one."""
    name = f"rt{os.getpid()}try"
    with suppress(OSError, subprocess.SubprocessError):
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
        return True
    return False


needs_namespaces = pytest.mark.skipif(
    shutil.which("ip") is None or os.geteuid() != 0 or not can_be_made(),
    reason="network namespaces need root and ip: apt-get install iproute2",
)


#: No number comes twice: the links of a namespace that is deleted stay for a moment.
_numbers = itertools.count(1)


@attrs.frozen
class Namespace:
    """A network of its own.

    Attributes:
        address: Where it is reached.
        here: The address of this side of its link for media.
        directory: The address of this side of its link for the directory.
    """

    name: str
    address: str
    here: str
    directory: str

    def cut(self, *links: str) -> None:
        """Cut links: `m` is that for media, `d` that for the directory."""
        for link in links:
            _ip("link", "set", f"{self.name}{link}", "down")

    def mend(self, *links: str) -> None:
        for link in links:
            _ip("link", "set", f"{self.name}{link}", "up")


class Network:
    """As many namespaces as a test wants; packets go from one to another by way of this one."""

    def __init__(self) -> None:
        self._names: list[str] = []
        # Networks of tests that run at the same time are apart.
        self._number = os.getpid() % 200

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in self._names:
            # Its links go with it.
            _ip("netns", "delete", name)

    def add(self) -> Namespace:
        count = next(_numbers)
        # Names of links have at most 15 characters.
        name = f"rt{os.getpid()}n{count}"
        _ip("netns", "add", name)
        self._names.append(name)
        _ip("-n", name, "link", "set", "lo", "up")
        found = []
        for link, net in (("m", 2 * count), ("d", 2 * count + 1)):
            here, there = f"10.{self._number}.{net}.1", f"10.{self._number}.{net}.2"
            _ip("link", "add", f"{name}{link}", "type", "veth", "peer", "name", f"in{link}", "netns", name)
            _ip("address", "add", f"{here}/24", "dev", f"{name}{link}")
            _ip("link", "set", f"{name}{link}", "up")
            # What comes from this link alone may go on to another.
            Path(f"/proc/sys/net/ipv4/conf/{name}{link}/forwarding").write_text("1")
            _ip("-n", name, "address", "add", f"{there}/24", "dev", f"in{link}")
            _ip("-n", name, "link", "set", f"in{link}", "up")
            found.append((here, there))
        (here, there), (directory, _) = found
        _ip("-n", name, "route", "add", "default", "via", here)
        return Namespace(name, there, here, directory)
