"""Reading files that hold keys."""

from __future__ import annotations

import stat
from pathlib import Path

from twisted.logger import Logger

from rtmprelay.errors import ConfigError

_log = Logger()


def read_text(path: Path, most: int) -> str:
    """The text of a file.

    Args:
        most: A file with more bytes is another one.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}") from None
    if len(data) > most:
        raise ConfigError(f"{str(path)!r} is larger than {most} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{str(path)!r} is not UTF-8 text") from None


def warn_if_everybody_reads(path: Path) -> None:
    """Say so if everybody on the machine can read a file with secrets in it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & stat.S_IROTH:
        _log.warn(
            "Everybody on this machine can read {path}, and there are secrets in it: chmod o-r would help",
            path=str(path),
        )
