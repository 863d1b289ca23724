"""`twistd rtmprelay --http-status` as an operator runs it."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.service.command import TWISTD, Server, run, wait_for

TOKEN = "t0ken-that-nobody-may-see"

BAD_OPTIONS = {
    "no endpoint": (
        ["--http-status", "nonsense:"],
        "--http-status: 'nonsense:' is not an endpoint to listen on",
    ),
    "bad port": (["--http-status", ":99999"], "--http-status: 99999 is not a port"),
    "short token": (["--http-status", ":0", "--http-token", "abc"], "--http-token: a token needs at least 8"),
    "missing file": (
        ["--http-status", ":0", "--http-token", "file:none"],
        "--http-token: the file 'none' cannot be read",
    ),
    "token alone": (["--http-token", TOKEN], "--http-token and --http-cors need --http-status"),
    "bad origin": (["--http-status", ":0", "--http-cors", "here"], "--http-cors: 'here' is not an origin"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    """And nothing is started."""
    options, expected = BAD_OPTIONS[name]
    done = run([*TWISTD, "-n", "rtmprelay", *options], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr
    assert TOKEN not in done.stderr


class WebServer(Server):
    """A server with HTTP."""

    def http_port(self) -> int:
        """Where it speaks HTTP."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.text()
            return re.search(r"Listening on 127\.0\.0\.1:(\d+) for HTTP", self.text())

        wait_for(found, "HTTP")
        match = found()
        assert match is not None
        return int(match[1])

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """Make a request with the token; the document that comes back."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port()}{path}",
            method=method,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            content = answer.read()
        return json.loads(content) if content else None


def test_the_life_of_a_lasting_destination(tmp_path: Path) -> None:
    """Added over HTTP, kept over SIGHUP and over a new start; the log has neither key nor token, and no request."""
    file = tmp_path / "relay.json"
    file.write_text('{"destinations": []}')
    (tmp_path / "token").write_text(TOKEN)
    options = ("--relay-config", "relay.json", "--http-status", ":0", "--http-token", "file:token")
    server = WebServer(tmp_path, *options)
    try:
        new = {"name": "new", "url": "rtmp://127.0.0.1:1/app", "stream_key": "k3y-of-new", "lasting": True}
        assert server.ask("POST", "/destinations", new)["lasting"] is True
        other = {"name": "passing", "url": "rtmp://127.0.0.1:1/other", "stream_key": "k3y-of-passing"}
        server.ask("POST", "/destinations", other)
        server.process.send_signal(signal.SIGHUP)
        wait_for(
            lambda: "Destinations reloaded: added [], removed [], changed []" in server.text(), "the reload"
        )
        assert set(server.ask("GET", "/destinations")["destinations"]) == {"new", "passing"}
        with pytest.raises(urllib.error.HTTPError) as caught:
            server.ask("GET", "/nothing")
        assert caught.value.code == 404
        assert server.stop()
        log = server.text()
    finally:
        server.stop()
    assert "destination added: new" in log
    for secret in (TOKEN, "k3y-of-new", "k3y-of-passing"):
        assert secret not in log
    for noise in ("GET ", "POST ", "/nothing", "Traceback"):
        assert noise not in log
    again = WebServer(tmp_path, *options)
    try:
        assert set(again.ask("GET", "/destinations")["destinations"]) == {"new"}
        assert again.ask("GET", "/destinations/new")["lasting"] is True
    finally:
        assert again.stop()


def test_the_token_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As service managers give it."""
    monkeypatch.setenv("RTMPRELAY_HTTP_TOKEN", TOKEN)
    server = WebServer(tmp_path, "--http-status", ":0")
    try:
        assert server.ask("GET", "/control") == {
            "api_version": 1,
            "changes_allowed": True,
            "authorized": True,
        }
    finally:
        assert server.stop()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """One line, exit status 1."""
    first = WebServer(tmp_path, "--http-status", ":0")
    try:
        taken = f"127.0.0.1:{first.http_port()}"
        options = ["--listen", "127.0.0.1:0", "--http-status", taken]
        second = run([*TWISTD, "-n", "--pidfile=", "rtmprelay", *options], tmp_path)
        assert second.returncode == 1
        assert "rtmprelay: Couldn't listen on 127.0.0.1" in second.stderr
    finally:
        assert first.stop()
