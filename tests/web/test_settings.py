"""What an operator says of HTTP, and what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from rtmprelay.config.relay import http_description
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret
from rtmprelay.web.settings import HttpSettings, read_origin, read_token, token_from


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("8080", "tcp:8080:interface=127.0.0.1:backlog=1024"),
        (":8080", "tcp:8080:interface=127.0.0.1:backlog=1024"),
        ("0.0.0.0:8080", "tcp:8080:interface=0.0.0.0:backlog=1024"),
        ("[::1]:8080", r"tcp:8080:interface=\:\:1:backlog=1024"),
        ("tcp:8080", "tcp:8080:backlog=1024"),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_where_to_listen(text: str, description: str) -> None:
    """Without a host it is for this machine only."""
    assert http_description(text) == description


def test_tokens(tmp_path: Path) -> None:
    """As they are, from a file, from the environment."""
    assert read_token("long-enough") == Secret("long-enough")
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert read_token(f"file:{file}") == Secret("from-a-file")
    assert token_from({}) is None
    assert token_from({"RTMPRELAY_HTTP_TOKEN": ""}) is None
    assert token_from({"RTMPRELAY_HTTP_TOKEN": "from-there"}) == Secret("from-there")


@pytest.mark.parametrize(
    "token", ["", "short", "with a space", "ümläute-ümläute", "line\nbreak-line", "file:/none"]
)
def test_bad_tokens(token: str) -> None:
    """None of them is shown."""
    with pytest.raises(ConfigError) as caught:
        read_token(token)
    assert not token or token.startswith("file:") or token not in str(caught.value)


def test_a_bad_token_in_the_environment_says_where_it_is() -> None:
    """And not what."""
    with pytest.raises(ConfigError, match="RTMPRELAY_HTTP_TOKEN in the environment") as caught:
        token_from({"RTMPRELAY_HTTP_TOKEN": "s3cret"})
    assert "s3cret" not in str(caught.value)


def test_a_token_file_that_is_no_text(tmp_path: Path) -> None:
    """The error names the file."""
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe" * 10)
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_token(f"file:{file}")


@pytest.mark.parametrize("origin", ["*", "https://a.example", "http://127.0.0.1:3000", "HTTPS://A.example"])
def test_origins(origin: str) -> None:
    """Browsers write them in lower case."""
    assert read_origin(origin) == origin.lower()


@pytest.mark.parametrize(
    "origin", ["", "a.example", "https://a.example/", "https://a.example/page", "https://u@a", "null"]
)
def test_bad_origins(origin: str) -> None:
    """A path is no part of an origin."""
    with pytest.raises(ConfigError, match="is not an origin"):
        read_origin(origin)


def test_settings_show_no_token() -> None:
    """Not even when somebody prints them."""
    assert "s3cret" not in repr(HttpSettings(token=Secret("s3cret")))


def test_every_bound_is_documented() -> None:
    """docs/http.rst names all of them."""
    page = (Path(__file__).parents[2] / "docs" / "http.rst").read_text()
    bounds = {field.name for field in attrs.fields(HttpSettings)} - {"listen", "token", "cors"}
    assert {name for name in bounds if re.search(rf"^{name} ", page, re.MULTILINE)} == bounds
