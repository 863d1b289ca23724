"""Recordings over HTTP: the list, playlists, segments, who may have them, and files that are not as they should be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from rtmprelay.access.request import refused
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.web.recordings import folder as recordings_folder
from rtmprelay.web.recordings import library
from rtmprelay.web.server.responses import HttpError
from tests.access.helpers import Answering
from tests.flv.media import AVC_HEADER, groups, plain_file, tags_in, write_file
from tests.hls.checker import PlaylistChecker
from tests.mp4.encoded import Clip, audio_clip, demuxed, video_clip
from tests.web.helpers import Client, Response, Web

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


# -- what is played ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize(
    ("video", "audio"), [("H.264 with B-frames", "AAC"), ("VP9", "Opus"), ("AV1", "FLAC")]
)
def test_every_frame_of_a_recording_is_played_as_it_was_published(
    tmp_path: Path, video: str, audio: str, with_index: bool
) -> None:
    frames = film(video, audio)
    (tmp_path / NAME).write_bytes(write_file(frames) if with_index else plain_file(frames))
    file, playlist = whole(web_with(tmp_path))
    pictures = repeated(video_clip(video), 20)
    found = demuxed(file, 1000, "video")[0]
    assert [packet.decoded for packet in found] == [
        frame.timestamp_ms for frame in pictures if frame.payload[0] != 0x90
    ]
    assert [packet.data for packet in found] == [packet.data for packet in video_clip(video).packets] * 20
    sounds = demuxed(file, None, "audio")[0]
    assert [packet.data for packet in sounds] == [packet.data for packet in audio_clip(audio).packets] * 20
    assert len(segments_of(playlist)) == 5


def test_playlist_keeps_the_rules_and_says_when_it_began(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(write_file(film()))
    checker = PlaylistChecker()
    _, playlist = whole(web_with(tmp_path))
    checker.add("http://relay.example/recordings/x/index.m3u8", playlist)
    checker.assert_clean()
    assert "#EXT-X-PLAYLIST-TYPE:VOD\n" in playlist
    assert playlist.endswith("#EXT-X-ENDLIST\n")
    durations = [float(text) for text in re.findall(r"#EXTINF:([\d.]+)", playlist)]
    assert sum(durations) == pytest.approx(20, abs=1)


def test_each_segment_begins_where_the_playlist_says(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(write_file(film()))
    web = web_with(tmp_path)
    base = f"/recordings/{NAME}/index.m3u8"
    playlist = web.get(base).body.decode()
    init = web.get(urljoin(base, map_of(playlist))).body
    time = 0.0
    for uri, duration in zip(segments_of(playlist), re.findall(r"#EXTINF:([\d.]+)", playlist), strict=True):
        packets = demuxed(init + web.get(urljoin(base, uri)).body, 1000, "video")[0]
        assert packets[0].keyframe
        assert packets[0].decoded == pytest.approx(time * 1000, abs=1)
        time += float(duration)


@pytest.mark.parametrize("audio", ["AC-3", "MP3"])
def test_sound_alone_is_played(tmp_path: Path, audio: str) -> None:
    (tmp_path / NAME).write_bytes(write_file(repeated(audio_clip(audio), 20)))
    file, playlist = whole(web_with(tmp_path))
    assert len(segments_of(playlist)) > 3
    assert [packet.data for packet in demuxed(file)[0]] == [
        packet.data for packet in audio_clip(audio).packets
    ] * 20


def test_codec_that_an_mp4_cannot_hold_is_left_out(tmp_path: Path) -> None:
    speex = [MediaFrame(MediaKind.AUDIO, 20 * number, b"\xb6speex") for number in range(500)]
    frames = sorted([*repeated(video_clip("H.264"), 10), *speex], key=lambda frame: frame.timestamp_ms)
    (tmp_path / NAME).write_bytes(write_file(frames))
    file, _ = whole(web_with(tmp_path))
    assert len(demuxed(file)[0]) == 240


def test_recording_that_grows_is_an_event_whose_playlist_goes_on(tmp_path: Path) -> None:
    """While it is being written it has no index, and its last part may be incomplete."""
    data = plain_file(film())
    web = web_with(tmp_path)
    assert web.http._recorded is not None
    web.http._recorded._library.growing = lambda: {NAME}
    checker = PlaylistChecker()
    counts: list[int] = []
    for size in range(len(data) // 8, len(data), len(data) // 8):
        with (tmp_path / NAME).open("r+b" if counts else "w+b") as out:
            out.write(data[:size])
        playlist = web.get(f"/recordings/{NAME}/index.m3u8").body.decode()
        checker.add(f"http://relay.example/recordings/{NAME}/index.m3u8", playlist)
        counts.append(len(segments_of(playlist)))
        assert "#EXT-X-PLAYLIST-TYPE:EVENT\n" in playlist
        assert "ENDLIST" not in playlist
    assert counts == sorted(counts)
    assert counts[-1] >= 3
    (tmp_path / NAME).write_bytes(write_file(film()))
    checker.assert_clean()


# -- the list ------------------------------------------------------------------------------------------------


def test_list_tells_name_size_duration_start_and_stream(tmp_path: Path) -> None:
    data = write_file(groups(10))
    (tmp_path / NAME).write_bytes(data)
    os.utime(tmp_path / NAME, (1, 1))
    (tmp_path / "by%20hand.flv").write_bytes(plain_file(groups(1)))
    (tmp_path / "notes.txt").write_text("no recording")
    (tmp_path / ".hidden.flv").write_bytes(data)
    (tmp_path / "folder.flv").mkdir()
    (tmp_path / "link.flv").symlink_to(NAME)
    by_hand, ours = web_with(tmp_path).get("/recordings").json["files"]
    assert ours == {
        "name": NAME,
        "size": len(data),
        "duration": 1.96,
        "started": "2026-05-17T20:15:00.000Z",
        "stream": "live/film",
        "growing": False,
    }
    assert (by_hand["name"], by_hand["duration"], by_hand["started"], by_hand["stream"]) == (
        "by%20hand.flv",
        None,
        None,
        None,
    )


def test_list_is_bounded_and_durations_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings_folder, "MAX_LISTED", 5)
    monkeypatch.setattr(recordings_folder, "_MAX_HEADS", 2)
    for number in range(8):
        (tmp_path / f"live_film_2026051{number}_201500.flv").write_bytes(write_file(groups(2)))
    web = web_with(tmp_path)
    for known in (2, 4, 5):
        files = web.get("/recordings").json["files"]
        assert len(files) == 5
        assert sum(file["duration"] is not None for file in files) == known


def test_without_the_option_there_are_no_files(tmp_path: Path) -> None:
    web = Web()
    assert web.get("/recordings").json["files"] is None
    assert web.get(f"/recordings/{NAME}/index.m3u8").status == 404


def test_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert web_with(tmp_path / "none").get("/recordings").json["files"] == []


# -- who may -------------------------------------------------------------------------------------------------


def test_gate_is_asked_for_the_stream_and_the_playlist_is_signed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(write_file(film()))
    answering = Answering()
    web = web_with(tmp_path, answering)
    base = f"/recordings/{NAME}/index.m3u8?key=SECRET"
    playlist = web.get(base).body.decode()
    assert [request.stream for request in answering.asked] == ["live/film"]
    assert "SECRET" not in playlist
    uri = urljoin(base, segments_of(playlist)[1])
    assert web.get(uri).status == web.get(urljoin(base, map_of(playlist))).status == 200
    assert len(answering.asked) == 1
    plain, _, query = uri.partition("?")
    last = "A" if query[-1] != "A" else "B"
    for wrong in (
        "",
        "?key=SECRET",
        f"?{query[:-1]}{last}",
        f"?{query.replace('sig=1', 'sig=2')}",
        "?sig=%ff",
    ):
        assert web.get(plain + wrong).error == (403, "forbidden")
    assert web.get(uri.replace("live_film", "live_other")).status == 403
    web.clock.advance(24 * 3600 + 700)
    assert web.get(uri).status == 403


def test_viewer_without_permission_learns_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(write_file(groups(2)))
    web = web_with(tmp_path, Answering(refused("not you")))
    for name in (NAME, "live_none_20260517_201500.flv", "..%2F..%2Fetc"):
        assert web.get(f"/recordings/{name}/index.m3u8").error == (401, "unauthorized")
        assert web.get(f"/recordings/{name}/init.mp4").error == (403, "forbidden")


# -- files that are not as they should be --------------------------------------------------------------------

NOT_THERE = [
    "none.flv",
    "..%2Fsecret.flv",
    "%2Fetc%2Fpasswd.flv",
    "..",
    "notes.txt",
    ".hidden.flv",
    "link.flv",
    "folder.flv",
    "pipe.flv",
    "x" * 300 + ".flv",
    "%00.flv",
]


@pytest.mark.parametrize("name", NOT_THERE)
def test_only_plain_files_of_the_folder_are_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    data = write_file(groups(2))
    (tmp_path / "secret.flv").write_bytes(data)
    for hidden in ("notes.txt", ".hidden.flv"):
        (folder / hidden).write_bytes(data)
    (folder / "link.flv").symlink_to(tmp_path / "secret.flv")
    (folder / "folder.flv").mkdir()
    os.mkfifo(folder / "pipe.flv")
    answer = web_with(folder).get(f"/recordings/{name}/index.m3u8")
    assert answer.status == (400 if "%00" in name else 404)
    assert str(tmp_path) not in answer.body.decode()


PARTS = [
    "",
    "index.m3u",
    "0-.m4s",
    "5-3.m4s",
    "0-9" + "9" * 30 + ".m4s",
    "0-10.m4s",
    "13-99999999.m4s",
    "100-4000.m4s",
]


@pytest.mark.parametrize("part", PARTS)
def test_segments_that_no_playlist_names_are_not_there(tmp_path: Path, part: str) -> None:
    (tmp_path / NAME).write_bytes(write_file(film(seconds=2)))
    answer = web_with(tmp_path).get(f"/recordings/{NAME}/{part}")
    assert answer.error == (404, "not_found")


def test_segment_does_not_begin_between_keyframes(tmp_path: Path) -> None:
    data = plain_file(film(seconds=2))
    (tmp_path / NAME).write_bytes(data)
    inter = next(tag for tag in tags_in(data) if tag.payload[0] == 0xA1)
    answer = web_with(tmp_path).get(f"/recordings/{NAME}/{inter.offset}-{len(data)}.m4s")
    assert answer.error == (404, "not_found")


BROKEN = [
    (b"", 415, "not FLV"),
    (b"FLV\1\5\0\0\0\x09\0\0\0\0", 415, "no media in it yet"),
    (b"ftypisom" * 100, 415, "not FLV"),
    (plain_file([AVC_HEADER, *groups(2)]), 415, "configuration of H.264 AVC is cut short"),
    (plain_file([MediaFrame(MediaKind.VIDEO, 40 * n, b"\x12data") for n in range(50)]), 415, "Sorenson"),
]


@pytest.mark.parametrize(("data", "status", "words"), BROKEN)
def test_file_that_cannot_be_played_is_told(tmp_path: Path, data: bytes, status: int, words: str) -> None:
    (tmp_path / NAME).write_bytes(data)
    answer = web_with(tmp_path).get(f"/recordings/{NAME}/index.m3u8")
    assert answer.status == status
    assert words in answer.json["error"]["message"]


def test_file_that_is_torn_is_played_up_to_its_last_whole_tag(tmp_path: Path) -> None:
    data = plain_file(film(seconds=9))
    (tmp_path / NAME).write_bytes(data[:-7])
    file, _ = whole(web_with(tmp_path))
    packets = demuxed(file, 1000, "video")[0]
    assert len(packets) in (24 * 9, 24 * 9 - 1)


def test_damage_in_the_middle_costs_only_what_it_covers(tmp_path: Path) -> None:
    """The index leads past it."""
    data = bytearray(write_file(film()))
    damaged = next(tag for tag in tags_in(bytes(data)) if tag.timestamp_ms > 9000)
    data[damaged.offset : damaged.offset + 300] = bytes(300)
    (tmp_path / NAME).write_bytes(data)
    file, playlist = whole(web_with(tmp_path))
    packets = demuxed(file, 1000, "video")[0]
    assert len(segments_of(playlist)) == 5
    assert 24 * 15 < len(packets) < 24 * 20
    assert packets[-1].decoded > 18_000


def test_file_without_an_index_that_is_too_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmprelay.flv.cut_points.MAX_TAGS", 500)
    monkeypatch.setattr(library, "_TAGS_AT_ONCE", 100)
    (tmp_path / NAME).write_bytes(plain_file(film()))
    answer = web_with(tmp_path).get(f"/recordings/{NAME}/index.m3u8")
    assert answer.error == (409, "conflict")
    assert "repair" in answer.json["error"]["message"]


def test_file_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(write_file(film(seconds=20)))
    web = web_with(tmp_path)
    _, before = whole(web)
    path.unlink()
    path.write_bytes(write_file(film(seconds=9)))
    file, after = whole(web)
    assert len(segments_of(after)) < len(segments_of(before))
    assert len(demuxed(file, 1000, "video")[0]) == 24 * 9


def test_file_that_vanishes_while_it_is_sent_ends_the_connection(tmp_path: Path) -> None:
    """The client must not take the part for the whole."""
    path = tmp_path / NAME
    big = [
        MediaFrame(one.kind, one.timestamp_ms, one.payload.ljust(40_000, b"x")) for one in film(seconds=9)[2:]
    ]
    path.write_bytes(write_file([*film(seconds=1)[:2], *big]))
    web = web_with(tmp_path)
    uri = segments_of(web.get(f"/recordings/{NAME}/index.m3u8").body.decode())[0]
    client = Client(web)
    client.transport.stalled = True
    client.send(f"GET /recordings/{NAME}/{uri} HTTP/1.1\r\nHost: r\r\n\r\n".encode())
    sent = len(client.transport.value())
    assert 65536 < sent < 2_000_000
    path.unlink()
    client.transport.read_all()
    assert client.transport.aborted


def test_client_that_does_not_read_makes_nothing_be_read(tmp_path: Path) -> None:
    big = [
        MediaFrame(one.kind, one.timestamp_ms, one.payload.ljust(40_000, b"x")) for one in film(seconds=9)[2:]
    ]
    (tmp_path / NAME).write_bytes(write_file([*film(seconds=1)[:2], *big]))
    web = web_with(tmp_path)
    uri = segments_of(web.get(f"/recordings/{NAME}/index.m3u8").body.decode())[0]
    client = Client(web)
    client.transport.stalled = True
    client.send(f"GET /recordings/{NAME}/{uri} HTTP/1.1\r\nHost: r\r\n\r\n".encode())
    first = len(client.transport.value())
    web.clock.advance(10)
    assert len(client.transport.value()) == first
    client.transport.read_all()
    assert len(client.transport.value()) > 0
    web.clock.advance(31)
    assert client.transport.aborted


def test_requests_beyond_what_may_wait_are_told_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_MAX_WAITING", 3)
    waiting: list[tuple[Deferred[Any], Any]] = []

    def later(function: Any, *arguments: Any) -> Deferred[Any]:
        result: Deferred[Any] = Deferred()
        waiting.append((result, lambda: function(*arguments)))
        return result

    (tmp_path / NAME).write_bytes(write_file(film()))
    shelf = library.RecordingLibrary(tmp_path, later, list)

    async def playlist(name: str) -> None:
        try:
            await shelf.playlist(name, "")
        except HttpError as error:
            refused_with.append(error.status)

    names = [f"live_film_2026051{number}_201500.flv" for number in range(8)]
    refused_with: list[int] = []
    for name in names:
        Deferred.fromCoroutine(playlist(name))
    assert len(waiting) == 4
    assert refused_with == [503]
    while waiting:
        result, work = waiting.pop(0)
        maybeDeferred(work).addBoth(_passed_to(result))
    assert sorted(refused_with) == [404] * 7 + [503]


def _passed_to(result: Deferred[Any]) -> Any:
    def pass_on(value: Any) -> None:
        (result.errback if isinstance(value, Failure) else result.callback)(value)

    return pass_on


def test_paths_of_every_kind_are_answered(tmp_path: Path) -> None:
    """No path leads to an error of the server."""
    (tmp_path / NAME).write_bytes(write_file(film(seconds=2)))
    web = web_with(tmp_path)

    def status(path: Iterable[str]) -> Response:
        return web.get("/recordings/" + "/".join(path))

    assert {
        status(path).status for path in (("",), ("a",), (NAME,), (NAME, "a", "b"), ("", "index.m3u8"))
    } == {404}
