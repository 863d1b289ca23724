"""A relay in memory whose streams can be watched as HLS, and players that read its playlists."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urljoin

from rtmprelay.access.gate import Gate
from rtmprelay.interfaces import IStreamAuthorizer
from rtmprelay.media import MediaFrame
from rtmprelay.outputs.hls.service import Hls
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.web.http_service import HttpPart
from tests.helpers import EventList
from tests.hls.checker import PlaylistChecker, without_query
from tests.hls.playlist import Playlist, read_playlist
from tests.hls.test_cutter import BOTH, interleaved, packets, pictures
from tests.streams.helpers import FakePublisher
from tests.web.helpers import STARTED_AT, Client, Response, Web, parse_response

INDEX = "/live/film/index.m3u8"
PLAYLIST = "/live/film/video0.m3u8"


class HlsWeb(Web):
    """A relay with a stream that is published as its clock goes on."""

    def __init__(
        self,
        settings: HlsSettings | None = None,
        limits: HlsLimits | None = None,
        authorizers: Sequence[IStreamAuthorizer] = (),
        on_media_port: bool = False,
        begin_at: float = 0.0,
    ) -> None:
        super().__init__()
        self.clock.advance(begin_at)
        self.hls = Hls(
            settings or HlsSettings(match=("*",)),
            limits or HlsLimits(),
            self.registry,
            self.service.events,
            self.clock,
            lambda: STARTED_AT + self.clock.seconds(),
        )
        self.http = HttpPart(
            self.service.control,
            self.settings,
            self.clock,
            wall_clock=lambda: STARTED_AT + self.clock.seconds(),
            gate=Gate(authorizers, self.clock),
            hls=self.hls,
        )
        if on_media_port:
            self.http.site = self.http.media_site
        self.hls.start()
        self.told = EventList()
        self.service.events.add_sink(self.told)
        self.publisher = FakePublisher()
        self._frames: list[MediaFrame] = []
        self.checker = PlaylistChecker(without_query)

    def begin(self, key: str = "live/film", frames: Sequence[MediaFrame] = (), seconds: float = 60.0) -> None:
        """A publisher comes; what it sends arrives as the clock goes on."""
        self.stream = self.publish(key, BOTH)
        begin_ms = round(self.clock.seconds() * 1000)
        self._frames = [*frames] or interleaved(
            pictures(seconds, begin_ms=begin_ms), packets(seconds, begin_ms=begin_ms)
        )

    def end(self, clean: bool = True) -> None:
        """The publisher goes."""
        self._frames = []
        publisher = self.stream.publisher
        assert publisher is not None
        self.registry.unpublish(self.stream, publisher, clean)

    def pass_time(self, seconds: float, step: float = 0.02) -> None:
        """Let the clock go on, and the publisher send."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            now = self.clock.seconds()
            due = [frame for frame in self._frames if frame.timestamp_ms / 1000 <= now]
            if due:
                del self._frames[: len(due)]
                self.stream.publish_frames(due, now)

    # -- a player ----------------------------------------------------------------------------------------------

    def index(self) -> str:
        """The path of the media playlist, as index.m3u8 names it."""
        response = self.get(INDEX)
        assert response.status == 200, response
        text = response.body.decode()
        self.checker.add(f"http://relay{INDEX}", text)
        return urljoin(INDEX, read_playlist(text).variants[0][1])

    def playlist(self, path: str) -> Playlist:
        """A media playlist, checked."""
        response = self.get(path)
        assert response.status == 200, response
        return self.check(path, response)

    def check(self, path: str, response: Response) -> Playlist:
        text = response.body.decode()
        self.checker.add(f"http://relay{path}", text)
        return read_playlist(text)

    def ask(self, path: str) -> Waiting:
        """A request that may have to wait."""
        return Waiting(self, path)


class Waiting:
    """A request on a connection of its own."""

    def __init__(self, web: HlsWeb, path: str, **headers: str) -> None:
        self.client = Client(web)
        lines = [f"GET {path} HTTP/1.1", "Host: relay"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.client.send("\r\n".join([*lines, "", ""]).encode())

    @property
    def is_blocked(self) -> bool:
        return not self.client.transport.value()

    @property
    def response(self) -> Response | None:
        """The response, once it is there."""
        data = self.client.transport.value()
        return parse_response(data)[0] if data else None


def watched() -> HlsWeb:
    """With a stream of seven seconds."""
    world = HlsWeb()
    world.begin()
    world.pass_time(7)
    return world
