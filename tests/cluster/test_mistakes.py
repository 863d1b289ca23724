"""What an operator gets wrong: one line each and exit status 1 at the start, and a state in /health later."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.threads import deferToThread

from rtmprelay.cluster import preflight
from rtmprelay.cluster.settings import read_directory_address
from rtmprelay.errors import ConfigError
from tests.certificates import self_signed
from tests.cluster.processes import SECRET, CuttableLink, Node, RealCluster
from tests.cluster.redis import RedisServer, needs_redis
from tests.helpers import DEADLINE, free_port, real_reactor_test, until
from tests.service.command import FOREGROUND, TWISTD


class Starts:
    """Starts of the command that fail, all at the same time: each takes seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secret = folder / "secret"
        self._secret.write_text(SECRET)
        self._running: dict[str, subprocess.Popen[str]] = {}

    def begin(self, name: str, directory: str, *more: str) -> None:
        command = [*TWISTD, *FOREGROUND, "rtmprelay", "--listen", "tcp:0:interface=127.0.0.1"]
        command += ["--cluster", directory, "--cluster-secret", f"file:{self._secret}"]
        command += ["--node-url", "rtmp://127.0.0.1:1935", *more]
        self._running[name] = subprocess.Popen(
            command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def line(self, name: str) -> str:
        """The only line that a start said."""
        process = self._running.pop(name)
        _, said = process.communicate(timeout=DEADLINE)
        assert process.returncode == 1, said
        (line,) = said.strip().splitlines()
        return line.removeprefix("rtmprelay: --cluster: ")

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path)
    yield starts
    starts.end()


@contextlib.contextmanager
def server_that_says(answer: bytes) -> Iterator[int]:
    """A server that answers everything alike; without an answer it stays silent."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listening.accept()
                    with link:
                        link.recv(1000)
                        link.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(DEADLINE)


@needs_redis
def test_mistakes_about_the_directory_are_one_line_and_exit_status_1(starts: Starts, tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--requirepass", "right-password") as redis:
        where = f"127.0.0.1:{redis.port}/0"
        redis.tell("AUTH right-password", "SET {rtmprelay}:version 99", "SELECT 1")
        redis.tell(
            "AUTH right-password",
            "SELECT 1",
            'HSET {rtmprelay}:nodes twin {"instance":"i","url":"rtmp://10.0.0.7:1935"}',
            "SET {rtmprelay}:lease:i twin",
        )
        nobody = f"127.0.0.1:{free_port()}/0"
        with server_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
            starts.begin("wrong password", f"redis://:wrong-password@{where}")
            starts.begin("no password", f"redis://{where}")
            starts.begin("version", f"redis://:right-password@{where}")
            starts.begin("twin", f"redis://:right-password@{where[:-1]}1", "--node-name", "twin")
            starts.begin("nobody", f"redis://{nobody}")
            starts.begin("web", f"redis://127.0.0.1:{web}/0")
            starts.begin("scheme", "http://127.0.0.1")
            cannot = f"the directory at {where} cannot be used: "
            said = {name: starts.line(name) for name in list(starts._running)}
    assert said["wrong password"] == f"{cannot}WRONGPASS invalid username-password pair or user is disabled."
    assert said["no password"] == f"{cannot}NOAUTH Authentication required."
    assert said["version"] == f"{cannot}it has version '99', and this relay needs 1"
    assert "another node is called 'twin' (rtmp://10.0.0.7:1935); give --node-name" in said["twin"]
    assert said["nobody"] == f"the directory at {nobody} cannot be reached: Connection refused"
    assert said["web"].endswith("cannot be used: it does not speak the Redis protocol")
    assert said["scheme"].startswith("it is not the address of a directory")
    assert "right-password" not in str(said)
    assert "wrong-password" not in str(said)


@pytest.mark.parametrize(
    "answer",
    [b"", b"\xff\xfe\r\n", b":x\r\n", b"$99999999999\r\n", b"$-\r\n", b"*3\r\n", b"x" * 100_000, b"$5\r\nab"],
    ids=repr,
)
def test_any_answer_of_another_server_is_one_sentence(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_TIMEOUT", 0.5)
    with server_that_says(answer) as port, pytest.raises(ConfigError, match="the directory at") as refused:
        preflight.check_directory(read_directory_address(f"redis://127.0.0.1:{port}/0"), "node")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("record", ["{", "[]", '"x"', '{"url": "x"}', "7"])
def test_record_of_another_program_is_one_sentence(record: str) -> None:
    class Directory:
        def ask(self, *words: str) -> str:
            return record

    with pytest.raises(ConfigError, match="its record of the node 'node' cannot be read"):
        preflight._wait_for_name(Directory(), "node")  # type: ignore[arg-type]


@needs_redis
@real_reactor_test
async def test_wrong_secret_is_a_refused_pull_that_both_nodes_tell_in_one_line(tmp_path: Path) -> None:
    cluster = await RealCluster.start(tmp_path, 1, with_sink=False)
    try:
        (owner,) = cluster.nodes
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "secret").write_text("the secret of another cluster")
        stranger = Node(elsewhere, "stranger", cluster.redis.url)
        cluster.nodes.append(stranger)
        await stranger.ready()
        await cluster.encoder().publish(owner.port())
        await until(lambda: stranger.ask("GET", "/cluster")["streams"], "the stream")
        client = await cluster.ask_for(stranger)
        await until(lambda: "NetStream.Play.StreamNotFound" in client.codes, "the answer to the player")
        reason = "the cluster secret of stranger is not that of node1, or node1 has another --node-url"
        (told,) = [line for line in owner.lines("connect_refused") if reason in line["reason"]]
        (asked,) = [line for line in stranger.lines("pull_failed") if reason in line["reason"]]
        assert told["reason"] == reason
        assert asked["error_class"] == "refused"
        texts = owner.text() + stranger.text()
        assert SECRET not in texts
        assert "the secret of another cluster" not in texts
    finally:
        await cluster.stop()


@needs_redis
@real_reactor_test
async def test_mistake_that_comes_later_is_a_state_and_the_node_goes_on(tmp_path: Path) -> None:
    """The password of the directory is changed while a node runs, and then changed back."""
    cluster = await RealCluster.start(tmp_path, 0, with_sink=False)
    try:
        link: CuttableLink = await cluster.add_behind_a_link("node")
        (node,) = cluster.nodes
        cluster.redis.tell("CONFIG SET requirepass another-password")
        link.mend()
        await until(lambda: not node.ask("GET", "/health/ready")["ready"], "the state")
        shown = node.ask("GET", "/cluster")["directory"]
        assert shown["state"] == "lost"
        assert "refuses the user or the password" in shown["last_error"]
        assert node.ask("GET", "/health/live")["live"] is True
        cluster.redis.tell("AUTH another-password", "CONFIG SET requirepass ''")
        await until(lambda: node.ask("GET", "/health/ready")["ready"], "the return")
        assert "Traceback" not in node.text()
    finally:
        await cluster.stop()


@needs_redis
@real_reactor_test
async def test_directory_over_tls_is_trusted_only_with_its_certificate(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    for path, text in zip((key, certificate), self_signed("localhost"), strict=True):
        path.write_bytes(text)
    port = free_port()
    tls = ("--tls-port", str(port), "--tls-auth-clients", "no")
    files = (
        "--tls-key-file",
        str(key),
        "--tls-cert-file",
        str(certificate),
        "--tls-ca-cert-file",
        str(certificate),
    )
    cluster = RealCluster(tmp_path, RedisServer(tmp_path, *tls, *files))
    starts = Starts(tmp_path)
    where = f"rediss://localhost:{port}/0"
    try:
        starts.begin("stranger", where)
        said = await deferToThread(starts.line, "stranger")
        assert said.startswith(f"the directory at localhost:{port}/0 cannot be reached: ")
        assert "certificate verify failed" in said
        node = Node(tmp_path, "node", where, environment={"SSL_CERT_FILE": str(certificate)})
        cluster.nodes.append(node)
        await node.ready()
        await cluster.encoder().publish(node.port())
        assert "Traceback" not in node.text()
    finally:
        starts.end()
        await cluster.stop()
