"""Clients that people use beside FFmpeg, with right keys and the limits as they are by default: none notices a limit."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmprelay.flv.container import read_tags
from rtmprelay.media import MediaKind
from rtmprelay.session.reports import PlayAccepted, PublishAccepted
from tests.helpers import DEADLINE, group, inter, keyframe, start_frames, wait_for
from tests.service.auth_helpers import PLAIN, WATCH, write_keys
from tests.service.command import BlockingClient, Server
from tests.service.obs_client import ObsClient

GSTREAMER = shutil.which("gst-launch-1.0")
RTMPDUMP = shutil.which("rtmpdump")


def has_elements(*names: str) -> bool:
    return GSTREAMER is not None and all(
        subprocess.run(["gst-inspect-1.0", name], capture_output=True, check=False).returncode == 0
        for name in names
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A relay that asks for keys, and records."""
    options = ("--auth", f"keys-file:{write_keys(tmp_path)}", "--record-all", "--record-dir", "recordings")
    with Server(tmp_path, "--log-format", "json", *options) as running:
        running.port()
        yield running


def limits(server: Server) -> list[object]:
    """The limits that were the reason for an end, and the refusals."""
    refused = [line["event"] for line in server.lines() if str(line.get("event")).endswith("_refused")]
    return [line["limit"] for line in server.lines("connection_closed") if line["limit"]] + refused


def recorded(server: Server, folder: Path) -> dict[int, int]:
    """How many tags of each kind the finished recording has."""
    wait_for(lambda: server.lines("recording_finished"), "the recording")
    (path,) = (folder / "recordings").glob("*.flv")
    return tags(path)


def tags(path: Path) -> dict[int, int]:
    with path.open("rb") as file:
        kinds = [tag.type_byte for tag in read_tags(file)]
    return {kind: kinds.count(kind) for kind in set(kinds)}


def encoder_of(server: Server, name: str) -> BlockingClient:
    encoder = server.connect()
    encoder.session.publish(f"{name}?key={PLAIN}")
    encoder.wait(PublishAccepted)
    encoder.send(*start_frames(), *group(0))
    return encoder


def play_to_file(server: Server, encoder: BlockingClient, command: list[str], file: Path) -> dict[int, int]:
    """Publish until the player has written enough; what it has written."""
    player = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: server.lines("play_started"), "the player")
        for number in range(1, 200):
            encoder.send(*group(400 * number))
        wait_for(lambda: file.exists() and file.stat().st_size > 20_000, "media in the file")
    finally:
        player.send_signal(signal.SIGINT)
        player.wait(DEADLINE)
    return tags(file)


@pytest.mark.full
@pytest.mark.skipif(
    not has_elements("rtmp2sink", "openh264enc", "voaacenc", "flvmux"),
    reason="no GStreamer: apt-get install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad",
)
def test_gstreamer_publishes_with_its_key(server: Server, tmp_path: Path) -> None:
    url = f"rtmp://127.0.0.1:{server.port()}/live/gst?key={PLAIN}"
    pipeline = (
        "videotestsrc num-buffers=100 ! video/x-raw,width=320,height=240,framerate=25/1 ! openh264enc gop-size=25"
        f" ! h264parse ! queue ! flvmux name=mux streamable=true ! rtmp2sink location={url}"
        " audiotestsrc num-buffers=150 ! voaacenc ! aacparse ! queue ! mux."
    )
    ended = subprocess.run(
        ["gst-launch-1.0", "-q", *pipeline.split()], capture_output=True, timeout=DEADLINE * 2, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found = recorded(server, tmp_path)
    # A hundred pictures, and their decoder configuration.
    assert found[MediaKind.VIDEO] >= 100
    assert found[MediaKind.AUDIO] >= 100
    assert not limits(server)


@pytest.mark.full
@pytest.mark.skipif(not has_elements("rtmp2src"), reason="no GStreamer with rtmp2src")
def test_gstreamer_plays_with_its_key(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "played.flv"
    url = f"rtmp://127.0.0.1:{server.port()}/live/film?key={WATCH}"
    encoder = encoder_of(server, "film")
    command = [
        "gst-launch-1.0",
        "-q",
        "-e",
        "rtmp2src",
        f"location={url}",
        "!",
        "filesink",
        f"location={file}",
    ]
    found = play_to_file(server, encoder, command, file)
    assert found[MediaKind.VIDEO] > 50
    assert not limits(server)


@pytest.mark.full
@pytest.mark.skipif(RTMPDUMP is None, reason="no rtmpdump: apt-get install rtmpdump")
def test_librtmp_plays_with_its_key(server: Server, tmp_path: Path) -> None:
    """The library that OBS's own comes from."""
    file = tmp_path / "played.flv"
    url = f"rtmp://127.0.0.1:{server.port()}/live/film?key={WATCH}"
    encoder = encoder_of(server, "film")
    found = play_to_file(server, encoder, ["rtmpdump", "-q", "-v", "-r", url, "-o", str(file)], file)
    assert found[MediaKind.VIDEO] > 50
    assert not limits(server)


def test_what_obs_sends_is_published_whole_and_over_no_limit(server: Server, tmp_path: Path) -> None:
    obs = ObsClient(server.port(), "live", f"obs?key={PLAIN}")
    assert obs.start() == "NetStream.Publish.Start"
    # Three seconds at 50 Mbit/s, with keyframes of 2 MB: what 4K at a high rate is like.
    obs.send(start_frames())
    for second in range(3):
        obs.send([keyframe(second * 1000, 2_000_000)])
        obs.send(inter(second * 1000 + at, 150_000) for at in range(40, 1000, 40))
    obs.stop()
    found = recorded(server, tmp_path)
    assert found[MediaKind.VIDEO] == 3 * 25 + 1
    assert not limits(server)


def test_obs_with_a_wrong_key_is_told_so_that_it_stops(server: Server) -> None:
    """OBS tries again and again after anything but a refusal."""
    obs = ObsClient(server.port(), "live", "obs?key=wrong")
    assert obs.start() == "NetStream.Publish.Denied"


def test_player_with_its_key_gets_what_obs_sends(server: Server) -> None:
    obs = ObsClient(server.port(), "live", f"obs?key={PLAIN}")
    assert obs.start() == "NetStream.Publish.Start"
    obs.send([*start_frames(), *group(0)])
    player = server.connect()
    player.session.play(f"obs?key={WATCH}")
    player.wait(PlayAccepted)
    obs.stop()
    assert not limits(server)
