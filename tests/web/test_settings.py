"""The settings of the HTTP part, and how wrong ones are refused."""

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
def test_listener_without_a_host_is_on_loopback(text: str, description: str) -> None:
    assert http_description(text) == description


def test_token_is_read_from_the_option_a_file_or_the_environment(tmp_path: Path) -> None:
    assert read_token("long-enough-for-16") == Secret("long-enough-for-16")
    file = tmp_path / "token"
    file.write_text("from-a-file-of-mine\n")
    assert read_token(f"file:{file}") == Secret("from-a-file-of-mine")
    assert token_from({}) is None
    assert token_from({"RTMPRELAY_HTTP_TOKEN": ""}) is None
    assert token_from({"RTMPRELAY_HTTP_TOKEN": "from-there-and-long"}) == Secret("from-there-and-long")


@pytest.mark.parametrize(
    "token",
    ["", "short", "15-characters--", "with a space", "ümläute-ümläute", "line\nbreak-line", "file:/none"],
)
def test_wrong_token_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_token(token)
    assert not token or token.startswith("file:") or token not in str(caught.value)


def test_wrong_token_in_the_environment_is_refused_by_the_variables_name() -> None:
    with pytest.raises(ConfigError, match="RTMPRELAY_HTTP_TOKEN in the environment") as caught:
        token_from({"RTMPRELAY_HTTP_TOKEN": "s3cret"})
    assert "s3cret" not in str(caught.value)


def test_token_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe" * 10)
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_token(f"file:{file}")


@pytest.mark.parametrize("origin", ["*", "https://a.example", "http://127.0.0.1:3000", "HTTPS://A.example"])
def test_origin_is_read_in_lower_case(origin: str) -> None:
    """Browsers send it in lower case."""
    assert read_origin(origin) == origin.lower()


@pytest.mark.parametrize(
    "origin", ["", "a.example", "https://a.example/", "https://a.example/page", "https://u@a", "null"]
)
def test_wrong_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="is not an origin"):
        read_origin(origin)


def test_repr_of_settings_hides_the_token() -> None:
    assert "s3cret" not in repr(HttpSettings(token=Secret("s3cret")))


def test_every_limit_of_the_settings_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.rst").read_text()
    bounds = {field.name for field in attrs.fields(HttpSettings)} - {
        "listen",
        "media_listen",
        "token",
        "read_token",
        "cors",
        "trusted_proxies",
        "recordings",
    }
    assert {name for name in bounds if re.search(rf"^{name} ", page, re.MULTILINE)} == bounds
