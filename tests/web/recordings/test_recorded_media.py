"""Recordings over HTTP: the list, playlists, segments, and who may have them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from rtmprelay.access.request import refused
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.web.recordings import folder as recordings_folder
from tests.access.helpers import Answering
from tests.flv.media import groups, plain_file, write_file
from tests.hls.checker import PlaylistChecker
from tests.mp4.encoded import audio_clip, demuxed, video_clip
from tests.web.helpers import Web
from tests.web.recordings.recorded import NAME, film, map_of, repeated, segments_of, web_with, whole

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
