"""The options that make a relay a node of a cluster."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
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
from rtmprelay.rtmp.node_pass import read_node_name
from rtmprelay.wire.url import RtmpUrl

_T = TypeVar("_T")

_NEED_A_CLUSTER = ("node-url", "cluster-secret", "cluster-when-lost")


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
