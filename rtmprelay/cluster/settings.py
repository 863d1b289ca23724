"""The settings of a node of a cluster, and how they are written."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from urllib.parse import unquote

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_secret
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl

_ADDRESS = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<user>[^:@/]*):(?P<password>.*)@)?(?P<host>\[[^\]]+\]|[^:/@\[\]]+)"
    r"(?::(?P<port>\d{1,5}))?(?:/(?P<database>\d{1,4})?)?"
)

_DEFAULT_PORT = 6379

#: Characters. A shorter one can be tried out.
_SHORTEST_SECRET = 16


class WhenLost(Enum):
    """What happens to new publishers while the directory is away."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    #: Refuse those whose stream goes to destinations: nobody knows whether another node sends it there.
    BY_DESTINATIONS = "by destinations"


@attrs.frozen
class DirectoryAddress:
    """Where the directory is."""

    host: str
    port: int = _DEFAULT_PORT
    database: int = 0
    user: str = ""
    password: Secret = attrs.field(factory=lambda: Secret(""))
    secure: bool = False

    @property
    def location(self) -> str:
        """`host:port/database`, which holds no secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.database}"


@attrs.frozen
class ClusterSettings:
    """One node of a cluster."""

    directory: DirectoryAddress
    #: Where the other nodes reach this one: `rtmp://ADDRESS:PORT`.
    node_url: str
    #: What the nodes show each other.
    secret: Secret
    when_lost: WhenLost = WhenLost.BY_DESTINATIONS


def read_directory_address(text: str) -> DirectoryAddress:
    """The address of the directory: `redis://[user:password@]HOST:PORT/DB`, or `file:PATH` that holds it.

    Raises:
        ConfigError: Its message does not contain the password.
    """
    if text.startswith("file:"):
        text = read_secret(Path(text.removeprefix("file:")), "the address of the directory").reveal()
    parts = _ADDRESS.fullmatch(text)
    if parts is None:
        raise ConfigError(
            "it is not the address of a directory: redis://[user:password@]HOST:PORT/DB, rediss:// for TLS, or"
            " file:PATH is expected"
        )
    port = int(parts["port"] or _DEFAULT_PORT)
    if not 1 <= port <= 65535:
        raise ConfigError("its port is wrong: a number from 1 to 65535 is expected")
    return DirectoryAddress(
        host=parts["host"].strip("[]"),
        port=port,
        database=int(parts["database"] or 0),
        user=unquote(parts["user"] or ""),
        password=Secret(unquote(parts["password"] or "")),
        secure=parts["scheme"] == "rediss",
    )


def read_node_url(text: str) -> str:
    """Where the other nodes reach this one, checked: `rtmp://ADDRESS:PORT`."""
    url = text.rstrip("/")
    if not re.fullmatch(r"rtmps?://[^/?#@]+", url):
        raise ConfigError("rtmp://ADDRESS:PORT is expected: where the other nodes reach this one")
    RtmpUrl.parse(f"{url}/app/name")
    return url


def read_cluster_secret(text: str) -> Secret:
    """The secret of the cluster, which is in a file: `file:PATH`."""
    if not text.startswith("file:"):
        raise ConfigError(
            "file:PATH is expected: a secret on the command line is seen by every user of the machine"
        )
    secret = read_secret(Path(text.removeprefix("file:")), "the cluster secret")
    if len(secret.reveal()) < _SHORTEST_SECRET:
        raise ConfigError(
            f"the secret is too short: at least {_SHORTEST_SECRET} characters; openssl rand -hex 24 makes a good one"
        )
    return secret


def read_when_lost(text: str) -> WhenLost:
    """What `--cluster-when-lost` says."""
    if text not in (WhenLost.ACCEPT.value, WhenLost.REFUSE.value):
        raise ConfigError("accept or refuse is expected")
    return WhenLost(text)
