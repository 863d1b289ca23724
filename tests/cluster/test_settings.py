"""What an operator says about a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.cluster.settings import (
    DirectoryAddress,
    WhenLost,
    read_cluster_secret,
    read_directory_address,
    read_node_url,
    read_when_lost,
)
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("redis://host", DirectoryAddress("host")),
        ("redis://:pass@[::1]:7000/3", DirectoryAddress("::1", 7000, 3, "", Secret("pass"))),
        ("rediss://user:p%40s@host:1/", DirectoryAddress("host", 1, 0, "user", Secret("p@s"), True)),
    ],
)
def test_addresses_are_read(text: str, address: DirectoryAddress) -> None:
    assert read_directory_address(text) == address


def test_password_is_never_shown() -> None:
    address = read_directory_address("redis://user:open-sesame@host:7000/3")
    assert "sesame" not in repr(address) + address.location
    with pytest.raises(ConfigError) as refused:
        read_directory_address("redis://user:open-sesame@host:port")
    assert "sesame" not in str(refused.value)


def test_address_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "directory"
    file.write_text("redis://:pass@host\n")
    assert read_directory_address(f"file:{file}").password == Secret("pass")


@pytest.mark.parametrize(
    "text", ["", "host", "http://host", "redis://", "redis://host/x", "redis://host:70000"]
)
def test_bad_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_directory_address(text)


@pytest.mark.parametrize("text", ["host:1935", "http://h", "rtmp://h/app", "rtmp://u:p@h", "rtmp://"])
def test_bad_node_urls_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_node_url(text)


def test_node_url_and_policy_are_read() -> None:
    assert read_node_url("rtmp://10.0.0.1:1935/") == "rtmp://10.0.0.1:1935"
    assert read_when_lost("accept") is WhenLost.ACCEPT
    with pytest.raises(ConfigError, match="accept or refuse"):
        read_when_lost("by destinations")


def test_secret_must_be_in_a_file_and_long(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("short")
    with pytest.raises(ConfigError, match="too short"):
        read_cluster_secret(f"file:{file}")
    file.write_text("a long enough secret\n")
    assert read_cluster_secret(f"file:{file}") == Secret("a long enough secret")
    with pytest.raises(ConfigError, match="file:PATH is expected"):
        read_cluster_secret("a long enough secret")
