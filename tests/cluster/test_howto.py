"""What docs/howto/nodes.rst says is done, word by word: three nodes, ffmpeg, and haproxy-nodes.cfg in front of them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from tests.cluster.ports import Ports
from tests.cluster.redis import PROGRAM, needs_redis
from tests.docs.pages import DOCS, blocks, commands_in
from tests.helpers import DEADLINE, wait_for
from tests.service.command import BlockingClient

pytestmark = needs_redis

HAPROXY = shutil.which("haproxy")


def commands(program: str) -> list[tuple[str, ...]]:
    """The commands of the page that begin with this word."""
    return [
        command.words
        for block in blocks()
        if block.page == "docs/howto/nodes.rst" and block.language == "sh"
        for command in commands_in(block.text)
        if command.words[0] == program
    ]


class Nodes(Ports):
    """What was started, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}


def packets(url: str) -> int:
    """How many packets ffmpeg reads in two seconds of a stream."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", url, "-t", "2"]
    played = subprocess.run(
        [*command, "-c", "copy", "-f", "framehash", "-"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    return len([line for line in played.stdout.splitlines() if not line.startswith("#")])


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Redis and the three nodes of the page, with other ports."""
    ports = Nodes()
    (openssl,) = commands("openssl")
    secret = subprocess.run([*openssl[:4]], capture_output=True, check=True).stdout
    (tmp_path / "cluster-secret").write_bytes(secret)
    with ExitStack() as stack:

        def start(name: str, *words: str) -> None:
            out = stack.enter_context((tmp_path / f"{name}.log").open("w"))
            process = subprocess.Popen(words, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)
            ports.processes[name] = process
            stack.callback(process.wait)
            stack.callback(process.kill)

        (redis,) = commands("redis-server")
        start("redis", str(PROGRAM), *[ports.moved(f":{word}")[1:] for word in redis[1:]])
        wait_for(lambda: "Ready to accept" in (tmp_path / "redis.log").read_text(), "Redis")
        for number, words in enumerate(commands("rtmprelay"), 1):
            start(f"node{number}", sys.executable, "-m", *[ports.moved(word) for word in words])
        for number in (1, 2, 3):
            log = tmp_path / f"node{number}.log"
            wait_for(lambda log=log: log.read_text().count("Listening on") == 2, log.name)  # type: ignore[misc]
            ready = f"http://127.0.0.1:{ports[f'804{number}']}/health/ready"
            wait_for(lambda ready=ready: _is_ready(ready), "the cluster")  # type: ignore[misc]
        yield ports


def _is_ready(url: str) -> bool:
    try:
        return get(url)["ready"] is True
    except urllib.error.HTTPError:
        return False


@pytest.mark.full
def test_page_works_as_it_is_written(nodes: Nodes, tmp_path: Path) -> None:
    (ffmpeg,) = commands("ffmpeg")
    (curl,) = commands("curl")
    publishing = subprocess.Popen(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *[nodes.moved(word) for word in ffmpeg[1:]]],
        stdin=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: "live/film" in str(get(nodes.moved(curl[1]))["streams"]), "the stream")
        media = f"http://127.0.0.1:{nodes['8043']}/live/film"
        for url in (
            nodes.moved(commands("ffplay")[0][1]),
            f"{media}.flv",
            f"{media}.mp4",
            f"{media}/index.m3u8",
        ):
            assert packets(url) >= 45, url
    finally:
        publishing.terminate()
        publishing.wait()
    assert (tmp_path / "cluster-secret").read_text().strip() not in (tmp_path / "node1.log").read_text()


@pytest.mark.full
def test_player_on_the_third_goes_on_when_the_first_is_killed_and_the_encoder_comes_to_the_second(
    nodes: Nodes, tmp_path: Path
) -> None:
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", "-v", "error"]
    (words,) = commands("ffmpeg")
    player = nodes.moved(commands("ffplay")[0][1])
    played = tmp_path / "played.txt"

    def packets_so_far() -> list[int]:
        lines = played.read_text().splitlines(keepends=True) if played.exists() else []
        return [int(line.split(",")[1]) for line in lines if not line.startswith("#") and line.endswith("\n")]

    with ExitStack() as stack:

        def start(*arguments: str) -> None:
            process = subprocess.Popen([*ffmpeg, *arguments])
            stack.callback(process.wait)
            stack.callback(process.kill)

        start(*[nodes.moved(word) for word in words[1:]])
        wait_for(lambda: "live/film" in owners(nodes), "the stream")
        start("-i", player, "-c", "copy", "-flush_packets", "1", "-f", "framehash", str(played))
        wait_for(lambda: len(packets_so_far()) >= 50, "two seconds of pictures")
        nodes.processes["node1"].kill()
        before = len(packets_so_far())
        start(*[nodes.moved(word.replace(":1941", ":1942")) for word in words[1:]])
        wait_for(lambda: len(packets_so_far()) >= before + 75, "pictures of the second node")
        times = packets_so_far()
        assert times == sorted(times)
        assert owners(nodes)["live/film"].endswith(str(nodes["1942"]))


@pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy: apt-get install haproxy")
def test_haproxy_leads_new_connections_past_a_node_that_drains(nodes: Nodes, tmp_path: Path) -> None:
    config = (DOCS / "examples" / "haproxy-nodes.cfg").read_text()
    config = re.sub(r"port (\d{4})", lambda found: f"port {nodes[found[1]]}", nodes.moved(config))
    (tmp_path / "haproxy-nodes.cfg").write_text(config)
    with (tmp_path / "haproxy.log").open("w") as out:
        process = subprocess.Popen(
            [str(HAPROXY), "-f", str(tmp_path / "haproxy-nodes.cfg"), "-db"], stdout=out, stderr=out
        )
    try:
        wait_for(lambda: _connects(nodes["1935"]), "HAProxy")
        clients = [BlockingClient(nodes["1935"]) for _ in range(6)]
        accepted = [client.publish(f"s{number}") for number, client in enumerate(clients)]
        wait_for(lambda: len(owners(nodes)) == 6, "the streams")
        assert len(set(owners(nodes).values())) > 1
        first = str(nodes["1941"])
        nodes.processes["node1"].send_signal(signal.SIGUSR2)
        wait_for(lambda: not _is_ready(f"http://127.0.0.1:{nodes['8041']}/health/ready"), "the drain")
        wait_for(lambda: "DOWN" in (tmp_path / "haproxy.log").read_text(), "HAProxy to notice")
        clients += [BlockingClient(nodes["1935"]) for _ in range(4)]
        accepted += [client.publish(f"s{number + 6}") for number, client in enumerate(clients[6:])]
        assert accepted == ["accepted"] * 10
        wait_for(lambda: len(owners(nodes)) == 10, "the streams")
        assert not [
            key for key in ("live/s6", "live/s7", "live/s8", "live/s9") if owners(nodes)[key].endswith(first)
        ]
        for client in clients:
            client.close()
    finally:
        process.kill()
        process.wait()


def owners(nodes: Nodes) -> dict[str, str]:
    """The node of each stream, as the second node knows it."""
    streams: Any = get(f"http://127.0.0.1:{nodes['8042']}/cluster")["streams"]
    return {key: one["node"] for key, one in streams.items()}


def _connects(port: int) -> bool:
    try:
        BlockingClient(port).close()
    except (OSError, AssertionError):
        return False
    return True
