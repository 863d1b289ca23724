"""`twistd rtmprelay --http-status` as an operator runs it."""

from __future__ import annotations

import re
import signal
import urllib.error
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.command import FOREGROUND, TWISTD, Server, refusal, run

TOKEN = "t0ken-that-must-stay-secret"

BAD_OPTIONS = {
    "no endpoint": (
        ["--http-status", "nonsense:"],
        "--http-status: 'nonsense:' is not an endpoint to listen on",
    ),
    "bad port": (["--http-status", ":99999"], "--http-status: 99999 is not a port"),
    "short token": (
        ["--http-status", ":0", "--http-token", "abc"],
        "--http-token: a token needs at least 16",
    ),
    "missing file": (
        ["--http-status", ":0", "--http-token", "file:none"],
        "--http-token: the file 'none' cannot be read",
    ),
    "token alone": (["--http-token", TOKEN], "--http-token needs --http-status"),
    "bad origin": (["--http-status", ":0", "--http-cors", "here"], "--http-cors: 'here' is not an origin"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_http_option_is_refused_in_one_line(name: str) -> None:
    options, expected = BAD_OPTIONS[name]
    message = refusal(*options)
    assert expected in message
    assert TOKEN not in message


def test_lasting_destination_survives_sighup_and_restart(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    """Meanwhile the log has neither stream keys nor the token, and no line for an HTTP request."""
    (tmp_path / "relay.json").write_text('{"destinations": []}')
    (tmp_path / "token").write_text(TOKEN)
    options = ("--relay-config", "relay.json", "--http-status", ":0", "--http-token", "file:token")
    first = start_server(*options)
    new = {"name": "new", "url": "rtmp://127.0.0.1:1/app", "stream_key": "k3y-of-new", "lasting": True}
    assert first.ask("POST", "/destinations", new, TOKEN)["lasting"] is True
    other = {"name": "passing", "url": "rtmp://127.0.0.1:1/other", "stream_key": "k3y-of-passing"}
    first.ask("POST", "/destinations", other, TOKEN)
    first.send_signal(signal.SIGHUP)
    first.wait_for_text("Destinations reloaded: added [], removed [], changed []")
    assert set(first.ask("GET", "/destinations")["destinations"]) == {"new", "passing"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        first.ask("GET", "/nothing")
    assert first.stop()
    assert "destination added: new" in first.text()
    for secret in (TOKEN, "k3y-of-new", "k3y-of-passing"):
        assert secret not in first.text()
    for noise in ("GET ", "POST ", "/nothing", "Traceback"):
        assert noise not in first.text()
    again = start_server(*options)
    assert set(again.ask("GET", "/destinations")["destinations"]) == {"new"}
    assert again.ask("GET", "/destinations/new")["lasting"] is True
    assert again.stop()


def test_token_is_read_from_the_environment(start_server: Callable[..., Server]) -> None:
    """Service managers pass it in this way."""
    server = start_server("--http-status", ":0", environment={"RTMPRELAY_HTTP_TOKEN": TOKEN})
    assert server.ask("GET", "/control", token=TOKEN) == {
        "api_version": 1,
        "changes_allowed": True,
        "authorized": True,
    }
    assert server.stop()


def test_http_port_in_use_ends_the_start_with_one_line(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    taken = f"127.0.0.1:{start_server('--http-status', ':0').http_port()}"
    options = ["--listen", "127.0.0.1:0", "--http-status", taken]
    second = run([*TWISTD, *FOREGROUND, "rtmprelay", *options], tmp_path)
    assert second.returncode == 1
    assert re.fullmatch(r"rtmprelay: --http-status: port \d+ is in use, .*\n", second.stderr)
