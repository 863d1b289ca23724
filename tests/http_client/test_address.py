"""Addresses of HTTP servers as operators write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.http_client.poster import read_address
from rtmprelay.secret import Secret


@pytest.mark.parametrize(
    ("argument", "url", "shown"),
    [
        ("http://host/check", "http://host/check", "http://host/check"),
        ("https://host", "https://host/", "https://host/"),
        ("HTTPS://host:8443/a/b?c=MARKED", "https://host:8443/a/b?c=MARKED", "https://host:8443/a/b"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a", "http://[::1]:8080/a"),
        ("http://host?q=1", "http://host/?q=1", "http://host/"),
        # `--auth http://host/path`: the name of the plugin is also the beginning of the address.
        ("//host/check", "http://host/check", "http://host/check"),
        ("https://host/a#timeout=2", "https://host/a", "https://host/a"),
    ],
)
def test_address_is_parsed_and_shown_without_its_query(argument: str, url: str, shown: str) -> None:
    address, _ = read_address(argument)
    assert address.url.reveal() == url
    assert address.shown == shown
    assert "MARKED" not in repr(address)


def test_options_after_the_address_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("MARKED-token\n")
    address, options = read_address(
        f"https://host/a#timeout=2.5&cache=7&ca-file=/ca.pem&token-file={tmp_path}/token", {"cache"}
    )
    assert options.number("timeout", 1, 0, 10) == 2.5
    assert options.number("cache", 1, 0, 10) == 7
    assert address.ca_file == "/ca.pem"
    assert address.token == Secret("MARKED-token")
    assert "MARKED" not in repr(address)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "the address is missing"),
        ("#timeout=1", "the address is missing"),
        ("ftp://host/", "this is not an address"),
        ("host/check", "this is not an address"),
        ("http:///check", "this is not an address"),
        ("http://ho st/", "this is not an address"),
        ("http://host/\r\nX: y", "this is not an address"),
        ("http://höst/", "this is not an address"),
        ("http://host:99999/", "the port of the address is 99999"),
        ("http://host:0/", "the port of the address is 0"),
        ("http://user:MARKED@host/", "a user or a password in the address would be seen"),
        ("http://MARKED@host/", "a user or a password in the address would be seen"),
        ("http://host/#cache=1", "unknown option 'cache'; known options: ca-file, timeout, token-file"),
        ("http://host/#timeout", "the option timeout has no value"),
        ("http://host/#timeout=1&timeout=2", "the option timeout is there twice"),
        ("http://host/#token-file=/nowhere/t", "the token file '/nowhere/t' cannot be read: No such file"),
    ],
)
def test_bad_address_is_refused_with_its_reason(argument: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_address(argument)
    assert "MARKED" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff", "ü".encode(), b"x" * 5000])
def test_bad_token_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="token file"):
        read_address(f"http://host/#token-file={tmp_path}/token")
