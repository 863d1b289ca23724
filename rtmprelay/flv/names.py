"""The names of recordings: safe as file names for any stream key, from which the key can be read again.

    {app}_{name}_{YYYYMMDD_HHMMSS}[_{segment}][-{copy}].flv

All characters but ASCII letters, digits, `.`, `_` and `-` are percent-encoded as UTF-8, and so is `_` in the app: the
first `_` ends the app. The time is UTC. A name that would be too long for file systems is cut and marked by `~`, which
occurs nowhere else, and a hash; then only the metadata of the file has the whole key.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

import attrs

#: Bytes that every file system allows in a file name.
MAX_NAME_SIZE = 255

#: Bytes for time, segment, copy and suffix.
_TAIL_SIZE = 48

#: Bytes that are kept of an app that is too long.
_SHORT_APP_SIZE = 60

#: Names that Windows takes for a device, whatever follows after a dot.
_WINDOWS_RESERVED = re.compile(r"(con|prn|aux|nul|conin|conout|com\d|lpt\d)(?=\.)", re.IGNORECASE)

_PATTERN = re.compile(
    r"(?P<app>[A-Za-z0-9.%-]*)_(?P<name>[A-Za-z0-9._%-]*)(?P<hash>~[0-9a-f]{16})?"
    r"_(?P<started>\d{8}_\d{6})(?:_(?P<segment>\d{4,9}))?(?:-(?P<copy>[1-9]\d{0,8}))?\.flv",
    re.ASCII,
)

_TIME_FORMAT = "%Y%m%d_%H%M%S"


@attrs.frozen
class RecordingName:
    """What the name of a recording says.

    Attributes:
        app: The application; empty if the stream has none.
        started: When the file was begun, in UTC, to the second.
        segment: The number of the segment; None if the recording is not cut into segments.
        copy: 1, or more if files with the same name existed already.
        shortened: The stream key was too long: `app` and `name` are only the beginnings.
    """

    app: str
    name: str
    started: datetime
    segment: int | None = None
    copy: int = 1
    shortened: bool = False

    @property
    def key(self) -> str:
        """The stream key, `app/name`."""
        return f"{self.app}/{self.name}" if self.app else self.name

    @property
    def file_name(self) -> str:
        segment = "" if self.segment is None else f"_{self.segment:04d}"
        copy = "" if self.copy == 1 else f"-{self.copy}"
        return f"{_stem(self.app, self.name)}_{self.started.strftime(_TIME_FORMAT)}{segment}{copy}.flv"


def split_key(key: str) -> tuple[str, str]:
    """App and name of a stream: everything before the last slash is the app, as in FFmpeg and OBS."""
    app, _, name = key.rpartition("/")
    return app, name


def parse_recording_name(file_name: str) -> RecordingName | None:
    """Read a file name; None if it is not the name of a recording."""
    match = _PATTERN.fullmatch(file_name)
    if match is None:
        return None
    try:
        started = datetime.strptime(match["started"], _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    shortened = match["hash"] is not None
    errors = "replace" if shortened else "surrogatepass"
    try:
        app, name = (unquote(part, errors=errors) for part in match.group("app", "name"))
    except UnicodeDecodeError:
        return None
    segment = None if match["segment"] is None else int(match["segment"])
    return RecordingName(app, name, started, segment, int(match["copy"] or 1), shortened)


def _stem(app: str, name: str) -> str:
    encoded_app, encoded_name = _encode(app).replace("_", "%5F"), _encode(name)
    # Names that begin with a dot are hidden, and a device's name does not make a file.
    if encoded_app.startswith("."):
        encoded_app = f"%2E{encoded_app[1:]}"
    stem = f"{encoded_app}_{encoded_name}"
    if _WINDOWS_RESERVED.match(stem):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    if len(stem) <= MAX_NAME_SIZE - _TAIL_SIZE:
        return stem
    digest = hashlib.blake2b(f"{app}/{name}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    short_app = _cut(stem.partition("_")[0], _SHORT_APP_SIZE)
    space = MAX_NAME_SIZE - _TAIL_SIZE - len(short_app) - len(digest) - 2
    return f"{short_app}_{_cut(encoded_name, space)}~{digest}"


def _encode(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass").replace("~", "%7E")


def _cut(encoded: str, size: int) -> str:
    """At most `size` characters, without half an escape at the end."""
    return re.sub(r"%[0-9A-F]?$", "", encoded[:size])
