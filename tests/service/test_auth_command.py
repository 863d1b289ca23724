"""`--auth` and `--hook` as an operator uses them, with plugins of others and files that change."""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import wait_for
from tests.service.auth_helpers import MARK, PLAIN, keys, make_wheel, write_keys
from tests.service.command import TWIST, TWISTD, BlockingClient, Server, refusal, run

Start = Callable[..., Server]

BAD_AUTH = {
    "no such plugin": (
        "nobody:x",
        "--auth: unknown plugin 'nobody'; known plugins: allow-from, http, jwt, keys-file",
    ),
    "no file": ("keys-file:none.json", "none.json' cannot be read: No such file or directory"),
    "no argument": ("keys-file", "--auth: keys-file: the name of the file is missing"),
    "a bad network": (
        "allow-from:10.0.0.1/8",
        "--auth: allow-from: '10.0.0.1/8' is both a host and a network",
    ),
    "half a rule": ("allow-from:publish=any", "--auth: allow-from: nothing is said about play"),
    "a bad address": ("http:auth.example", "--auth: http: this is not an address"),
    "a bad option": ("http://auth.example/#cash=1", "--auth: http: unknown option 'cash'"),
    "no key": ("jwt:none.pem", "none.pem' cannot be read: No such file or directory"),
}

BAD_HOOKS = {
    "no such plugin": ("nobody:x", "--hook: unknown plugin 'nobody'; known plugins: exec, http, jsonl"),
    "no folder": ("jsonl:/nowhere/events", "--hook: jsonl: the folder '/nowhere' does not exist"),
    "no such event": ("exec:published=/bin/true", "--hook: exec: there is no event 'published'"),
    "no such program": ("exec:publish_started=/nowhere/x", "--hook: exec: there is no program '/nowhere/x'"),
    "a bad address": ("http:ftp://x/", "--hook: http: this is not an address"),
}


@pytest.mark.parametrize("name", BAD_AUTH)
def test_bad_authorizer_is_refused_in_one_line(name: str) -> None:
    argument, expected = BAD_AUTH[name]
    assert expected in refusal("--auth", argument)


@pytest.mark.parametrize("name", BAD_HOOKS)
def test_bad_hook_is_refused_in_one_line(name: str) -> None:
    argument, expected = BAD_HOOKS[name]
    assert expected in refusal("--hook", argument)


def test_bad_keys_file_is_refused_with_the_place_and_without_the_key(tmp_path: Path) -> None:
    content = keys()
    content["streams"][1]["publish"]["user"] = [MARK]
    message = refusal("--auth", f"keys-file:{write_keys(tmp_path, content)}")
    assert "keys.json': streams[1].publish: unknown field 'user'; known fields: keys, users" in message
    assert MARK not in message


@pytest.mark.parametrize("command", [TWISTD, TWIST], ids=["twistd", "twist"])
def test_help_plugins_lists_the_plugins(command: list[str], tmp_path: Path) -> None:
    done = run([*command, "rtmprelay", "--help-plugins"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("allow-from:", "http:URL", "jwt:KEYFILE", "keys-file:PATH", "exec:EVENT", "jsonl:PATH"):
        assert f"  {name}" in done.stdout


# -- a running server ----------------------------------------------------------------------------------------------

DENIED = "NetStream.Publish.Denied"


def publish(server: Server, name: str) -> str:
    """Publish with a new client; returns `accepted` or the code of the refusal."""
    return server.connect().publish(name)


def test_sighup_reads_the_keys_file_again(start_server: Start, tmp_path: Path) -> None:
    write_keys(tmp_path)
    relay = start_server("--auth", "keys-file:keys.json")
    assert publish(relay, f"one?key={PLAIN}") == "accepted"
    assert publish(relay, "one?key=other") == DENIED
    content = keys()
    content["streams"][0]["publish"] = {"keys": ["other"]}
    write_keys(tmp_path, content)
    relay.send_signal(signal.SIGHUP)
    relay.wait_for_text("keys.json was read again: 2 patterns, 1 users")
    assert publish(relay, "two?key=other") == "accepted"
    assert publish(relay, f"two?key={PLAIN}") == DENIED
    (tmp_path / "keys.json").write_text('{"streams": [')
    relay.send_signal(signal.SIGHUP)
    relay.wait_for_text("What was read before stays")
    assert "it is not valid JSON: Expecting value at line 1, column 14" in relay.text()
    assert publish(relay, "three?key=other") == "accepted"
    assert MARK not in relay.text()


def test_keys_file_that_everybody_can_read_is_warned_of(start_server: Start, tmp_path: Path) -> None:
    write_keys(tmp_path).chmod(0o644)
    relay = start_server("--auth", "keys-file:keys.json")
    relay.wait_for_text("Everybody on this machine can read")
    assert f"{tmp_path}/keys.json" in relay.text()


def test_publish_needs_every_authorizer_to_allow_it(start_server: Start, tmp_path: Path) -> None:
    write_keys(tmp_path)
    relay = start_server("--auth", "keys-file:keys.json", "--auth", "allow-from:publish=none,play=any")
    assert publish(relay, f"one?key={PLAIN}") == DENIED
    assert "it is not allowed from this address" in relay.text()


def test_relay_for_unix_sockets_only_refuses_the_network(start_server: Start, tmp_path: Path) -> None:
    path = tmp_path / "rtmp.sock"
    relay = start_server("--listen", f"unix:{path}", "--auth", "allow-from:unix")
    assert publish(relay, "one") == DENIED
    client = BlockingClient(path)
    assert client.publish("one") == "accepted"
    client.close()


# -- plugins of others ---------------------------------------------------------------------------------------------

DROP_IN = '''
"""A plugin for rtmprelay."""

from twisted.plugin import IPlugin
from zope.interface import implementer

from rtmprelay.interfaces import IEventSinkFactory, IStreamAuthorizerFactory


@implementer(IPlugin, IStreamAuthorizerFactory)
class TeaTime:
    name = "tea-time"
    help = "Allows anybody that says please to publish."
    argument_format = "WORD"

    def make(self, argument, reactor):
        from acme_tea import Polite

        return Polite(argument)


@implementer(IPlugin, IEventSinkFactory)
class Bell:
    name = "bell"
    help = "Rings."
    argument_format = "PATH"

    def make(self, argument, reactor):
        from acme_tea import Ringing

        return Ringing(argument)


tea_time, bell = TeaTime(), Bell()
'''

CODE = r"""
from twisted.application.service import Service
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, refused
from rtmprelay.interfaces import IEventSink, IStreamAuthorizer


@implementer(IStreamAuthorizer)
class Polite:
    def __init__(self, word):
        self.word = word

    async def authorize(self, request):
        said = request.credentials.parameter("say")
        return ALLOWED if said is not None and said.reveal() == self.word else refused("say please")


@implementer(IEventSink)
class Ringing(Service):
    def __init__(self, path):
        self.path = path

    def ring(self, text):
        with open(self.path, "a") as file:
            file.write(text + "\n")

    def startService(self):
        super().startService()
        self.ring("started")

    def event_happened(self, time, event):
        self.ring(event.name)

    def stopService(self):
        self.ring("stopped")
        return super().stopService()
"""


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a fresh environment with everything that this one has, and with the package of somebody else."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True, with_pip=False)
    python = str(folder / "bin" / "python")
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    ours = [path for path in [*site.getsitepackages(), site.getusersitepackages()] if os.path.isdir(path)]
    (Path(where) / "parent.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in ours)
    )
    wheel = make_wheel(
        folder, "acme_tea", {"rtmprelay_plugins/acme_tea_plugin.py": DROP_IN, "acme_tea.py": CODE}
    )
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, timeout=120
    )
    return python


def test_plugins_of_an_installed_package_are_found_and_used(
    start_server: Start, fresh_python: str, tmp_path: Path
) -> None:
    twistd = [fresh_python, *TWISTD[1:]]
    listed = run([*twistd, "rtmprelay", "--help-plugins"], tmp_path)
    assert "  tea-time:WORD\n      Allows anybody that says please to publish.\n" in listed.stdout
    assert "  bell:PATH\n      Rings.\n" in listed.stdout
    assert "  keys-file:PATH" in listed.stdout
    options = ["--auth", "tea-time:please", "--hook", f"bell:{tmp_path}/rung"]
    relay = start_server(*options, command=twistd)
    assert publish(relay, "film") == DENIED
    assert publish(relay, "film?say=please") == "accepted"
    assert "say please" in relay.text()
    assert relay.stop()
    rung = (tmp_path / "rung").read_text().splitlines()
    assert rung[:2] == ["started", "server_started"]
    assert {"publish_refused", "publish_started", "publish_stopped"} <= set(rung)
    # The hook gets the last event before it is stopped.
    assert rung[-2:] == ["server_stopped", "stopped"]


def test_plugin_of_a_package_that_is_not_installed_is_not_listed(tmp_path: Path) -> None:
    listed = run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path).stdout
    assert "keys-file:PATH" in listed
    assert "tea-time" not in listed


def test_plugin_that_fails_refuses_and_is_logged_in_one_line(start_server: Start, tmp_path: Path) -> None:
    """The line does not contain the client's credentials."""
    plugins = tmp_path / "path" / "rtmprelay_plugins"
    plugins.mkdir(parents=True)
    (plugins / "broken.py").write_text(
        "from rtmprelay.plugin_factories import AuthorizerPlugin\n"
        "broken = AuthorizerPlugin('broken', 'Fails.', 'ANY', 'broken_code:make')\n"
    )
    (plugins.parent / "broken_code.py").write_text(
        "class Broken:\n"
        "    def authorize(self, request):\n"
        "        raise KeyError(request.credentials.parameter('key').reveal())\n"
        "def make(argument, reactor):\n"
        "    return Broken()\n"
    )
    relay = start_server("--auth", "broken:", environment={"PYTHONPATH": str(plugins.parent)})
    assert publish(relay, f"film?key={MARK}") == DENIED
    assert relay.stop()
    text = relay.text()
    assert "The authorizer Broken failed: KeyError in " in text
    assert "broken_code.py, line 3" in text
    assert MARK not in text
    assert "Traceback" not in text


def test_sighup_opens_a_renamed_event_file_again(start_server: Start, tmp_path: Path) -> None:
    relay = start_server("--hook", "jsonl:events.jsonl#events=publish_started")
    publish(relay, "one")
    events, renamed = tmp_path / "events.jsonl", tmp_path / "events.jsonl.1"
    wait_for(events.exists, "the first line")
    events.rename(renamed)
    relay.send_signal(signal.SIGHUP)
    publish(relay, "two")
    wait_for(events.exists, "a new file")
    assert relay.stop()
    found = [
        [json.loads(line)["stream"] for line in file.read_text().splitlines()] for file in (renamed, events)
    ]
    assert found == [["live/one"], ["live/two"]]
