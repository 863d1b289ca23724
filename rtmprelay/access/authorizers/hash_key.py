"""`python -m rtmprelay.access.authorizers.hash_key`: the hash of a key, for a keys file.

The key is asked for, or read from standard input: what stands on a command line can be seen by everybody on the
machine.
"""

from __future__ import annotations

import getpass
import sys

from rtmprelay.access.authorizers.scrypt_keys import ScryptHash
from rtmprelay.secret import Secret

_USAGE = "usage: python -m rtmprelay.access.authorizers.hash_key   (it asks for the key, or reads it from standard input)\n"

#: Keys of more characters are another file.
_LONGEST_KEY = 4096


def main(arguments: list[str]) -> int:
    """Print the hash; the exit status."""
    if arguments:
        # Not even in an error: it may be a key.
        sys.stderr.write(_USAGE)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    try:
        key = _asked_key() if sys.stdin.isatty() else sys.stdin.read(_LONGEST_KEY + 2).rstrip("\r\n")
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("\n")
        return 1
    except UnicodeDecodeError:
        key = ""
    if not key or len(key) > _LONGEST_KEY or not key.isprintable():
        sys.stderr.write("hash_key: one line of printable text is expected\n")
        return 1
    sys.stdout.write(f"{ScryptHash.of(Secret(key))}\n")
    return 0


def _asked_key() -> str:
    key = getpass.getpass("Key: ")
    if key != getpass.getpass("Again: "):
        sys.stderr.write("The two are not the same.\n")
        raise EOFError
    return key


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
