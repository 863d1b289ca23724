"""Clients in memory that watch a live stream."""

from __future__ import annotations

import io

import attrs

from rtmprelay.flv.container import file_header, read_tags
from rtmprelay.media import MediaFrame
from rtmprelay.outputs.http_viewer import LiveMediaSettings
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.web.http_service import HttpPart
from rtmprelay.web.settings import HttpSettings
from tests.helpers import EventList
from tests.mp4.box_reader import Box, Fragment, boxes, fragments
from tests.mp4.media import aac_header, avc_header, metadata, picture, sound
from tests.web.helpers import STARTED_AT, Client, Response, Web, parse_response

#: What an encoder sends first.
START = [metadata(videocodecid=7.0, audiocodecid=10.0, framerate=25.0), avc_header(), aac_header()]


def av_group(begin_ms: int, pictures: int = 5, size: int = 20) -> list[MediaFrame]:
    """A group of pictures with sound, 40 ms apart; no payload is like another."""
    frames: list[MediaFrame] = []
    for number in range(pictures):
        time = begin_ms + 40 * number
        data = time.to_bytes(4) + bytes(size)
        frames += [picture(time, data, key=number == 0), sound(time, b"s" + data[:8])]
    return frames


class MediaWeb(Web):
    """A relay in memory with one live stream, and settings for those who watch."""

    def __init__(self, settings: HttpSettings | None = None, media: LiveMediaSettings | None = None) -> None:
        super().__init__(settings)
        if media is not None:
            self.http = HttpPart(
                self.service.control,
                self.settings,
                self.clock,
                wall_clock=lambda: STARTED_AT + self.clock.seconds(),
                media=media,
            )
        self.told = EventList()
        self.service.events.add_sink(self.told)
        self.stream = self.publish(frames=[*START, *av_group(0)])

    def send(self, *frames: MediaFrame) -> None:
        """The publisher sends something, in one piece."""
        self.stream.publish_frames(list(frames), self.clock.seconds())

    def end(self) -> None:
        """The publisher ends its stream."""
        publisher = self.stream.publisher
        assert publisher is not None
        self.registry.unpublish(self.stream, publisher, True)

    def watch(self, path: str = "/live/test.flv", version: str = "1.1", origin: str = "") -> Watcher:
        """Somebody opens a stream."""
        watcher = Watcher(self)
        lines = [f"GET {path} HTTP/{version}", "Host: relay", *([f"Origin: {origin}"] if origin else [])]
        watcher.send("\r\n".join([*lines, "", ""]).encode())
        return watcher


class Watcher(Client):
    """Somebody who watches, and keeps all that came."""

    def __init__(self, world: Web) -> None:
        super().__init__(world)
        self._received = b""

    @property
    def received(self) -> bytes:
        """Everything, read now unless it is stalled; what is read makes room for more."""
        while not self.transport.stalled and (data := self.transport.read_all()):
            self._received += data
        self.lose_if_closed()
        return self._received

    @property
    def response(self) -> Response:
        """What has come of the answer, without the chunks around it."""
        return parse_response(self.received)[0]

    def is_over(self) -> bool:
        """Whether the last chunk has come."""
        return self.received.endswith(b"\r\n0\r\n\r\n")

    def was_cut_off(self) -> bool:
        """Whether the server has had enough."""
        return self.transport.aborted

    @property
    def flv(self) -> list[MediaFrame]:
        """The frames of an FLV that came."""
        body = self.response.body
        tags = list(read_tags(io.BytesIO(body)))
        assert len(body) == (tags[-1].end if tags else len(file_header()))
        return [frame for tag in tags if (frame := tag.to_frame()) is not None]

    @property
    def init(self) -> list[Box]:
        """The beginning of an MP4."""
        return boxes(self.response.body)[:2]

    @property
    def mp4(self) -> list[Fragment]:
        """The fragments of an MP4 that came."""
        body = self.response.body
        begin = self.init[1].offset + 8 + len(self.init[1].content)
        return fragments(body[begin:])

    def samples(self, track: int) -> list[tuple[int, bytes]]:
        """When each sample of a track is decoded, and its data."""
        return [(sample.decoded, sample.data) for fragment in self.mp4 for sample in fragment.of(track)]


def small_queue(**limits: int) -> LiveMediaSettings:
    """Settings with a queue that fills soon."""
    return LiveMediaSettings(queue=attrs.evolve(QueueLimits(), **limits))
