"""What an operator is told at the start: once for each thing, and never what was not asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from rtmprelay.config.first_start import is_for_this_machine, start_warnings
from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from rtmprelay.service import RelayService

RELAYED = ("--relay-to", "rtmp://live.example/app/key")


def warnings(*options: str) -> list[str]:
    parsed = Options()
    parsed.parseOptions([*options])
    return start_warnings(parsed["config"])


@pytest.mark.parametrize("effect", [RELAYED, ("--record-all",), ("--record", "live/*")])
def test_open_listener_with_an_effect_is_warned_of_unless_it_is_meant(effect: tuple[str, ...]) -> None:
    (warning,) = warnings(*effect)
    assert "tcp:1935" in warning
    assert "--auth" in warning
    assert "--open" in warning
    assert warnings(*effect, "--open") == []
    assert warnings(*effect, "--auth", "allow-from:127.0.0.0/8") == []
    assert warnings(*effect, "--listen", "127.0.0.1:1935") == []


def test_listener_without_an_effect_is_not_warned_of() -> None:
    assert warnings() == []


@pytest.mark.parametrize(
    ("description", "local"),
    [
        ("tcp:1935", False),
        ("tcp:1935:interface=127.0.0.1", True),
        ("tcp:1935:interface=127.1.2.3:backlog=5", True),
        (r"tcp6:1935:interface=\:\:1", True),
        (r"tcp6:1935:interface=\:\:", False),
        ("tcp:1935:interface=192.0.2.1", False),
        ("tcp:1935:interface=localhost", True),
        ("haproxy:tcp:1936:interface=127.0.0.1", True),
        ("haproxy:tcp:1936", False),
        ("unix:/run/rtmp.sock", True),
        ("systemd:domain=INET:index=0", False),
        ("ssl:443:privateKey=k:certKey=c", False),
    ],
)
def test_listener_is_for_this_machine_if_its_description_says_so(description: str, local: bool) -> None:
    assert is_for_this_machine(description) is local


def test_token_beyond_this_machine_needs_encryption(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-24-characters")
    token.chmod(0o600)
    given = ("--http-token", f"file:{token}")
    assert warnings("--http-status", ":8080", *given) == []
    (warning,) = warnings("--http-status", "0.0.0.0:8080", *given)
    assert "unencrypted" in warning
    assert "a-token" not in warning


def test_token_on_the_command_line_is_in_the_list_of_processes() -> None:
    (warning,) = warnings("--http-status", ":8080", "--http-token", "a-token-of-24-characters")
    assert "ps" in warning
    assert "a-token" not in warning


def test_token_in_the_settings_file_is_not(tmp_path: Path) -> None:
    settings = tmp_path / "rtmprelay.toml"
    settings.write_text('http-status = ":8080"\nhttp-token = "a-token-of-24-characters"\n')
    settings.chmod(0o600)
    assert warnings("--config", str(settings)) == []


def test_certificate_that_is_not_checked_is_named_by_its_destination(tmp_path: Path) -> None:
    config = tmp_path / "relay.json"
    entry = {"name": "studio", "url": "rtmps://h/app", "stream_key": "SECRET", "verify": False}
    config.write_text(json.dumps({"destinations": [entry]}))
    (warning,) = warnings("--open", "--relay-config", str(config))
    assert "studio" in warning
    assert "SECRET" not in warning


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_secrets_that_everybody_can_read_are_logged_once(mode: int, tmp_path: Path) -> None:
    config, token = tmp_path / "relay.json", tmp_path / "token"
    config.write_text('{"destinations": []}')
    token.write_text("a-token-of-24-characters")
    for path in (config, token):
        path.chmod(mode)
    with capturedLogs() as logged:
        warnings("--relay-config", str(config), "--http-status", ":0", "--http-token", f"file:{token}")
    named = [event["path"] for event in logged if "Everybody" in str(event.get("log_format"))]
    assert sorted(named) == ([] if mode == 0o600 else sorted([str(config), str(token)]))


def test_service_logs_each_warning_once_and_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = RelayConfig(listen=(), warnings=("something is odd",))
    with capturedLogs() as logged:
        service = RelayService(config, Clock())
        service.startService()
    assert [event["warning"] for event in logged if "warning" in event] == ["something is odd"]
    assert list(service.control.warnings) == ["something is odd"]
    service.stopService()
