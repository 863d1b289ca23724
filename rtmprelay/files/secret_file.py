"""Reading files that hold secrets: one size limit, one treatment of byte-order marks and blanks, for all of them."""

from __future__ import annotations

import stat
from pathlib import Path

from twisted.logger import Logger

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import MEBIBYTE
from rtmprelay.secret import Secret

#: Bytes of a configuration file. Real ones have a page or two; a larger file was named by mistake.
LARGEST_TEXT = MEBIBYTE

#: Bytes of a file that holds one secret. Keys and tokens have less than 1,000.
LARGEST_SECRET = 4096

_log = Logger()


def read_bytes(path: Path, what: str = "", largest: int = LARGEST_TEXT) -> bytes:
    """The content of a file.

    Args:
        what: What error messages call the file, in front of its path.
        largest: Bytes. A larger file is refused, never cut.

    Raises:
        ConfigError: The file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"{_shown(path, what)} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{_shown(path, what)} cannot be read: {error}") from None
    if len(data) > largest:
        raise ConfigError(f"{_shown(path, what)} is larger than {largest} bytes")
    return data


def read_text(path: Path, what: str = "", largest: int = LARGEST_TEXT) -> str:
    """The text of a file, without the byte-order mark that some editors put first.

    Raises:
        ConfigError: As from `read_bytes`, or the file is not UTF-8.
    """
    try:
        return read_bytes(path, what, largest).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{_shown(path, what)} is not UTF-8 text") from None


def read_secret(path: Path, what: str = "") -> Secret:
    """The one line in a file, without blanks and line ends around it.

    Raises:
        ConfigError: As from `read_text`, or the file is not one line of printable text. No message shows any of it.
    """
    text = read_text(path, what, LARGEST_SECRET).strip()
    warn_if_everybody_reads(path)
    if not text:
        raise ConfigError(f"{_shown(path, what)} is empty")
    if not text.isprintable():
        raise ConfigError(f"{_shown(path, what)} is not one line of printable text")
    return Secret(text)


def _shown(path: Path, what: str) -> str:
    return f"{what} {str(path)!r}".lstrip()


def warn_if_everybody_reads(path: Path) -> None:
    """Log a warning if every user of the machine can read a file with secrets."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & stat.S_IROTH:
        _log.warn(
            "Everybody on this machine can read {path}, and it holds secrets: chmod o-r would help",
            path=str(path),
        )
