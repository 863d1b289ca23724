"""The options about other relays: streams that are fetched from them, and the cluster that this one is a node of."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TypeVar

from twisted.python.usage import UsageError

from rtmprelay.cluster.settings import (
    ClusterSettings,
    WhenLost,
    read_cluster_secret,
    read_directory_address,
    read_node_url,
    read_when_lost,
)
from rtmprelay.errors import ConfigError
from rtmprelay.pulls.config_file import read_pulls
from rtmprelay.pulls.settings import PullSettings, pull_from_option, refuse_duplicate_names
from rtmprelay.rtmp.node_pass import read_node_name
from rtmprelay.wire.url import RtmpUrl

_T = TypeVar("_T")

_NEED_A_CLUSTER = ("node-url", "cluster-secret", "cluster-when-lost")


#: As Twisted's options have them: name, short name, default, help.
NODE_PARAMETERS: list[list[str | None]] = [
    [
        "node-name",
        None,
        None,
        "The name of this relay among others. Default: in a cluster host name and port, else a random one.",
    ],
    [
        "cluster",
        None,
        None,
        "The directory that nodes share: redis://[user:password@]HOST:PORT/DB, rediss:// for TLS, or file:PATH that holds it.",
    ],
    ["node-url", None, None, "Where the other nodes reach this one: rtmp://ADDRESS:PORT."],
    ["cluster-secret", None, None, "A file with what the nodes show each other: file:PATH."],
    [
        "cluster-when-lost",
        None,
        None,
        "What becomes of new publishers while the directory is away: accept or refuse. Default: those whose stream goes to destinations are refused.",
    ],
    [
        "drain-for",
        None,
        "60s",
        "How long it may take until the last client is sent away when the relay is drained.",
    ],
]


def read_all_pulls(relay_config: str | None, rules: Sequence[str]) -> tuple[PullSettings, ...]:
    """The pulls of the configuration file, and those of the command line.

    Raises:
        ConfigError: Its message does not contain keys.
    """
    pulls: list[PullSettings] = []
    if relay_config:
        try:
            pulls += read_pulls(relay_config)
        except ConfigError as error:
            raise ConfigError(f"--relay-config: {error}") from None
    for number, rule in enumerate(rules, 1):
        try:
            pulls.append(pull_from_option(rule, {one.name for one in pulls}))
        except ConfigError as error:
            raise ConfigError(f"--pull (number {number}): {error}") from None
    return refuse_duplicate_names(pulls)


def cluster_settings(options: Mapping[str, str | None]) -> ClusterSettings | None:
    """The cluster that the options name; None if they name none."""
    if options["cluster"] is None:
        for option in _NEED_A_CLUSTER:
            if options[option] is not None:
                raise UsageError(f"--{option}: there is no cluster; give --cluster")
        return None
    for option in ("node-url", "cluster-secret"):
        if options[option] is None:
            raise UsageError(f"--cluster: --{option} is needed too")
    if find_spec("txredisapi") is None:
        raise UsageError("--cluster: txredisapi is not installed; pip install 'rtmprelay[cluster]' brings it")
    policy = WhenLost.BY_DESTINATIONS
    if options["cluster-when-lost"] is not None:
        policy = _read(options, "cluster-when-lost", read_when_lost)
    return ClusterSettings(
        directory=_read(options, "cluster", read_directory_address),
        node_url=_read(options, "node-url", read_node_url),
        secret=_read(options, "cluster-secret", read_cluster_secret),
        when_lost=policy,
    )


def node_name(options: Mapping[str, str | None]) -> str | None:
    """The name of the node; None for a random one."""
    if options["node-name"] is not None:
        return _read(options, "node-name", read_node_name)
    if options["cluster"] is None or options["node-url"] is None:
        return None
    url = _read(options, "node-url", read_node_url)
    return f"{platform.node()}:{RtmpUrl.parse(f'{url}/app').port}"


def _read(options: Mapping[str, str | None], option: str, read: Callable[[str], _T]) -> _T:
    try:
        return read(options[option] or "")
    except ConfigError as error:
        raise UsageError(f"--{option}: {error}") from error
