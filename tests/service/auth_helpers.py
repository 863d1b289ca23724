"""Keys, users and a keys file, the real ffmpeg that uses them, and packages with plugins."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.utils import getProcessOutputAndValue

from rtmprelay.access.authorizers.hash_key import ScryptHash
from rtmprelay.secret import Secret
from tests.helpers import DEADLINE, the_reactor
from tests.service.interop import H264_AAC, FFmpeg

#: A part of every secret in these tests, so that a test can search for it.
MARK = "MARKED"

PLAIN, HASHED, WATCH, PASSWORD = f"{MARK}-plain", f"{MARK}-hashed", f"{MARK}-watch", f"{MARK}-pass+word="


def keys() -> dict[str, Any]:
    """The content of a keys file: keys for live, users for studio."""
    return {
        "streams": [
            {
                "match": "live/*",
                "publish": {"keys": [PLAIN, str(ScryptHash.of(Secret(HASHED)))]},
                "play": {"keys": [WATCH]},
            },
            {"match": "studio/*", "publish": {"users": ["anna"]}, "play": {"users": ["anna"]}},
        ],
        "users": {"anna": PASSWORD},
        "ask_for_user": ["studio"],
    }


def write_keys(folder: Path, content: object = None) -> Path:
    """Write a keys file that only its owner can read."""
    path = folder / "keys.json"
    path.write_text(json.dumps(keys() if content is None else content))
    path.chmod(0o600)
    return path


@attrs.frozen
class Ended:
    """How ffmpeg ended: its exit status and its error output."""

    code: int
    errors: str


def film(ffmpeg: FFmpeg, seconds: int = 3) -> Path:
    """A film of so many seconds."""
    source = f"-f lavfi -i testsrc=size=160x120:rate=25 -f lavfi -i sine -t {seconds}"
    return ffmpeg.make(f"auth{seconds}.flv", f"{source} {H264_AAC}")


async def run_ffmpeg(ffmpeg: FFmpeg, *arguments: str) -> Ended:
    """Run ffmpeg to its end, good or bad."""
    running = getProcessOutputAndValue(
        ffmpeg.program,
        ["-hide_banner", "-nostdin", "-v", "error", *arguments],
        env=None,
        reactor=the_reactor(),
    )
    _, errors, code = await running.addTimeout(DEADLINE, the_reactor())
    return Ended(code, errors.decode(errors="replace"))


async def try_to_publish(ffmpeg: FFmpeg, url: str, seconds: int = 3) -> Ended:
    """Publish a film at three times its speed."""
    path = str(film(ffmpeg, seconds))
    return await run_ffmpeg(ffmpeg, "-readrate", "3", "-i", path, "-c", "copy", "-f", "flv", url)


async def try_to_play(ffmpeg: FFmpeg, url: str) -> Ended:
    """Play half a second."""
    return await run_ffmpeg(ffmpeg, "-i", url, "-t", "0.5", "-c", "copy", "-f", "null", "-")


def make_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    """Write a wheel that pip can install, without any build tool."""
    info = f"{name}-1.0.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in content.items():
            archive.writestr(member, text)
    return path
