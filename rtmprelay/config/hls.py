"""The options of HLS."""

from __future__ import annotations

from pathlib import Path

from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_secret, warn_if_everybody_reads
from rtmprelay.secret import Secret

#: Characters. Anybody who guesses the key can sign addresses.
_MIN_SIGN_KEY = 16

PARAMETERS = [
    [
        "hls-part",
        None,
        "333ms",
        "Length of a part of low-latency HLS, 200ms to 1s; 0 makes whole segments only.",
    ],
    ["hls-segment", None, "2s", "Segments of HLS end at the first keyframe after this time, 1s to 10s."],
    [
        "hls-window",
        None,
        "30s",
        "How far back viewers of HLS can go, such as 2h; long windows need --hls-dir.",
    ],
    ["hls-dir", None, None, "A folder in which the segments of HLS are kept as files."],
    [
        "hls-sign-key",
        None,
        None,
        "file:PATH, the key that signs addresses of HLS where viewers need a permission; one is made at the start otherwise.",
    ],
    [
        "http-media",
        None,
        None,
        "Where to serve viewers over HTTP: live media and HLS, and no status; :8081 is for everybody.",
    ],
]

FLAGS = [
    [
        "hls-anonymous",
        None,
        "Give all viewers of HLS the same addresses, so that a CDN can collapse requests; viewers are not counted.",
    ],
]


def read_sign_key(text: str) -> Secret:
    """The key from `file:PATH`. No error message contains it."""
    if not text.startswith("file:"):
        raise ConfigError("a key on the command line is seen by everybody on this machine: write file:PATH")
    path = Path(text.removeprefix("file:"))
    key = read_secret(path, "the file")
    if len(key.reveal()) < _MIN_SIGN_KEY:
        raise ConfigError(f"a key needs at least {_MIN_SIGN_KEY} characters")
    warn_if_everybody_reads(path)
    return key
