"""Recordings over HTTP that are not as they should be, and requests that nobody should send."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.web.recordings import library
from rtmprelay.web.server.responses import HttpError
from tests.flv.media import AVC_HEADER, groups, plain_file, tags_in, write_file
from tests.mp4.encoded import demuxed
from tests.web.helpers import Client, Response
from tests.web.recordings.recorded import NAME, film, segments_of, web_with, whole

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
