"""Hashes of stream keys: `$scrypt$ln=14,r=8,p=1$SALT$HASH`, as other programs write them.

`python -m rtmprelay.access.authorizers.hash_key` prints the hash of a key for a keys file. It asks for the key or reads
it from standard input, because everybody on the machine can see command lines.
"""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import hmac
import os
import re
import sys

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret

PREFIX = "$scrypt$"

_FORMAT = re.compile(
    r"\$scrypt\$ln=(?P<ln>[0-9]{1,2}),r=(?P<r>[0-9]{1,2}),p=(?P<p>[0-9]{1,2})"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<hash>[A-Za-z0-9+/]+)"
)

#: The cost of a new hash: one check takes 16 MiB and some 40 ms of a processor.
_LN, _R, _P = 14, 8, 1
_SALT_SIZE = 16
_HASH_SIZE = 32

#: The highest cost that is accepted. A hash that costs more is taken for a mistake.
_MAX_MEMORY = 128 * 1024 * 1024
_MAX_P = 4

_USAGE = (
    "usage: python -m rtmprelay.access.authorizers.hash_key"
    "   (it asks for the key, or reads it from standard input)\n"
)

#: Longer input is probably the wrong file.
_MAX_KEY = 4096


@attrs.frozen
class ScryptHash:
    """The scrypt hash of a key, with its cost parameters and its salt."""

    ln: int
    r: int
    p: int
    salt: bytes = attrs.field(repr=False)
    digest: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, key: Secret) -> ScryptHash:
        """The hash of a key, with a new salt."""
        salt = os.urandom(_SALT_SIZE)
        return cls(_LN, _R, _P, salt, _scrypt(key, _LN, _R, _P, salt, _HASH_SIZE))

    @classmethod
    def parse(cls, text: str) -> ScryptHash:
        """Parse the text form. Error messages do not contain the hash."""
        parts = _FORMAT.fullmatch(text)
        if parts is None:
            raise ConfigError("this is not a hash of the form $scrypt$ln=14,r=8,p=1$SALT$HASH")
        ln, r, p = int(parts["ln"]), int(parts["r"]), int(parts["p"])
        if not 1 <= ln <= 20 or not r or not 1 <= p <= _MAX_P or _memory(ln, r) > _MAX_MEMORY:
            raise ConfigError(f"the hash with ln={ln},r={r},p={p} would take too long, or too much memory")
        salt, digest = _from_base64(parts["salt"]), _from_base64(parts["hash"])
        if len(salt) < 8 or not 16 <= len(digest) <= 64:
            raise ConfigError("the salt or the hash after it is too short or too long")
        return cls(ln, r, p, salt, digest)

    def __str__(self) -> str:
        salt, digest = _to_base64(self.salt), _to_base64(self.digest)
        return f"{PREFIX}ln={self.ln},r={self.r},p={self.p}${salt}${digest}"

    def matches(self, key: Secret) -> bool:
        """Whether this is the hash of the key. It takes some 40 ms: call it in a thread."""
        found = _scrypt(key, self.ln, self.r, self.p, self.salt, len(self.digest))
        return hmac.compare_digest(found, self.digest)


def _memory(ln: int, r: int) -> int:
    return int(128 * r * 2**ln)


def _scrypt(key: Secret, ln: int, r: int, p: int, salt: bytes, size: int) -> bytes:
    data = key.reveal().encode("utf-8", "surrogatepass")
    # OpenSSL needs a little more than the large table.
    max_memory = _memory(ln, r) + 2 * 1024 * 1024
    return hashlib.scrypt(data, salt=salt, n=2**ln, r=r, p=p, maxmem=max_memory, dklen=size)


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ConfigError("the salt or the hash is not base64") from None


# -- the command -----------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Print the hash of a key; returns the exit status."""
    if arguments:
        # The arguments are not repeated, not even in an error: one of them may be a key.
        sys.stderr.write(_USAGE)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    try:
        key = _typed_key() if sys.stdin.isatty() else sys.stdin.read(_MAX_KEY + 2).rstrip("\r\n")
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("\n")
        return 1
    except UnicodeDecodeError:
        key = ""
    if not key or len(key) > _MAX_KEY or not key.isprintable():
        sys.stderr.write("hash_key: one line of printable text is expected\n")
        return 1
    sys.stdout.write(f"{ScryptHash.of(Secret(key))}\n")
    return 0


def _typed_key() -> str:
    key = getpass.getpass("Key: ")
    if key != getpass.getpass("Again: "):
        sys.stderr.write("The two keys are not the same.\n")
        raise EOFError
    return key


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
