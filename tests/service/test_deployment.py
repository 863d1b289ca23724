"""The relay as a system service: another user, a port from systemd, the documented unit, a clean stop."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmprelay.config.first_start import start_warnings
from rtmprelay.config.options import Options
from rtmprelay.flv.repair import inspect
from rtmprelay.session.reports import PlayAccepted, PublishAccepted, StatusReceived
from tests.helpers import group, start_frames
from tests.service.command import FOREGROUND, LIKE_SYSTEMD, TWISTD, BlockingClient, Server, refusal

Start = Callable[..., Server]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_server_listens_on_a_port_that_systemd_opened(start_server: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        number = port.getsockname()[1]
        server = start_server(
            "--log-level",
            "debug",
            listen="systemd:domain=INET:index=0",
            command=[sys.executable, "-c", LIKE_SYSTEMD, str(port.fileno()), *TWISTD],
            pass_fds=[port.fileno()],
        )
    server.wait_for_text("Listening on")
    BlockingClient(number).close()
    server.stop()
    assert "Connection c000001" in server.text()
    assert "Traceback" not in server.text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_server_becomes_another_user_once_its_port_is_open(start_server: Start, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    # The test's folder belongs to root, so the recordings need one of their own.
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    os.chown(recordings, nobody.pw_uid, nobody.pw_gid)
    server = start_server(
        *("--record-all", "--record-dir", str(recordings)),
        of_twistd=(*FOREGROUND, "--uid", "nobody", "--gid", str(nobody.pw_gid)),
    )
    server.connect()
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert set(uids) == {str(nobody.pw_uid)}
    assert server.stop()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_accepts_the_documented_unit(tmp_path: Path) -> None:
    for name in ("rtmprelay.service", "rtmprelay.socket", "rtmprelay@.service", "rtmprelay@.socket"):
        text = re.sub(r"/opt/\S+/bin/twistd", "/bin/true", (EXAMPLES / name).read_text())
        (tmp_path / name).write_text(text)
    verify = subprocess.run(
        [
            *("systemd-analyze", "verify", "--man=no"),
            *(str(tmp_path / "rtmprelay.service"), str(tmp_path / "rtmprelay@1.service")),
            str(tmp_path / "rtmprelay@1.socket"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in verify.stderr.splitlines() if "rtmprelay" in line]
    assert complaints == []


def test_command_of_the_documented_unit_is_valid(tmp_path: Path) -> None:
    unit = (EXAMPLES / "rtmprelay.service").read_text()
    command = unit.partition("ExecStart=")[2].partition("\nExecReload")[0].replace("\\\n", " ").split()
    (tmp_path / "relay.json").write_text('{"destinations": []}')
    (tmp_path / "keys.json").write_text(
        '{"streams": [{"match": "*", "publish": {"keys": ["k"]}, "play": "anyone"}]}'
    )
    arguments = [word.replace("%d", str(tmp_path)).replace("%S", str(tmp_path)) for word in command]
    # Without systemd nobody opens the port for us.
    arguments[arguments.index("systemd:domain=INET6:index=0")] = "0"
    options = Options()
    options.parseOptions(arguments[arguments.index("rtmprelay") + 1 :])
    relay = options["config"]
    assert start_warnings(relay) == []
    assert relay.recording.record_all
    assert relay.event_log.folder == tmp_path / "rtmprelay" / "events"


def test_port_that_systemd_did_not_open_is_refused_in_one_line() -> None:
    message = refusal("--listen", "systemd:domain=INET:index=0")
    assert "systemd has opened no socket with this index or name" in message


#: Seconds that a server may need to stop with everything live. Its own bounds are 3 s; without them it would hang.
STOPPED_WITHIN = 10.0


def start_client(server: Server, play: bool = False) -> BlockingClient:
    """A client that publishes the film, or plays it."""
    client = server.connect()
    (client.session.play if play else client.session.publish)("film")
    client.wait(PlayAccepted if play else PublishAccepted)
    return client


def test_server_with_everything_live_stops_in_time(start_server: Start, tmp_path: Path) -> None:
    """A publisher, a player, one that does not read, a destination, one that never answers, a recording, hooks."""
    platform = start_server()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = start_server(
            *("--relay-to", f"rtmp://127.0.0.1:{platform.port()}/app/there"),
            *("--relay-to", f"rtmp://127.0.0.1:{silent.getsockname()[1]}/app/never"),
            *("--record-all", "--record-dir", "recordings", "--hook", "jsonl:events.jsonl"),
            *("--hook", f"exec:publish_stopped={shutil.which('true')}"),
        )
        encoder = start_client(server)
        encoder.send(*start_frames(), *group(0))
        viewer = start_client(server, play=True)
        start_client(server, play=True)
        platform.wait_for_text("publish of app/there")
        for number in range(1, 40):
            # More than the socket buffers of the player that does not read can hold.
            encoder.send(*group(number * 200, size=100_000))
            viewer.receive(10_000_000)
        began = time.monotonic()
        assert server.stop()
        assert time.monotonic() - began < STOPPED_WITHIN
    while data := viewer.socket.recv(10_000_000):
        viewer.events += viewer.session.receive_data(data, 0.0)
    codes = [event.code for event in viewer.events if isinstance(event, StatusReceived)]
    assert codes[-1] == "NetStream.Play.UnpublishNotify", "players are told"
    platform.wait_for_text("publish of app/there by c000001 stopped")
    assert "the publisher ended it" in platform.text(), "destinations are ended properly"
    (recording,) = (tmp_path / "recordings").iterdir()
    found = inspect(recording)
    assert found.is_fine, "recordings are completed"
    assert found.tags > len(group(0))
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines][-1] == "server_stopped"
    assert {"publish_stopped", "play_stopped", "recording_finished"} <= {line["event"] for line in lines}
    assert "Traceback" not in server.text()
