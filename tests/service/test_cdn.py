"""HLS through the caches and proxies of the documents: real programs with the documented files, and 200 viewers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

import pytest

from tests.helpers import LOOPBACK, free_port
from tests.service.browser import until
from tests.service.command import Server
from tests.service.hls_crowd import Crowd, watch
from tests.service.interop import FFmpeg

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

#: What Debian's programs are called, and the package that has them.
PACKAGES = {"nginx": "nginx", "varnishd": "varnish", "haproxy": "haproxy"}

VIEWERS = 200
#: Parts that each of them gets: playlists that are asked for without a number may be kept for a second only, and count little
#: beside these.
PARTS = 24

#: Requests that reach the relay for each distinct URL, at most.
MOST = 1.1

MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 20"
    " -c:v libx264 -preset veryfast -tune zerolatency -g 25 -pix_fmt yuv420p -b:v 300k -c:a aac"
)


def needs(program: str) -> pytest.MarkDecorator:
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"there is no {program}: apt-get install {PACKAGES[program]}")


class Origin:
    """A relay with a stream, that counts the requests of viewers."""

    def __init__(self, folder: Path, ffmpeg: FFmpeg) -> None:
        options = ("--hls", "*", "--hls-anonymous", "--http-media", LOOPBACK, "--http-status", LOOPBACK)
        self.relay = Server(folder, *options)
        self.relay.wait_for_text("for RTMP")
        until(lambda: len(self._ports("HTTP")) == 2 or None, "two HTTP listeners")
        rtmp = self._ports("RTMP")[0]
        source = ffmpeg.make("cached.flv", MEDIA)
        command = [
            ffmpeg.program,
            "-v",
            "error",
            "-re",
            "-stream_loop",
            "-1",
            "-i",
            str(source),
            "-c",
            "copy",
        ]
        command += ["-f", "flv", f"rtmp://127.0.0.1:{rtmp}/live/film"]
        self._publisher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The status has more to tell than the port for viewers.
        self._status, self.port = sorted(self._ports("HTTP"), key=lambda port: not self._has_metrics(port))
        until(lambda: self._is_live() or None, "a playlist")

    def _ports(self, protocol: str) -> list[int]:
        return [int(port) for port in re.findall(rf"127\.0\.0\.1:(\d+) for {protocol}", self.relay.text())]

    @staticmethod
    def _has_metrics(port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10):
                return True
        except urllib.error.HTTPError:
            return False

    def _is_live(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/live/film/index.m3u8", timeout=20):
                return True
        except urllib.error.HTTPError:
            return False

    def answered(self) -> int:
        """Responses so far, without those to this question."""
        self._asked = getattr(self, "_asked", 0) + 1
        with urllib.request.urlopen(f"http://127.0.0.1:{self._status}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        counts = re.findall(r"^rtmprelay_http_responses_total\{[^}]*\} ([\d.e+]+)$", text, re.MULTILINE)
        assert counts, text
        return int(sum(map(float, counts))) - self._asked

    def stop(self) -> None:
        self._publisher.kill()
        self._publisher.wait()
        self.relay.stop()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, ffmpeg: FFmpeg) -> Iterator[Origin]:
    """One relay for all tests of this file."""
    origin = Origin(tmp_path_factory.mktemp("origin"), ffmpeg)
    try:
        yield origin
    finally:
        origin.stop()


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[str]:
    """A proxy, as the URL of the stream behind it."""
    log = folder / "proxy.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)

    def answers() -> bool | None:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/live/film/", timeout=20):
                return True
        except OSError:
            return None

    try:
        until(answers, f"an answer of {command[0]}")
        yield f"http://127.0.0.1:{port}/live/film/index.m3u8"
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def replaced(name: str, changes: dict[str, str]) -> str:
    """A documented file with the ports and folders of this test."""
    text = (EXAMPLES / name).read_text()
    for old, new in changes.items():
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    return text


def through(origin: Origin, url: str) -> tuple[Crowd, int]:
    """What the viewers asked for, and how many requests of that reached the relay."""
    before = origin.answered()
    crowd = watch(url, VIEWERS, PARTS)
    reached = origin.answered() - before
    asked = sum(crowd.requests.values())
    sys.stdout.write(f"{asked} requests of {crowd.distinct} URLs, {reached} of them reached the relay\n")
    assert crowd.failures == {}
    assert len(crowd.parts) == VIEWERS
    assert min(crowd.parts) >= PARTS
    return crowd, reached


@needs("nginx")
def test_behind_nginx_the_relay_is_asked_once_for_each_url(origin: Origin, tmp_path: Path) -> None:
    port = free_port()
    config = replaced(
        "hls-nginx.conf",
        {
            "/var/cache/nginx/hls": str(tmp_path / "cache"),
            "127.0.0.1:8081": f"127.0.0.1:{origin.port}",
            "listen 443 ssl http2": f"listen 127.0.0.1:{port}",
            "    ssl_certificate /etc/nginx/live.pem;\n    ssl_certificate_key /etc/nginx/live.key;\n": "",
        },
    )
    # What Debian's own file has around it.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (tmp_path / "nginx.conf").write_text(
        f"{user}daemon off;\npid {tmp_path}/pid;\nerror_log stderr;\nworker_processes 1;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n{config}}}\n"
    )
    command = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", "stderr"]
    with running(command, tmp_path, port) as url:
        crowd, reached = through(origin, url)
    assert reached <= MOST * crowd.distinct


@needs("varnishd")
def test_behind_varnish_the_relay_is_asked_once_for_each_url(origin: Origin, tmp_path: Path) -> None:
    port = free_port()
    vcl = replaced("hls-varnish.vcl", {'.port = "8081"': f'.port = "{origin.port}"'})
    (tmp_path / "hls.vcl").write_text(vcl)
    command = ["varnishd", "-F", "-a", f"127.0.0.1:{port}", "-f", str(tmp_path / "hls.vcl")]
    command += ["-n", str(tmp_path / "varnish"), "-s", "malloc,64m", "-s", "Transient=malloc,64m"]
    if os.geteuid() == 0:
        # The part that speaks HTTP runs as another user, who must reach the files.
        for folder in (tmp_path, *tmp_path.parents):
            if folder.is_relative_to(gettempdir()) and folder != Path(gettempdir()):
                folder.chmod(0o755)
    else:
        command += ["-j", "none"]
    with running(command, tmp_path, port) as url:
        crowd, reached = through(origin, url)
    assert reached <= MOST * crowd.distinct


@needs("haproxy")
def test_haproxy_passes_playlists_that_are_awaited(origin: Origin, tmp_path: Path) -> None:
    """It keeps nothing: every request reaches what is behind it."""
    port = free_port()
    config = replaced(
        "hls-haproxy.cfg",
        {
            "bind :443 ssl crt /etc/haproxy/live.pem alpn h2,http/1.1": f"bind 127.0.0.1:{port}",
            "127.0.0.1:8081": f"127.0.0.1:{origin.port}",
        },
    )
    (tmp_path / "haproxy.cfg").write_text(config)
    with running(["haproxy", "-db", "-f", str(tmp_path / "haproxy.cfg")], tmp_path, port) as url:
        crowd = watch(url, 5, 3)
    assert crowd.failures == {}
    assert len(crowd.parts) == 5
