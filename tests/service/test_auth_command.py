"""`twistd rtmprelay --auth ... --hook ...` as an operator runs it, with plugins of others and files that change."""

from __future__ import annotations

import json
import os
import signal
import site
import socket
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, PublishAccepted, StatusReceived
from tests.helpers import LOOPBACK, wait_for
from tests.service.auth_world import MARK, PLAIN, keys, make_wheel, write_keys
from tests.service.command import TWIST, TWISTD, BlockingClient, Server, port_in, run

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


def refused(options: list[str], folder: Path) -> str:
    """The one line that a bad option leads to."""
    done = run([*TWISTD, "-n", "--pidfile=", "rtmprelay", "--listen", LOOPBACK, *options], folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert MARK not in done.stderr
    return done.stderr


@pytest.mark.parametrize("name", BAD_AUTH)
def test_a_bad_authorizer_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    argument, expected = BAD_AUTH[name]
    assert expected in refused(["--auth", argument], tmp_path)


@pytest.mark.parametrize("name", BAD_HOOKS)
def test_a_bad_hook_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    argument, expected = BAD_HOOKS[name]
    assert expected in refused(["--hook", argument], tmp_path)


def test_a_bad_keys_file_is_told_with_the_place(tmp_path: Path) -> None:
    content = keys()
    content["streams"][1]["publish"]["user"] = [MARK]
    write_keys(tmp_path, content)
    line = refused(["--auth", "keys-file:keys.json"], tmp_path)
    assert "keys.json': streams[1].publish: unknown field 'user'; known fields: keys, users" in line


@pytest.mark.parametrize("command", [TWISTD, TWIST], ids=["twistd", "twist"])
def test_the_plugins_are_listed(command: list[str], tmp_path: Path) -> None:
    done = run([*command, "rtmprelay", "--help-plugins"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("allow-from:", "http:URL", "jwt:KEYFILE", "keys-file:PATH", "exec:EVENT", "jsonl:PATH"):
        assert f"  {name}" in done.stdout


# -- with a server -------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers; stopped afterwards."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        started.append(Server(tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def publish(port: int, name: str) -> str:
    """How a publish is answered: the code."""
    client = BlockingClient(port)
    client.session.publish(name)
    while not any(isinstance(event, PublishAccepted | StatusReceived) for event in client.events):
        client.socket.sendall(client.session.bytes_to_send())
        data = client.socket.recv(65536)
        assert data, "the server closed the connection"
        client.events += client.session.receive_data(data, 0.0)
    client.socket.close()
    (status,) = [one for one in client.events if isinstance(one, PublishAccepted | StatusReceived)]
    return "accepted" if isinstance(status, PublishAccepted) else status.code


DENIED = "NetStream.Publish.Denied"


def test_sighup_reads_the_keys_again(server: Callable[..., Server], tmp_path: Path) -> None:
    write_keys(tmp_path)
    relay = server("--auth", "keys-file:keys.json")
    port = relay.port()
    assert publish(port, f"one?key={PLAIN}") == "accepted"
    assert publish(port, "one?key=other") == DENIED
    content = keys()
    content["streams"][0]["publish"] = {"keys": ["other"]}
    write_keys(tmp_path, content)
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "keys.json was read again: 2 patterns, 1 users" in relay.text(), "the new keys")
    assert publish(port, "two?key=other") == "accepted"
    assert publish(port, f"two?key={PLAIN}") == DENIED
    (tmp_path / "keys.json").write_text('{"streams": [')
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "What was read before stays" in relay.text(), "the refusal of a bad file")
    assert "it is not valid JSON: Expecting value at line 1, column 14" in relay.text()
    assert publish(port, "three?key=other") == "accepted"
    assert MARK not in relay.text()


def test_a_file_that_everybody_can_read_is_warned_of(server: Callable[..., Server], tmp_path: Path) -> None:
    write_keys(tmp_path).chmod(0o644)
    relay = server("--auth", "keys-file:keys.json")
    relay.port()
    wait_for(lambda: "Everybody on this machine can read" in relay.text(), "the warning")


def test_all_authorizers_must_allow(server: Callable[..., Server], tmp_path: Path) -> None:
    write_keys(tmp_path)
    relay = server("--auth", "keys-file:keys.json", "--auth", "allow-from:publish=none,play=any")
    assert publish(relay.port(), f"one?key={PLAIN}") == DENIED
    assert "it is not allowed from this address" in relay.text()


def test_unix_sockets_are_their_own_place(server: Callable[..., Server], tmp_path: Path) -> None:
    """A relay that lets local sockets in only lets them in, and not those from the network."""
    relay = server("--listen", f"unix:{tmp_path}/rtmp.sock", "--auth", "allow-from:unix")
    assert publish(relay.port(), "one") == DENIED
    client = BlockingClient.__new__(BlockingClient)
    client.socket = socket.socket(socket.AF_UNIX)
    client.socket.settimeout(20)
    client.socket.connect(f"{tmp_path}/rtmp.sock")
    client.session = ClientSession("live", "rtmp://local/live")
    client.events = []
    client.wait(ConnectAccepted)
    client.session.publish("one")
    client.wait(PublishAccepted)
    client.socket.close()


# -- plugins of others ---------------------------------------------------------------------------------------------

DROP_IN = '''
"""A plugin for rtmprelay."""

from twisted.plugin import IPlugin
from zope.interface import implementer

from rtmprelay.interfaces import IEventSinkFactory, IStreamAuthorizerFactory


@implementer(IPlugin, IStreamAuthorizerFactory)
class TeaTime:
    name = "tea-time"
    help = "Lets whoever says please publish."
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
    """The Python of a fresh environment that has what this one has, and a package of somebody else besides."""
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


def test_a_package_of_somebody_else_is_found(fresh_python: str, tmp_path: Path) -> None:
    """It was installed, and that is all."""
    twistd = [fresh_python, *TWISTD[1:]]
    listed = run([*twistd, "rtmprelay", "--help-plugins"], tmp_path)
    assert "  tea-time:WORD\n      Lets whoever says please publish.\n" in listed.stdout
    assert "  bell:PATH\n      Rings.\n" in listed.stdout
    assert "  keys-file:PATH" in listed.stdout
    log = tmp_path / "out.log"
    options = ["--auth", "tea-time:please", "--hook", f"bell:{tmp_path}/rung"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*twistd, "-n", "--pidfile=", "rtmprelay", "--listen", LOOPBACK, *options],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        port = port_in(log, process)
        assert publish(port, "film") == DENIED
        assert publish(port, "film?say=please") == "accepted"
        assert "say please" in log.read_text()
    finally:
        process.terminate()
        process.wait(20)
    rung = (tmp_path / "rung").read_text().splitlines()
    assert rung[:2] == ["started", "server_started"]
    assert {"publish_refused", "publish_started", "publish_stopped"} <= set(rung)
    # The hook hears of the end of everything before it ends itself.
    assert rung[-2:] == ["server_stopped", "stopped"]


def test_without_that_package_it_is_not_there(tmp_path: Path) -> None:
    assert "tea-time" not in run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path).stdout


def test_a_plugin_of_somebody_else_that_fails_lets_nobody_in(tmp_path: Path) -> None:
    """Its error is told in a line, without what the client brought along."""
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
    log = tmp_path / "out.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*TWISTD, "-n", "--pidfile=", "rtmprelay", "--listen", LOOPBACK, "--auth", "broken:"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(plugins.parent)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        port = port_in(log, process)
        assert publish(port, f"film?key={MARK}") == DENIED
    finally:
        process.terminate()
        process.wait(20)
    text = log.read_text()
    assert "The authorizer Broken failed: KeyError in " in text
    assert "broken_code.py, line 3" in text
    assert MARK not in text
    assert "Traceback" not in text


def test_rotating_the_file_of_events(server: Callable[..., Server], tmp_path: Path) -> None:
    relay = server("--hook", "jsonl:events.jsonl#events=publish_started")
    port = relay.port()
    publish(port, "one")
    wait_for(lambda: (tmp_path / "events.jsonl").exists(), "the first line")
    (tmp_path / "events.jsonl").rename(tmp_path / "events.jsonl.1")
    relay.process.send_signal(signal.SIGHUP)
    publish(port, "two")
    wait_for(lambda: (tmp_path / "events.jsonl").exists(), "a new file")
    assert relay.stop()
    found = [
        [json.loads(line)["stream"] for line in (tmp_path / name).read_text().splitlines()]
        for name in ("events.jsonl.1", "events.jsonl")
    ]
    assert found == [["live/one"], ["live/two"]]
