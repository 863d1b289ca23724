"""An upgrade as docs/deployment.rst has it: what its template units say, behind its HAProxy, with every frame counted."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.task import deferLater

from rtmprelay.session.reports import PlayAccepted
from tests.cluster.ports import Ports
from tests.cluster.processes import SECRET, Encoder, numbers
from tests.cluster.redis import PROGRAM, needs_redis
from tests.docs.pages import DOCS
from tests.helpers import connect_client, real_reactor_test, the_reactor, until
from tests.service.command import TWISTD

HAPROXY, ACTIVATE = shutil.which("haproxy"), shutil.which("systemd-socket-activate")

pytestmark = [
    needs_redis,
    pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy: apt-get install haproxy"),
    pytest.mark.skipif(
        ACTIVATE is None, reason="there is no systemd-socket-activate: apt-get install systemd"
    ),
]


def setting(unit: str, name: str) -> str:
    """What a documented unit says."""
    text = (DOCS / "examples" / unit).read_text().replace("\\\n", " ")
    found = re.search(rf"^{name}=(.*)$", text, re.M)
    assert found is not None
    return found[1]


@attrs.define(eq=False)
class Machine:
    """Does what systemd would: opens the ports of an instance, starts its command, and reloads it."""

    folder: Path
    ports: Ports
    drain_for: float
    running: dict[str, subprocess.Popen[bytes]] = attrs.field(factory=dict)

    def begin(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("w") as out:
            self.running[name] = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=out)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    async def start(self, number: str) -> None:
        """`systemctl start rtmprelay@N`."""
        listen = setting("rtmprelay@.socket", "ListenStream").replace("%i", number)
        command = setting("rtmprelay@.service", "ExecStart").replace("%i", number)
        command = command.replace("%d", str(self.folder)).replace("60s", f"{self.drain_for:g}s")
        program, *words = self.ports.moved(command).split()
        assert program == f"/opt/rtmprelay-{number}/bin/twistd"
        wanted = (str(ACTIVATE), "-l", self.ports.moved(listen), f"--fdname=rtmprelay@{number}.socket")
        self.begin(f"node{number}", *wanted, *TWISTD, *words)
        await until(lambda: "Listening on" in self.log(f"node{number}"), "the socket")
        # It starts the command when somebody connects; systemd does it when it is told to.
        socket.create_connection(("127.0.0.1", self.ports[f"194{number}"])).close()
        await until(lambda: self.is_ready(number), "the instance", 60)

    def is_ready(self, number: str) -> bool:
        return _asked(self.ports[f"804{number}"], "/health/ready").startswith(b"HTTP/1.1 200")

    def reload(self, number: str) -> None:
        """`systemctl reload rtmprelay@N`."""
        command = setting("rtmprelay@.service", "ExecReload")
        subprocess.run(
            command.replace("$MAINPID", str(self.running[f"node{number}"].pid)).split(), check=True
        )

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


def _asked(port: int, path: str) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return link.recv(100)
    except OSError:
        return b""


class Viewer:
    """Plays a stream, and connects again when it is sent away, as players do."""

    def __init__(self, port: int, name: str) -> None:
        self.seen: list[int] = []
        self.moves = 0
        self.is_over = False
        self._port = port
        self._name = name

    async def watch(self) -> None:
        endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", self._port)
        while not self.is_over:
            client = await connect_client(endpoint)
            client.session.play(self._name)
            client.flush()
            await until(lambda c=client: c.has(PlayAccepted) or c.codes or c.lost is not None, "the answer")  # type: ignore[misc]
            await until(lambda c=client: c.lost is not None or self.is_over, "the end", 120)  # type: ignore[misc]
            self.seen += numbers(client.frames)
            self.moves += 1
            await client.close()


class MovingEncoder(Encoder):
    """Publishes, and connects again when it is sent away."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__()
        self.is_over = False
        #: The first and the last picture of each connection.
        self.sessions: list[tuple[int, int]] = []
        self._port = port
        self._name = name

    async def run(self) -> None:
        while not self.is_over:
            await self.publish_until_accepted(self._port, self._name, 0.1)
            first = self.number
            await until(
                lambda: self.is_over or self.client is None or self.client.lost is not None, "the end", 120
            )
            self.sessions.append((first, self.number - 1))


async def upgrade(folder: Path, streams: int, seconds: float) -> None:
    ports = Ports()
    (folder / "cluster-secret").write_text(SECRET)
    machine = Machine(folder, ports, seconds)
    encoders: list[MovingEncoder] = []
    viewers: list[Viewer] = []
    try:
        redis = ("--save", "", "--bind", "127.0.0.1", "--port", str(ports["6379"]))
        machine.begin("redis", str(PROGRAM), *redis)
        await machine.start("1")
        config = ports.moved((DOCS / "examples" / "haproxy-nodes.cfg").read_text())
        config = re.sub(r"port (\d{4})", lambda found: f"port {ports[found[1]]}", config)
        (folder / "haproxy.cfg").write_text(config)
        machine.begin("haproxy", str(HAPROXY), "-f", "haproxy.cfg", "-db")
        await until(lambda: machine.log("haproxy").count("DOWN") >= 2, "HAProxy to know what is there")
        port = ports["1935"]
        encoders = [MovingEncoder(port, f"s{number}") for number in range(streams)]
        viewers = [Viewer(port, f"s{number}") for number in range(streams)]
        running = [Deferred.fromCoroutine(encoder.run()) for encoder in encoders]
        await until(lambda: all(encoder.number > 25 for encoder in encoders), "the encoders")
        running += [Deferred.fromCoroutine(viewer.watch()) for viewer in viewers]
        await machine.start("2")
        await until(lambda: "node2 is UP" in machine.log("haproxy"), "HAProxy to see the new instance")
        machine.reload("1")
        began = the_reactor().seconds()
        newcomers = refused = 0
        while machine.running["node1"].poll() is None:
            # Those who come now: none of them may notice.
            newcomer = Encoder()
            newcomers += 1
            refused += not await newcomer.publish(port, f"new{newcomers}")
            await newcomer.stop()
            await deferLater(the_reactor(), 0.2)
        took = the_reactor().seconds() - began
        await deferLater(the_reactor(), 2)
        for encoder in encoders:
            encoder.is_over = True
        for viewer in viewers:
            viewer.is_over = True
        await gatherResults(running)
        _judge(encoders, viewers, took, newcomers, refused)
        assert "Traceback" not in machine.log("node1") + machine.log("node2")
        assert machine.running["node1"].returncode in (0, -signal.SIGTERM)
    finally:
        for encoder in encoders:
            await encoder.stop()
        machine.close()


def _judge(
    encoders: list[MovingEncoder], viewers: list[Viewer], took: float, newcomers: int, refused: int
) -> None:
    interrupted = late = sent = 0
    for encoder, viewer in zip(encoders, viewers, strict=True):
        seen = set(viewer.seen)
        assert len(encoder.sessions) == 2, "each encoder moved once"
        assert viewer.moves >= 2
        (_, last), (begin, end) = encoder.sessions
        old = range(min(seen), last + 1)
        # What was on its way when the encoder's own turn came never reached a relay.
        late += sum(number not in seen for number in old[-5:])
        interrupted += sum(number not in seen for number in old[:-5])
        new = range(begin, end - 4)
        interrupted += sum(number not in seen for number in new)
        sent += len(old) + len(new)
    sys.stdout.write(
        f"upgrade of {len(encoders)} streams in {took:.1f} s: {sent} frames, {interrupted} interrupted,"
        f" {late} on their way when an encoder was sent away; {newcomers} newcomers, {refused} refused\n"
    )
    assert interrupted == 0
    assert refused == 0


@pytest.mark.full
@real_reactor_test
async def test_upgrade_with_the_documented_units_interrupts_no_frame(tmp_path: Path) -> None:
    await upgrade(tmp_path, streams=8, seconds=12)
