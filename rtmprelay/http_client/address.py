"""Where to post to, as an operator writes it: `https://host[:port]/path`, with options behind a `#`."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.plugin_options import PluginOptions, split_options
from rtmprelay.secret import Secret

#: Options that every address may have.
COMMON_OPTIONS = frozenset({"timeout", "ca-file", "token-file"})

_URL = re.compile(
    r"""(?P<scheme>https?)://
        (?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)
        (?::(?P<port>[0-9]{1,5}))?
        (?P<path>/[^?]*)?
        (?P<query>\?.*)?""",
    re.VERBOSE | re.IGNORECASE,
)

#: The longest content of a file with a token.
_LARGEST_TOKEN_FILE = 4096


@attrs.frozen
class HttpAddress:
    """An address, and what is sent along."""

    #: The whole address: its query may hold a secret.
    url: Secret
    #: What can be shown to anyone.
    shown: str
    #: Certificates to trust instead of the system's.
    ca_file: str | None = None
    #: Sent as `Authorization: Bearer`.
    token: Secret | None = None


def read_address(argument: str, options: Collection[str] = ()) -> tuple[HttpAddress, PluginOptions]:
    """The address that an argument means, and its options. No message shows its query.

    Args:
        options: The names of further options.
    """
    if argument.startswith("//"):
        # `http://host` was written, and its beginning taken for the name of the plugin.
        argument = f"http:{argument}"
    text, given = split_options(argument, {*COMMON_OPTIONS, *options})
    if not text:
        raise ConfigError("the address is missing: https://HOST/PATH is expected")
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise ConfigError(
            "a user or a password in the address would be seen by everybody on this machine:"
            " put a token in a file, and write #token-file=PATH behind the address"
        )
    parts = _URL.fullmatch(text)
    if parts is None or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError("this is no address: http://HOST/PATH or https://HOST/PATH is expected")
    port = parts["port"]
    if port is not None and not 1 <= int(port) <= 65535:
        raise ConfigError(f"the port of the address is {port}: a number from 1 to 65535 is expected")
    shown = f"{parts['scheme'].lower()}://{parts['host']}{f':{port}' if port else ''}{parts['path'] or '/'}"
    token_file = given.text("token-file")
    address = HttpAddress(
        url=Secret(shown + (parts["query"] or "")),
        shown=shown,
        ca_file=given.text("ca-file"),
        token=None if token_file is None else _read_token(Path(token_file)),
    )
    return address, given


def _read_token(path: Path) -> Secret:
    try:
        with path.open(encoding="utf-8") as file:
            token = file.read(_LARGEST_TOKEN_FILE + 1).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"the token file {str(path)!r} cannot be read: {reason}") from None
    if not token or len(token) > _LARGEST_TOKEN_FILE or not token.isascii() or not token.isprintable():
        raise ConfigError(f"the token file {str(path)!r} is to hold one line of printable ASCII characters")
    return Secret(token)
