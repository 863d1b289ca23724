"""Recordings that tests make and serve over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from rtmprelay.media import MediaFrame, MediaKind
from tests.mp4.encoded import Clip, audio_clip, video_clip
from tests.web.helpers import Web

NAME = "live_film_20260517_201500.flv"


def repeated(clip: Clip, times: int) -> list[MediaFrame]:
    """A clip again and again, with timestamps that go on."""
    frames = list(clip.frames())
    header = frames[:1] if clip.configuration else []
    coded = frames[len(header) :]
    step = 40 if coded[0].kind is MediaKind.VIDEO else 23
    length = max(frame.timestamp_ms for frame in coded) + step
    return header + [
        MediaFrame(frame.kind, frame.timestamp_ms + number * length, frame.payload)
        for number in range(times)
        for frame in coded
    ]


def film(video: str = "H.264 with B-frames", audio: str = "AAC", seconds: int = 20) -> list[MediaFrame]:
    """Real pictures and sound, in the order of their time; decoder configurations first."""
    frames = [*repeated(video_clip(video), seconds), *repeated(audio_clip(audio), seconds)]
    return sorted(frames, key=lambda frame: frame.timestamp_ms)


def web_with(folder: Path, *authorizers: Any) -> Web:
    return Web(recordings=folder, authorizers=authorizers)


def segments_of(playlist: str) -> list[str]:
    return [line for line in playlist.splitlines() if line and not line.startswith("#")]


def map_of(playlist: str) -> str:
    (uri,) = re.findall(r'#EXT-X-MAP:URI="([^"]+)"', playlist)
    return str(uri)


def whole(web: Web, name: str = NAME) -> tuple[bytes, str]:
    """All that a player gets of a recording, joined; and the playlist."""
    base = f"/recordings/{quote(name)}/index.m3u8"
    answer = web.get(base)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/vnd.apple.mpegurl")
    playlist = answer.body.decode()
    parts = [web.get(urljoin(base, uri)) for uri in (map_of(playlist), *segments_of(playlist))]
    assert {(part.status, part.headers["content-type"]) for part in parts} == {(200, "video/mp4")}
    return b"".join(part.body for part in parts), playlist
