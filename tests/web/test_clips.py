"""Clips over HTTP: what is in them, which part of the window they are, and what they may cost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urljoin

import pytest

from rtmprelay.access.request import refused
from rtmprelay.media import MediaFrame
from rtmprelay.outputs.hls.settings import HlsSettings
from tests.access.helpers import Answering
from tests.mp4.box_reader import boxes
from tests.mp4.encoded import audio_clip, decoded_count, demuxed, video_clip
from tests.web.helpers import STARTED_AT, Client, Response
from tests.web.hls import HlsWeb
from tests.web.recordings.recorded import repeated

SECONDS = 12


def film(seconds: int = SECONDS) -> list[MediaFrame]:
    """Real pictures and sound; a clip of 24 pictures in 0.96 s again and again."""
    frames = [*repeated(video_clip("H.264 with B-frames"), seconds), *repeated(audio_clip("AAC"), seconds)]
    return sorted(frames, key=lambda frame: frame.timestamp_ms)


class ClipWeb(HlsWeb):
    """A relay that has had a stream for some seconds."""

    def __init__(self, *authorizers: Answering, folder: Path | None = None, seconds: int = SECONDS) -> None:
        settings = HlsSettings(match=("*",), window=60.0, folder=folder)
        super().__init__(settings, authorizers=authorizers)
        frames = film(seconds)
        self.stream = self.publish("live/film", frames[:2])
        self._frames = frames[2:]
        self.pass_time(seconds)

    def clip(self, query: str = "") -> Response:
        return self.get(f"/live/film/clip.mp4{query}")


def iso(seconds: float) -> str:
    """A moment of the test, as a query has it."""
    return quote(datetime.fromtimestamp(STARTED_AT + seconds, UTC).isoformat())


def test_clip_has_the_frames_that_were_published() -> None:
    response = ClipWeb().clip()
    assert response.status == 200
    assert response.headers["content-type"] == "video/mp4"
    assert int(response.headers["content-length"]) == len(response.body)
    assert [box.kind for box in boxes(response.body)] == ["ftyp", "moov", "mdat"]
    pictures = demuxed(response.body, 1000, "video")[0]
    published = [packet.data for packet in video_clip("H.264 with B-frames").packets] * SECONDS
    found = [packet.data for packet in pictures]
    assert pictures[0].keyframe
    assert len(found) > 24 * 10
    assert found == published[: len(found)]
    assert pictures[0].shown == 0
    sounds = [packet.data for packet in demuxed(response.body, None, "audio")[0]]
    everything = [packet.data for packet in audio_clip("AAC").packets] * SECONDS
    assert len(sounds) > 400
    assert sounds == everything[: len(sounds)]
    assert decoded_count(response.body) == len(found)


def test_clip_out_of_a_window_on_a_disk_is_the_same(tmp_path: Path) -> None:
    """Only its end is in memory."""
    web = ClipWeb(folder=tmp_path, seconds=50)
    clip = web.clip("?last=45s").body
    assert web.hls.held_bytes < len(clip) * 0.6
    assert clip == ClipWeb(seconds=50).clip("?last=45s").body


def test_clip_whose_file_is_gone_is_told(tmp_path: Path) -> None:
    web = ClipWeb(folder=tmp_path, seconds=50)
    for file in tmp_path.rglob("s-*"):
        file.unlink()
    assert web.clip("?last=45s").error == (404, "not_found")


@pytest.mark.parametrize("last", [3, 6])
def test_last_seconds_are_from_the_keyframe_before_them(last: int) -> None:
    response = ClipWeb().clip(f"?last={last}s")
    pictures = demuxed(response.body, 1000, "video")[0]
    assert pictures[0].keyframe
    length = (pictures[-1].decoded - pictures[0].decoded) / 1000
    # As much more as a segment is long, at most.
    assert last - 0.1 <= length <= last + 2.2


def test_clip_of_a_time_is_what_was_published_then() -> None:
    web = ClipWeb()
    response = web.clip(f"?from={iso(4)}&to={iso(7)}")
    assert response.status == 200
    pictures = demuxed(response.body, 1000, "video")[0]
    assert 2.9 <= (pictures[-1].decoded - pictures[0].decoded) / 1000 <= 7
    assert 'filename="live_film_' in response.headers["content-disposition"]
    assert len(response.body) < len(web.clip().body)


WRONG = [
    ("?last=soon", "last is wrong"),
    ("?last=0", "last is wrong"),
    ("?last=11m", "a clip has 600 s at most"),
    ("?last=3s&from=2026-05-17T20:15:00Z", "either last or from and to"),
    ("?from=2026-05-17T20:15:00", "from is wrong: a time with its zone"),
    ("?to=yesterday", "to is wrong"),
    (f"?from={iso(9)}&to={iso(8)}", "from must be before to"),
    ("?last=%ff", "last is wrong"),
    ("?" + "&".join("abcdefghijklmnopqrstuvwxyzabcdefghijklmnop") + "=1", "the query cannot be read"),
]


@pytest.mark.parametrize(("query", "words"), WRONG)
def test_nonsense_in_the_query_is_told(query: str, words: str) -> None:
    response = ClipWeb().clip(query)
    assert response.error == (400, "bad_request")
    assert words in response.json["error"]["message"]


def test_time_that_is_not_in_the_window_is_told() -> None:
    response = ClipWeb().clip(f"?from={iso(-100)}&to={iso(-90)}")
    assert response.error == (404, "not_found")
    assert "it reaches from 20" in response.json["error"]["message"]


def test_stream_that_is_not_there_has_no_clip() -> None:
    assert ClipWeb().get("/live/none/clip.mp4").error == (404, "not_found")


def test_gate_is_asked_for_a_clip() -> None:
    answering = Answering()
    assert ClipWeb(answering).clip("?key=x").status == 200
    assert [request.stream for request in answering.asked] == ["live/film"]
    assert ClipWeb(Answering(refused("not you"))).clip("?key=x").error == (403, "forbidden")


def test_clips_together_hold_a_bounded_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read keeps its clip; the next one is told to come later."""
    web = ClipWeb()
    size = len(web.clip().body)
    web.http.site.unread.most = size * 5
    slow = []
    for _ in range(2):
        client = Client(web)
        client.transport.stalled = True
        # Larger than a transport takes, so that it is not sent at once.
        monkeypatch.setattr("rtmprelay.hls.clip._PIECE", 4096)
        client.send(b"GET /live/film/clip.mp4 HTTP/1.1\r\nHost: r\r\n\r\n")
        assert len(client.transport.value()) < size
        slow.append(client)
    response = web.clip()
    assert response.error == (503, "too_many_clients")
    assert response.headers["retry-after"]
    slow[0].transport.read_all()
    while not slow[0].transport.value().endswith(b"0\r\n\r\n") and slow[0].transport.value():
        slow[0].transport.read_all()
    slow[1].lose()
    assert web.clip().status == 200


def test_large_clip_is_refused() -> None:
    web = ClipWeb()
    web.http.site.unread.most = 1000
    response = web.clip()
    assert response.error == (400, "bad_request")
    assert "too large" in response.json["error"]["message"]


def test_head_request_gets_the_size_only() -> None:
    response = ClipWeb().request("HEAD", "/live/film/clip.mp4")
    assert response.status == 200
    assert int(response.headers["content-length"]) > 10_000


# -- parts of a file, as phones ask for them -----------------------------------------------------------------


def test_client_that_wants_parts_is_led_to_a_clip_that_stays_the_same() -> None:
    web = ClipWeb()
    moved = web.get("/live/film/clip.mp4?last=6s", Range="bytes=0-1")
    assert moved.status == 302
    fixed = urljoin("/live/film/clip.mp4", moved.headers["location"])
    whole = web.get(fixed)
    assert whole.headers["accept-ranges"] == "bytes"
    web.pass_time(1)
    parts = [
        web.get(fixed, Range=f"bytes={begin}-{begin + 4999}") for begin in range(0, len(whole.body), 5000)
    ]
    assert {part.status for part in parts} == {206}
    assert {part.headers["etag"] for part in parts} == {whole.headers["etag"]}
    assert b"".join(part.body for part in parts) == whole.body
    assert demuxed(whole.body, 1000, "video")[0][0].keyframe


RANGES = [
    ("bytes=0-1", 206, slice(0, 2)),
    ("bytes=10-", 206, slice(10, None)),
    ("bytes=-7", 206, slice(-7, None)),
    ("bytes=5-999999999", 206, slice(5, None)),
    ("bytes=0-1,5-6", 200, slice(None)),
    ("bytes=9-3", 200, slice(None)),
    ("bytes=-", 200, slice(None)),
    ("pages=1-2", 200, slice(None)),
]


@pytest.mark.parametrize(("wanted", "status", "part"), RANGES)
def test_parts_of_a_clip(wanted: str, status: int, part: slice) -> None:
    web = ClipWeb()
    address = f"/live/film/clip.mp4?from={iso(4)}&to={iso(7)}"
    whole = web.get(address).body
    found = web.get(address, Range=wanted)
    assert (found.status, found.body) == (status, whole[part])
    assert int(found.headers["content-length"]) == len(found.body)
    if status == 206:
        begin, end, _ = part.indices(len(whole))
        assert found.headers["content-range"] == f"bytes {begin}-{end - 1}/{len(whole)}"


def test_bytes_that_are_not_there_are_told() -> None:
    web = ClipWeb()
    address = f"/live/film/clip.mp4?from={iso(4)}&to={iso(7)}"
    size = len(web.get(address).body)
    found = web.get(address, Range="bytes=99999999-")
    assert found.error == (416, "range_not_satisfiable")
    assert found.headers["content-range"] == f"bytes */{size}"


def test_clip_that_has_changed_is_sent_as_a_whole() -> None:
    web = ClipWeb()
    address = f"/live/film/clip.mp4?from={iso(4)}&to={iso(7)}"
    tag = web.get(address).headers["etag"]
    assert web.get(address, Range="bytes=0-1", If_Range=tag).status == 206
    assert web.get(address, Range="bytes=0-1", If_Range='"other"').status == 200


def test_address_of_a_clip_is_signed_and_has_no_key_in_it() -> None:
    answering = Answering()
    web = ClipWeb(answering)
    moved = web.get("/live/film/clip.mp4?last=6s&key=SECRET", Range="bytes=0-")
    assert moved.status == 302
    assert "SECRET" not in moved.headers["location"]
    fixed = urljoin("/live/film/clip.mp4", moved.headers["location"])
    answering.answer = refused("not any more")
    assert web.get(fixed, Range="bytes=0-1").status == 206
    assert web.get(fixed.replace("live/film", "live/other")).status == 403
    web.clock.advance(3600)
    assert web.get(fixed).status == 403
