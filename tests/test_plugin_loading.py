"""Plugins are found and cheap to list, and a broken one does not disable the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from rtmprelay.access.authorizers.allow_from import AllowFrom
from rtmprelay.config.plugins import make_authorizer, make_event_sink, plugins_help
from rtmprelay.errors import ConfigError

ROOT = Path(__file__).parent.parent

AUTHORIZERS = ("allow-from", "http", "jwt", "keys-file")
HOOKS = ("exec", "http", "jsonl")


def run_python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join(str(one) for one in (*path, ROOT))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_plugins_of_the_relay_are_found() -> None:
    authorizers, _, hooks = plugins_help().partition("Event sinks, for --hook:\n")
    assert authorizers.startswith("Authorizers, for --auth:\n")
    for name in AUTHORIZERS:
        assert f"\n  {name}:" in authorizers
    for name in HOOKS:
        assert f"  {name}:" in hooks
    assert "cannot be used" not in hooks


def test_plugin_help_fits_a_terminal() -> None:
    for line in plugins_help().splitlines():
        assert len(line) <= 125, line


def test_authorizer_is_made_from_its_specification() -> None:
    reactor: Any = Clock()
    assert isinstance(make_authorizer("allow-from:127.0.0.1", reactor), AllowFrom)


def test_unknown_plugin_is_refused_with_the_known_ones() -> None:
    reactor: Any = Clock()
    with pytest.raises(
        ConfigError, match="unknown plugin 'keys'; known plugins: allow-from, http, jwt, keys-file"
    ):
        make_authorizer("keys:/etc/keys.json", reactor)
    with pytest.raises(ConfigError, match="unknown plugin 'keys-file'; known plugins: exec, http, jsonl"):
        make_event_sink("keys-file:x", reactor)
    with pytest.raises(ConfigError, match="unknown plugin ''"):
        make_authorizer("", reactor)


def test_error_of_a_plugin_names_the_plugin() -> None:
    reactor: Any = Clock()
    with pytest.raises(ConfigError, match=r"^allow-from: 'x' is not a network"):
        make_authorizer("allow-from:x", reactor)


def test_listing_plugins_imports_none_of_what_they_need() -> None:
    done = run_python(
        "import sys; from rtmprelay.config.plugins import plugins_help; plugins_help()\n"
        "heavy = ('jwt', 'twisted.web.client',"
        " 'rtmprelay.access.authorizers', 'rtmprelay.hooks', 'rtmprelay.http_client')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert done.stdout == "[]\n", done.stderr


def test_missing_library_disables_only_its_plugin() -> None:
    done = run_python(
        "import sys; sys.modules['jwt'] = None\n"
        "from twisted.internet.task import Clock\n"
        "from rtmprelay.errors import ConfigError\n"
        "from rtmprelay.config.plugins import make_authorizer, plugins_help\n"
        "print('keys-file' in plugins_help(), 'jwt:' in plugins_help())\n"
        "make_authorizer('allow-from:any', Clock())\n"
        "try: make_authorizer('jwt:/x', Clock())\n"
        "except ConfigError as error: print(error)\n"
    )
    first, second = done.stdout.splitlines()
    assert first == "True True"
    assert second.startswith("jwt: it cannot be used, because something is not installed: ")


def test_broken_plugin_module_does_not_disable_others(tmp_path: Path) -> None:
    plugins = tmp_path / "rtmprelay_plugins"
    plugins.mkdir()
    (plugins / "acme.py").write_text("import no_such_library\n")
    done = run_python(
        "from twisted.internet.task import Clock\n"
        "from rtmprelay.errors import ConfigError\n"
        "from rtmprelay.config.plugins import make_authorizer, plugins_help\n"
        "print(plugins_help())\n"
        "make_authorizer('allow-from:any', Clock())\n"
        "try: make_authorizer('acme:x', Clock())\n"
        "except ConfigError as error: print('ERROR', error)\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "keys-file:PATH" in done.stdout
    broken = (
        "rtmprelay_plugins.acme cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"
    )
    assert f"Modules that cannot be used:\n  {broken}" in done.stdout
    (error,) = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert error.startswith("ERROR unknown plugin 'acme'; known plugins: allow-from")
    assert error.endswith(broken)
