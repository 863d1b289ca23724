"""Running it as a service: another user, a port from systemd, and the files that the documents offer."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtmprelay.config.options import Options
from rtmprelay.flv.repair import inspect
from rtmprelay.session.reports import PlayAccepted, PublishAccepted, StatusReceived
from tests.helpers import group, start_frames, wait_for
from tests.service.command import TWISTD, BlockingClient, Server, run

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

#: Makes a port its third file, as systemd does, and becomes the server.
_LIKE_SYSTEMD = """
import os, sys
listening = int(sys.argv[1])
os.dup2(listening, 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_FDNAMES="rtmprelay.socket", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_it_takes_a_port_that_systemd_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        log = tmp_path / "out.log"
        server = [*TWISTD, "-n", "--pidfile=", "rtmprelay", "--listen", "systemd:domain=INET:index=0"]
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", _LIKE_SYSTEMD, str(port.fileno()), *server],
                cwd=tmp_path,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=[port.fileno()],
            )
        number = port.getsockname()[1]
    try:
        wait_for(lambda: "Listening on" in log.read_text(), "listening")
        BlockingClient(number).socket.close()
    finally:
        process.terminate()
        process.wait(10)
    assert "Traceback" not in log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_becomes_another_user_once_its_port_is_open(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    # The folder of the test belongs to root; what is recorded goes to one of its own.
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    os.chown(recordings, nobody.pw_uid, nobody.pw_gid)
    server = Server(
        tmp_path,
        "--record-all",
        "--record-dir",
        str(recordings),
        of_twistd=("-n", "--pidfile=", "--uid", "nobody", "--gid", str(nobody.pw_gid)),
    )
    try:
        BlockingClient(server.port()).socket.close()
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert set(uids) == {str(nobody.pw_uid)}
    finally:
        assert server.stop()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    for name in ("rtmprelay.service", "rtmprelay.socket"):
        text = (EXAMPLES / name).read_text().replace("/opt/rtmprelay/bin/twistd", "/bin/true")
        (tmp_path / name).write_text(text)
    verify = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "rtmprelay.service")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in verify.stderr.splitlines() if "rtmprelay" in line]
    assert complaints == []


def test_the_server_takes_the_command_of_the_unit(tmp_path: Path) -> None:
    unit = (EXAMPLES / "rtmprelay.service").read_text()
    command = unit.partition("ExecStart=")[2].partition("\nExecReload")[0].replace("\\\n", " ").split()
    (tmp_path / "relay.json").write_text('{"destinations": []}')
    arguments = [word.replace("%d", str(tmp_path)).replace("%S", str(tmp_path)) for word in command]
    # There is no systemd here to open a port.
    arguments[arguments.index("systemd:domain=INET6:index=0")] = "0"
    options = Options()
    options.parseOptions(arguments[arguments.index("rtmprelay") + 1 :])
    relay = options["config"]
    assert relay.recording.record_all
    assert relay.event_log.folder == tmp_path / "rtmprelay" / "events"


def test_a_port_that_systemd_did_not_open_is_told_in_words(tmp_path: Path) -> None:
    told = run([*TWISTD, "-n", "rtmprelay", "--listen", "systemd:domain=INET:index=0"], tmp_path)
    assert told.returncode == 1
    assert "systemd has opened no socket with this index or name" in told.stderr


#: Seconds within which everything is over when it is told to stop.
STOPPED_WITHIN = 5.0


def begin(port: int, play: bool = False) -> BlockingClient:
    """Somebody who publishes the film, or watches it."""
    client = BlockingClient(port)
    (client.session.play if play else client.session.publish)("film")
    client.wait(PlayAccepted if play else PublishAccepted)
    return client


def test_it_stops_in_time_with_everything_live(tmp_path: Path) -> None:
    """A publisher, one who watches, one who does not read, a destination, one that never answers, a recording, hooks."""
    (tmp_path / "platform").mkdir()
    platform = Server(tmp_path / "platform")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = Server(
            tmp_path,
            *("--relay-to", f"rtmp://127.0.0.1:{platform.port()}/app/there"),
            *("--relay-to", f"rtmp://127.0.0.1:{silent.getsockname()[1]}/app/never"),
            *("--record-all", "--record-dir", "recordings", "--hook", "jsonl:events.jsonl"),
            *("--hook", f"exec:publish_stopped={shutil.which('true')}"),
        )
        try:
            port = server.port()
            encoder = begin(port)
            encoder.send(*start_frames(), *group(0))
            viewer, stuck = begin(port, play=True), begin(port, play=True)
            wait_for(lambda: "publish of app/there" in platform.text(), "the destination")
            for number in range(1, 40):
                # More than sockets take for one who does not read.
                encoder.send(*group(number * 200, size=100_000))
                viewer.events += viewer.session.receive_data(viewer.socket.recv(10_000_000), 0.0)
            began = time.monotonic()
            assert server.stop()
            assert time.monotonic() - began < STOPPED_WITHIN
        finally:
            server.stop()
            platform.stop()
    while data := viewer.socket.recv(10_000_000):
        viewer.events += viewer.session.receive_data(data, 0.0)
    codes = [event.code for event in viewer.events if isinstance(event, StatusReceived)]
    assert codes[-1] == "NetStream.Play.UnpublishNotify", "players are told"
    assert "publish of app/there by c000001 stopped" in platform.text()
    assert "the publisher ended it" in platform.text(), "destinations are ended properly"
    (recording,) = (tmp_path / "recordings").iterdir()
    found = inspect(recording)
    assert found.is_fine, "recordings are completed"
    assert found.tags > len(group(0))
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines][-1] == "server_stopped"
    assert {"publish_stopped", "play_stopped", "recording_finished"} <= {line["event"] for line in lines}
    assert "Traceback" not in server.text()
    for client in (encoder, viewer, stuck):
        client.socket.close()
