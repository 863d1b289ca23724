"""The window on a disk: it is longer than the memory, survives a restart, and a broken disk costs nothing else."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from rtmprelay.outputs.hls import segment_writer
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from tests.hls.playlist import Playlist
from tests.web.hls import HlsWeb

#: So little memory that most of a minute is on the disk.
LITTLE = HlsLimits(hls_bytes=60_000)


def world(folder: Path, window: float = 60.0, begin_at: float = 0.0) -> HlsWeb:
    settings = HlsSettings(match=("*",), window=window, folder=folder)
    return HlsWeb(settings, LITTLE, begin_at=begin_at)


def assert_whole(web: HlsWeb, path: str) -> Playlist:
    """Everything that the playlist names is there."""
    playlist = web.playlist(path)
    for segment in playlist.complete_segments:
        assert segment.map is not None
        assert web.get(urljoin(path, segment.map.get("URI") or "")).status == 200
        assert web.get(urljoin(path, segment.uri or "")).body[4:8] == b"moof"
    return playlist


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("s-*"))


def test_viewers_go_back_further_than_the_memory_reaches(tmp_path: Path) -> None:
    web = world(tmp_path)
    web.begin()
    web.pass_time(50, step=0.1)
    playlist = assert_whole(web, web.index())
    assert playlist.duration > 45
    assert web.hls.held_bytes <= LITTLE.hls_bytes
    assert len(files(tmp_path)) == len(playlist.complete_segments)
    web.checker.assert_clean()


def test_files_are_deleted_as_the_window_moves_on_and_when_the_broadcast_is_gone(tmp_path: Path) -> None:
    web = world(tmp_path, window=6.0)
    web.begin()
    web.pass_time(40, step=0.1)
    # The window, and as much that players may still ask for.
    assert 3 <= len(files(tmp_path)) <= 9
    web.end()
    web.pass_time(13, step=0.1)
    assert list(tmp_path.iterdir()) == []


def test_window_survives_a_restart(tmp_path: Path) -> None:
    first = world(tmp_path)
    first.begin()
    first.pass_time(20, step=0.1)
    before = first.playlist(first.index())
    first.hls.stop()

    second = world(tmp_path, begin_at=25)
    second.begin()
    second.pass_time(10, step=0.1)
    second.checker = first.checker
    after = assert_whole(second, "/live/film/video0.m3u8")
    assert [one.uri for one in after.complete_segments][: len(before.complete_segments)] == [
        one.uri for one in before.complete_segments
    ]
    assert after.end > before.end
    assert [one.discontinuity for one in after.segments].count(True) == 1
    # The part that was hinted at before is one that never came.
    broken = [one for one in second.checker.broken if one.rule != "preload-hint"]
    assert broken == []


def test_names_of_segments_that_a_crash_took_from_the_index_stand_for_nothing_else(tmp_path: Path) -> None:
    """Caches have them, and keep them."""
    first = world(tmp_path)
    first.begin()
    first.pass_time(20, step=0.1)
    before = [one.uri for one in first.playlist(first.index()).complete_segments]
    first.hls.stop()
    (path,) = tmp_path.rglob("index.jsonl")
    # The first line is about the broadcast.
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: 1 + len(before) - 2]))
    second = world(tmp_path, begin_at=25)
    second.begin()
    second.pass_time(10, step=0.1)
    after = [one.uri for one in assert_whole(second, second.index()).complete_segments]
    assert after[: len(before) - 2] == before[:-2]
    assert set(after) & set(before) == set(before[:-2])


def test_index_of_before_names_were_in_it_is_continued(tmp_path: Path) -> None:
    first = world(tmp_path)
    first.begin()
    first.pass_time(20, step=0.1)
    before = [one.uri for one in first.playlist(first.index()).complete_segments]
    first.hls.stop()
    (path,) = tmp_path.rglob("index.jsonl")
    path.write_bytes(re.sub(rb'"name":\d+,', b"", path.read_bytes()))
    second = world(tmp_path, begin_at=25)
    second.begin()
    second.pass_time(10, step=0.1)
    assert [one.uri for one in assert_whole(second, second.index()).complete_segments][
        : len(before)
    ] == before


@pytest.mark.parametrize("index", [b"", b"{}\n", b"\xff\xfe\n", b'{"format":1}\n', b"[1]\n" * 5])
def test_index_that_cannot_be_read_begins_a_new_window(tmp_path: Path, index: bytes) -> None:
    first = world(tmp_path)
    first.begin()
    first.pass_time(10, step=0.1)
    first.hls.stop()
    (path,) = tmp_path.rglob("index.jsonl")
    path.write_bytes(index)
    second = world(tmp_path, begin_at=15)
    second.begin()
    second.pass_time(10, step=0.1)
    playlist = assert_whole(second, second.index())
    assert playlist.media_sequence == 0
    second.checker.assert_clean()


def test_old_segments_are_not_continued(tmp_path: Path) -> None:
    first = world(tmp_path)
    first.begin()
    first.pass_time(10, step=0.1)
    first.hls.stop()
    second = world(tmp_path, begin_at=500)
    second.begin()
    second.pass_time(10, step=0.1)
    assert assert_whole(second, second.index()).media_sequence == 0
    assert len(files(tmp_path)) < 8


def test_full_disk_costs_the_window_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    web = world(tmp_path)
    web.begin()
    web.pass_time(10, step=0.1)
    monkeypatch.setattr(segment_writer, "_write_file", full)
    web.pass_time(30, step=0.1)
    playlist = assert_whole(web, web.index())
    assert web.hls.held_bytes <= LITTLE.hls_bytes
    assert playlist.complete_segments
    monkeypatch.undo()
    web.pass_time(10, step=0.1)
    assert_whole(web, web.index())


def test_window_that_does_not_fit_into_the_memory_is_cut_and_told_once(
    caught_log: list[str],
) -> None:
    web = HlsWeb(HlsSettings(match=("*",), window=60.0), LITTLE)
    web.begin()
    web.pass_time(50, step=0.1)
    assert web.hls.held_bytes <= LITTLE.hls_bytes
    assert len([line for line in caught_log if "cannot go back 60 s" in line]) == 1


def test_stream_whose_name_is_no_name_of_a_file_stays_in_memory(tmp_path: Path) -> None:
    web = world(tmp_path)
    key = "live/" + "x" * 250
    web.begin(key)
    web.pass_time(7)
    assert web.get(f"/{key}/index.m3u8").status == 200
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_stream_is_inside_the_folder(tmp_path: Path) -> None:
    web = world(tmp_path)
    web.begin("../live/..")
    web.pass_time(7)
    assert [path.name for path in tmp_path.iterdir()] == ["..%2Flive%2F.."]
