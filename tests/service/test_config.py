"""The values of single options become values of the configuration."""

from __future__ import annotations

import pytest

from rtmprelay.config import relay as config
from rtmprelay.config.relay import RelayConfig, listen_description
from rtmprelay.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1935", "tcp:1935:backlog=1024"),
        (":1935", "tcp:1935:backlog=1024"),
        ("0", "tcp:0:backlog=1024"),
        ("65535", "tcp:65535:backlog=1024"),
        ("127.0.0.1:1935", "tcp:1935:interface=127.0.0.1:backlog=1024"),
        ("localhost:1935", "tcp:1935:interface=localhost:backlog=1024"),
        ("[::1]:1935", r"tcp:1935:interface=\:\:1:backlog=1024"),
        ("[::]:1935", r"tcp:1935:interface=\:\::backlog=1024"),
        ("tcp:1935", "tcp:1935:backlog=1024"),
        ("tcp6:1935", "tcp6:1935:backlog=1024"),
        ("tcp:port=1935", "tcp:port=1935:backlog=1024"),
        ("tcp:1935:backlog=7", "tcp:1935:backlog=7"),
        ("tcp:1935:interface=10.0.0.1", "tcp:1935:interface=10.0.0.1:backlog=1024"),
        ("ssl:443:privateKey=k:certKey=c", "ssl:443:privateKey=k:certKey=c:backlog=1024"),
        ("ssl:443", "ssl:443:backlog=1024"),
        ("unix:/run/rtmp.sock", "unix:/run/rtmp.sock"),
        ("unix:1935", "unix:1935"),
        ("systemd:domain=INET:index=0", "systemd:domain=INET:index=0"),
        ("haproxy:tcp:1935", "haproxy:tcp:1935"),
    ],
)
def test_short_forms_become_endpoint_descriptions(written: str, meant: str) -> None:
    assert listen_description(written) == meant


@pytest.mark.parametrize(
    "written", ["65536", ":99999", "host:70000", "[::1]:65536", "tcp:65536", "tcp:-1", "ssl:99999:certKey=x"]
)
def test_bad_port_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="is not a port: a number from 0 to 65535 is expected"):
        listen_description(written)


def test_very_long_number_is_refused_as_port_and_as_chunk_size() -> None:
    with pytest.raises(ConfigError, match="is not a port"):
        listen_description("9" * 5000)
    with pytest.raises(ConfigError, match="is not a number of bytes"):
        config.chunk_size("9" * 5000)


@pytest.mark.parametrize("size", [128, 4096, 65536])
def test_chunk_size_is_parsed(size: int) -> None:
    assert config.chunk_size(str(size)) == size


@pytest.mark.parametrize("text", ["127", "65537", "0", "-1", "", "4k", "1e3", "4096.0", " 4096", "²"])
def test_bad_chunk_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a number of bytes from 128 to 65536"):
        config.chunk_size(text)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0.0),
        ("0ms", 0.0),
        ("0.5ms", 0.0005),
        ("1ms", 0.001),
        ("40ms", 0.04),
        ("40MS", 0.04),
        ("120ms", 0.12),
        ("1000ms", 1.0),
        ("1s", 1.0),
    ],
)
def test_merge_window_is_parsed_and_accepted_by_the_configuration(written: str, seconds: float) -> None:
    assert config.merge_window(written) == seconds
    assert RelayConfig(merge_window=seconds).merge_window == seconds


@pytest.mark.parametrize(
    "written",
    [
        "",
        "40",
        "2s",
        "0.04",
        "-1ms",
        "40 ms",
        "1001ms",
        "\u0664\u0660ms",
        "on",
        "00",
    ],
)
def test_bad_merge_window_is_refused(written: str) -> None:
    with pytest.raises(
        ConfigError, match="is not a time from 0 to 1000ms: write 0, or a duration such as 40ms"
    ):
        config.merge_window(written)


@pytest.mark.parametrize("seconds", [-0.001, 1.001, 40, float("nan"), float("inf")])
def test_merge_window_in_milliseconds_is_refused_by_the_configuration(seconds: float) -> None:
    """`RelayConfig` takes seconds."""
    with pytest.raises(ConfigError, match="merge_window is a number of seconds from 0 to 1, not"):
        RelayConfig(merge_window=seconds)


def test_defaults_are_the_documented_ones() -> None:
    relay = RelayConfig()
    limits = relay.connection_limits
    assert relay.listen == ("tcp:1935",)
    assert relay.chunk_size == 65536
    assert relay.merge_window == 0.04
    assert (relay.admission_limits.max_connections, relay.admission_limits.max_unconnected_per_address) == (
        10_000,
        4_000,
    )
    assert (limits.handshake_timeout, limits.connect_timeout, limits.idle_timeout) == (5, 10, 60)
    assert (limits.message_size, limits.assembly_size) == (16 * 2**20, 32 * 2**20)
    assert (limits.chunk_streams, limits.message_streams, limits.stall_timeout) == (64, 8, 30)
    assert relay.statistics_interval == 30
