"""A folder as the pages suppose it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import pytest

from tests.docs.pages import blocks
from tests.docs.terminal import Terminal
from tests.service.interop import FFmpeg

#: Files that pages speak of, and what is in them here.
FILES = {
    "kick.key": "a-key",
    "etc/kick.key": "a-key",
    "etc/rtmprelay/kick.key": "a-key",
    "token.txt": "a-long-token-of-a-test",
    "etc/rtmprelay/twitch.key": "a-key",
    "etc/rtmprelay/token": "a-long-token-of-a-test",
    "etc/rtmprelay/hook.token": "a-long-token-of-a-test",
    "etc/rtmprelay/auth.token": "a-long-token-of-a-test",
    "usr/local/bin/on-publish": "#!/bin/sh\n",
    "jwt.key": "0123456789abcdef" * 4,
}

#: Variables that hold keys of destinations.
VARIABLES = ("YOUTUBE_KEY", "TWITCH_KEY", "FACEBOOK_KEY", "PRACTICE_KEY")


@pytest.fixture
def folder(tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages speak of; tests work in it."""
    for name, content in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "usr/local/bin/on-publish").chmod(0o755)
    for name in ("relay.json", "etc/relay.json", "etc/rtmprelay/relay.json"):
        (tmp_path / name).write_text(block_with("docs/howto/platforms.rst", "json"))
    for name in ("keys.json", "etc/rtmprelay/keys.json"):
        (tmp_path / name).write_text(block_with("docs/access.rst", "json"))
    for made, name in zip(certificate, ("key.pem", "cert.pem"), strict=True):
        shutil.copy(made, tmp_path / name)
    for name in VARIABLES:
        monkeypatch.setenv(name, "a-key")
    for place in ("var/log/rtmprelay", "var/lib/rtmprelay", "run"):
        (tmp_path / place).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block_with(page: str, language: str) -> str:
    """The first block of that language on a page."""
    return next(block.text for block in blocks() if (block.page, block.language) == (page, language))


@pytest.fixture(scope="session")
def ffmpeg(tmp_path_factory: pytest.TempPathFactory) -> FFmpeg:
    """The real ffmpeg, and the media that it has made so far."""
    return FFmpeg(imageio_ffmpeg.get_ffmpeg_exe(), tmp_path_factory.mktemp("media"))


@pytest.fixture
def terminal(tmp_path: Path, ffmpeg: FFmpeg) -> Iterator[Terminal]:
    """A terminal in an empty folder; what was started in it is ended."""
    folder = tmp_path / "terminal"
    folder.mkdir()
    with Terminal(folder, ffmpeg.program, dict(os.environ)) as terminal:
        yield terminal
