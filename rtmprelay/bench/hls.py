"""HLS viewers on a live stream: what they cost the server, and how old a frame is when its part has reached them.

The viewers do what players of low-latency HLS do: a blocked request for the playlist, then the part that came, and so on.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin

import attrs

from rtmprelay.bench.connections import APP, HOST
from rtmprelay.bench.processes import sample
from rtmprelay.bench.servers import Contestant, Extras, RunningServer, free_port
from rtmprelay.bench.stream import MEASURED, STAMP_SIZE, read_stamp
from rtmprelay.bench.tasks import PlayTask, PublishTask, Received, Sent, percentile_ms
from rtmprelay.bench.workers import BenchError, Workers

_INDEX = f"/{APP}/bench0/index.m3u8"
_READY_WITHIN = 60.0

#: Seconds until the first segment is complete, and a little more.
_WARM_UP = 5.0

_PART = re.compile(r'#EXT-X-PART:DURATION=[\d.]+,URI="([^"]+)"')
_SEQUENCE = re.compile(r"#EXT-X-MEDIA-SEQUENCE:(\d+)")
_RESPONSES = re.compile(r"^rtmprelay_http_responses_total\{[^}]*\} (\S+)$", re.MULTILINE)

#: Varnish as the documents say, in a checkout of the source.
VARNISH_FILE = Path(__file__).parents[2] / "docs" / "examples" / "hls-varnish.vcl"


@attrs.frozen
class HlsFigures:
    """What was measured.

    Attributes:
        newest_ms: How old the newest frame of each part was when a viewer had it; sorted.
        oldest_ms: The same for the oldest frame of each part: older by the length of the part.
        player_p99_ms: The age of frames at an RTMP player beside the viewers, 99th percentile.
        joined: Segments whose parts were compared with them, and how many of these were the same byte for byte.
    """

    viewers: int
    seconds: float
    cpu_share: float
    requests: int
    gigabits: float
    failed: int
    newest_ms: list[float]
    oldest_ms: list[float]
    player_p99_ms: float | None = None
    joined: tuple[int, int] = (0, 0)

    def lines(self) -> list[str]:
        beside = f"  p99 at a player of RTMP beside them: {self.player_p99_ms or 0.0:.1f} ms"
        if not self.viewers:
            return ["no viewers of HLS", beside]
        return [
            f"{self.viewers} viewers of HLS, {self.seconds:.0f} s, part {_middle(self.newest_ms, self.oldest_ms):.0f} ms",
            f"  {self.requests / self.seconds:.0f} requests a second, {self.gigabits / self.seconds:.3f} Gbit/s,"
            f" {self.cpu_share:.1%} of a core, {self.failed} requests failed",
            f"  age of the newest frame of a part at the viewer: median {_share(self.newest_ms, 0.5):.1f} ms,"
            f" p99 {_share(self.newest_ms, 0.99):.1f} ms",
            f"  age of its oldest frame: median {_share(self.oldest_ms, 0.5):.0f} ms, p99 {_share(self.oldest_ms, 0.99):.0f} ms",
            beside,
            f"  parts joined are the segment, byte for byte: {self.joined[1]} of {self.joined[0]} segments",
        ]


@attrs.frozen
class CachedFigures:
    """What reached the relay of what viewers behind a cache asked for."""

    viewers: int
    asked: int
    distinct: int
    reached: int
    failed: int

    def lines(self) -> list[str]:
        return [
            f"{self.viewers} viewers of HLS behind Varnish: {self.asked} requests for {self.distinct} addresses,"
            f" {self.reached} reached the relay: {self.reached / max(1, self.distinct):.2f} for each,"
            f" {self.failed} requests failed"
        ]


def _share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _middle(newest: list[float], oldest: list[float]) -> float:
    return _share(oldest, 0.5) - _share(newest, 0.5)


class _Viewer(threading.Thread):
    """One viewer with one connection."""

    def __init__(self, port: int, until: float) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection(HOST, port, timeout=20)
        self._until = until
        self.requests = self.bytes = self.failed = 0
        self.addresses: Counter[str] = Counter()
        self.newest_ms: list[float] = []
        self.oldest_ms: list[float] = []

    def run(self) -> None:
        try:
            self._watch()
        except (OSError, http.client.HTTPException):
            self.failed += 1
        finally:
            self._connection.close()

    def _get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        body = response.read()
        self.requests += 1
        self.addresses[path] += 1
        self.bytes += len(body)
        if response.status != 200:
            self.failed += 1
            return b""
        return body

    def _watch(self) -> None:
        path = urljoin(_INDEX, self._get(_INDEX).decode().strip().rpartition("\n")[2])
        text = self._get(path).decode()
        seen = set(_PART.findall(text))
        while time.monotonic() < self._until:
            segment, part = _next_part(text)
            sign = "&" if "?" in path else "?"
            text = self._get(f"{path}{sign}_HLS_msn={segment}&_HLS_part={part}&_HLS_skip=YES").decode()
            if not text:
                return
            for uri in _PART.findall(text):
                if uri not in seen:
                    seen.add(uri)
                    self._look(self._get(urljoin(path, uri)))

    def _look(self, part: bytes) -> None:
        now = time.monotonic_ns()
        for at, ages in ((part.rfind(MEASURED), self.newest_ms), (part.find(MEASURED), self.oldest_ms)):
            if at >= 0 and at + len(MEASURED) + STAMP_SIZE <= len(part):
                ages.append((now - read_stamp(part, at + len(MEASURED)).sent_ns) / 1e6)


def _next_part(text: str) -> tuple[int, int]:
    """The segment and the part that come after what the playlist has."""
    match = _SEQUENCE.search(text)
    skipped = re.search(r"SKIPPED-SEGMENTS=(\d+)", text)
    first = (int(match[1]) if match else 0) + (int(skipped[1]) if skipped else 0)
    complete, _, rest = text.rpartition("#EXTINF")
    segments = text.count("#EXTINF")
    return first + segments, len(_PART.findall(rest if complete else text))


def measure_hls(viewers: int, seconds: float, part: str) -> HlsFigures:
    """Start a server, one publisher and so many viewers, and measure for so many seconds."""
    port = free_port()
    contestant = Contestant(
        "rtmprelay with HLS", ("--hls", "*", "--hls-part", part, "--http-media", f"{HOST}:{port}")
    )
    with Workers() as workers, RunningServer(contestant, Extras()) as server:
        publisher = workers.start("publishers", PublishTask(server.port, 1, 4096))
        publisher.wait_for("ready", _READY_WITHIN)
        publisher.order("warm up")
        player = workers.start("player", PlayTask(server.port, verify=True, rest=0.0))
        player.order("join", join=1)
        player.wait_for("ready", _READY_WITHIN)
        time.sleep(_WARM_UP)
        for worker in (publisher, player):
            worker.order("open")
        until = time.monotonic() + seconds
        crowd = [_Viewer(port, until) for _ in range(viewers)]
        before = sample(server.pid)
        for viewer in crowd:
            viewer.start()
        time.sleep(max(0.0, until - time.monotonic()))
        after = sample(server.pid)
        publisher.order("close")
        sent = publisher.result("sent", Sent, _READY_WITHIN)
        player.order("expect", frames=sent.frames)
        received = player.result("received", Received, _READY_WITHIN)
        for viewer in crowd:
            viewer.join(20)
        joined = _compare_joined(port) if viewers else (0, 0)
    passed = after.at - before.at
    return HlsFigures(
        viewers,
        passed,
        after.cpu_since(before) / passed,
        sum(viewer.requests for viewer in crowd),
        sum(viewer.bytes for viewer in crowd) * 8 / 1e9,
        sum(viewer.failed for viewer in crowd),
        sorted(age for viewer in crowd for age in viewer.newest_ms),
        sorted(age for viewer in crowd for age in viewer.oldest_ms),
        percentile_ms(received.latency, 0.99),
        joined,
    )


def _compare_joined(port: int) -> tuple[int, int]:
    """How many segments have parts in the playlist, and how many of these are their parts, one after the other."""
    connection = http.client.HTTPConnection(HOST, port, timeout=20)

    def get(path: str) -> bytes:
        connection.request("GET", path)
        return connection.getresponse().read()

    path = urljoin(_INDEX, get(_INDEX).decode().strip().rpartition("\n")[2])
    compared = same = 0
    parts: list[str] = []
    for line in get(path).decode().splitlines():
        if found := _PART.match(line):
            parts.append(urljoin(path, found[1]))
        elif line and not line.startswith("#"):
            if parts:
                compared += 1
                same += b"".join(map(get, parts)) == get(urljoin(path, line))
            parts = []
    connection.close()
    return compared, same


def varnish_is_there() -> bool:
    """Whether Varnish can be started as the documents say (Debian: varnish)."""
    return shutil.which("varnishd") is not None and VARNISH_FILE.exists()


def measure_cached(viewers: int, seconds: float) -> CachedFigures:
    """Start a server, one publisher, Varnish in front of it, and so many viewers."""
    port, status, front = free_port(), free_port(), free_port()
    options = ("--hls", "*", "--hls-anonymous", "--http-media", f"{HOST}:{port}")
    contestant = Contestant("rtmprelay with HLS", (*options, "--http-status", f"{HOST}:{status}"))
    with (
        Workers() as workers,
        RunningServer(contestant, Extras()) as server,
        _varnish(port, front),
    ):
        publisher = workers.start("publishers", PublishTask(server.port, 1, 4096))
        publisher.wait_for("ready", _READY_WITHIN)
        for order in ("warm up", "open"):
            publisher.order(order)
            time.sleep(_WARM_UP)
        before = _responses(status)
        until = time.monotonic() + seconds
        crowd = [_Viewer(front, until) for _ in range(viewers)]
        for viewer in crowd:
            viewer.start()
        for viewer in crowd:
            viewer.join(seconds + 60)
        # The question itself is one of them.
        reached = _responses(status) - before - 1
        publisher.order("close")
        publisher.result("sent", Sent, _READY_WITHIN)
    addresses = sum((viewer.addresses for viewer in crowd), Counter[str]())
    failed = sum(viewer.failed for viewer in crowd)
    return CachedFigures(viewers, addresses.total(), len(addresses), reached, failed)


def _responses(port: int) -> int:
    """How many requests the relay has answered."""
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return int(sum(map(float, _RESPONSES.findall(text))))


@contextmanager
def _varnish(relay: int, front: int) -> Iterator[None]:
    """Varnish with the documented file, between two ports."""
    with TemporaryDirectory(prefix="rtmprelay-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        text = VARNISH_FILE.read_text().replace('.port = "8081"', f'.port = "{relay}"')
        (folder / "hls.vcl").write_text(text)
        command = ["varnishd", "-F", "-a", f"{HOST}:{front}", "-f", str(folder / "hls.vcl")]
        command += ["-n", str(folder / "varnish"), "-s", "malloc,64m", "-s", "Transient=malloc,64m"]
        command += [] if os.geteuid() == 0 else ["-j", "none"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _await_port(front, process)
            yield
        finally:
            process.terminate()
            process.wait(15)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((HOST, port), 5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise BenchError("Varnish did not start")
