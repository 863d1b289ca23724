"""Recordings as video on demand: recorded by a real relay, played by a real ffmpeg over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import DEADLINE, LOOPBACK
from tests.service.browser import until
from tests.service.command import Server
from tests.service.interop import FFmpeg

#: Two keyframes a second for a quarter of a minute.
MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 15"
    " -c:v libx264 -preset veryfast -g 12 -bf 2 -pix_fmt yuv420p -b:v 300k -c:a aac"
)


class Archive:
    """A relay that records, and shows its recordings on both ports."""

    def __init__(self, folder: Path) -> None:
        recordings = folder / "recordings"
        options = ("--record-all", "--record-dir", str(recordings), "--http-recordings")
        self.relay = Server(folder, *options, "--http-status", LOOPBACK, "--http-media", LOOPBACK)
        until(lambda: len(self._ports("HTTP")) == 2 or None, "two HTTP listeners")
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports("HTTP")]
        self.rtmp = f"rtmp://127.0.0.1:{self._ports('RTMP')[0]}/live/film"

    def _ports(self, protocol: str) -> list[int]:
        return [int(port) for port in re.findall(rf"127\.0\.0\.1:(\d+) for {protocol}", self.relay.text())]

    def files(self, url: str) -> list[dict[str, Any]]:
        """The list of recordings on one of the ports."""
        with urllib.request.urlopen(f"{url}/recordings", timeout=10) as answer:
            files: list[dict[str, Any]] = json.load(answer)["files"]
        return files


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    archive = Archive(tmp_path)
    try:
        yield archive
    finally:
        archive.relay.stop()
        assert "Traceback" not in archive.relay.text()


def packets(ffmpeg: FFmpeg, source: str) -> list[tuple[str, ...]]:
    """Stream, size and hash of each packet of a kind, in their order; the times of FLV are rounded."""
    command = [ffmpeg.program, "-v", "error", "-i", source, "-map", "0:v", "-map", "0:a", "-c", "copy"]
    done = subprocess.run(
        [*command, "-f", "framehash", "-"], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    rows = [line.split(",") for line in done.stdout.splitlines() if line[0] != "#"]
    return sorted(
        (row[0].strip(), f"{number:06d}", row[4].strip(), row[5].strip()) for number, row in enumerate(rows)
    )


def by_stream(found: list[tuple[str, ...]]) -> dict[str, list[tuple[str, str]]]:
    streams: dict[str, list[tuple[str, str]]] = {}
    for stream, _, size, digest in found:
        streams.setdefault(stream, []).append((size, digest))
    return streams


def test_ffmpeg_plays_what_was_recorded_packet_by_packet(archive: Archive, ffmpeg: FFmpeg) -> None:
    film = ffmpeg.make("archived.flv", MEDIA)
    publish = [ffmpeg.program, "-v", "error", "-i", str(film), "-c", "copy", "-f", "flv", archive.rtmp]
    subprocess.run(publish, check=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    (file,) = until(
        lambda: [one for one in archive.files(archive.urls[0]) if one["duration"]] or None,
        "a complete recording",
    )
    assert (file["stream"], file["growing"]) == ("live/film", False)
    assert file["duration"] == pytest.approx(15, abs=0.2)
    assert archive.files(archive.urls[1])[0]["name"] == file["name"]
    published = by_stream(packets(ffmpeg, str(film)))
    for url in archive.urls:
        played = by_stream(packets(ffmpeg, f"{url}/recordings/{file['name']}/index.m3u8"))
        assert played == published
    assert sum(map(len, published.values())) > 800


def test_recording_can_be_watched_while_it_grows(archive: Archive, ffmpeg: FFmpeg) -> None:
    film = ffmpeg.make("archived.flv", MEDIA)
    command = [ffmpeg.program, "-v", "error", "-readrate", "8", "-i", str(film), "-c", "copy", "-f", "flv"]
    publisher = subprocess.Popen([*command, archive.rtmp], stdin=subprocess.DEVNULL)
    try:

        def playlist() -> str | None:
            files = archive.files(archive.urls[1])
            if not files or not files[0]["growing"]:
                return None
            address = f"{archive.urls[1]}/recordings/{files[0]['name']}/index.m3u8"
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    text = str(answer.read().decode())
            except urllib.error.HTTPError:
                return None
            return text if ".m4s" in text else None

        text = until(playlist, "a playlist with a segment")
        assert "#EXT-X-PLAYLIST-TYPE:EVENT" in text
        assert "ENDLIST" not in text
    finally:
        publisher.kill()
        publisher.wait()
