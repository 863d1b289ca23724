"""HLS viewers on a live stream: what they cost the server, and how old a frame is when its part has reached them.

The viewers do what players of low-latency HLS do: a blocked request for the playlist, then the part that came, and so on.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from urllib.parse import urljoin

import attrs

from rtmprelay.bench.connections import APP, HOST
from rtmprelay.bench.processes import sample
from rtmprelay.bench.servers import Contestant, Extras, RunningServer, free_port
from rtmprelay.bench.stream import MEASURED, STAMP_SIZE, read_stamp
from rtmprelay.bench.tasks import PlayTask, PublishTask, Received, Sent, percentile_ms
from rtmprelay.bench.workers import Workers

_INDEX = f"/{APP}/bench0/index.m3u8"
_READY_WITHIN = 60.0

#: Seconds until the first segment is complete, and a little more.
_WARM_UP = 5.0

_PART = re.compile(r'#EXT-X-PART:DURATION=[\d.]+,URI="([^"]+)"')
_SEQUENCE = re.compile(r"#EXT-X-MEDIA-SEQUENCE:(\d+)")


@attrs.frozen
class HlsFigures:
    """What was measured.

    Attributes:
        newest_ms: How old the newest frame of each part was when a viewer had it; sorted.
        oldest_ms: The same for the oldest frame of each part: older by the length of the part.
        player_p99_ms: The age of frames at an RTMP player beside the viewers, 99th percentile.
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

    def lines(self) -> list[str]:
        return [
            f"{self.viewers} viewers of HLS, {self.seconds:.0f} s, part {_middle(self.newest_ms, self.oldest_ms):.0f} ms",
            f"  {self.requests / self.seconds:.0f} requests a second, {self.gigabits / self.seconds:.3f} Gbit/s,"
            f" {self.cpu_share:.1%} of a core, {self.failed} requests failed",
            f"  age of the newest frame of a part at the viewer: median {_share(self.newest_ms, 0.5):.1f} ms,"
            f" p99 {_share(self.newest_ms, 0.99):.1f} ms",
            f"  age of its oldest frame: median {_share(self.oldest_ms, 0.5):.0f} ms, p99 {_share(self.oldest_ms, 0.99):.0f} ms",
            f"  p99 at a player of RTMP beside them: {self.player_p99_ms or 0.0:.1f} ms",
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
            text = self._get(f"{path}&_HLS_msn={segment}&_HLS_part={part}&_HLS_skip=YES").decode()
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
    )
