"""Everything that reads a secret from a file treats the file alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from rtmprelay.access.authorizers.jwt_authorizer import JwtAuthorizer
from rtmprelay.access.authorizers.keys_file import KeysFile
from rtmprelay.destinations.config_file import parse_relay_config, read_relay_config
from rtmprelay.errors import ConfigError
from rtmprelay.http_client.poster import read_address
from rtmprelay.web.settings import read_token

SECRET = "correct-horse-battery-staple-0123456789"
BOM = b"\xef\xbb\xbf"


def stream_key(path: Path) -> str:
    entry = {"name": "one", "url": "rtmp://host/app", "stream_key_file": str(path)}
    (destination,) = parse_relay_config(json.dumps({"destinations": [entry]}), folder=path.parent)
    assert destination.url.key is not None
    return destination.url.key.reveal()


def http_token(path: Path) -> str:
    return read_token(f"file:{path}").reveal()


def hook_token(path: Path) -> str:
    token = read_address(f"http://host/#token-file={path}")[0].token
    assert token is not None
    return token.reveal()


def jwt_secret(path: Path) -> str:
    (key,) = JwtAuthorizer(path)._keys
    return bytes(key.key).decode()


#: Files that hold one secret and nothing else.
SECRETS: dict[str, Callable[[Path], str]] = {
    "stream_key_file": stream_key,
    "--http-token file:": http_token,
    "token-file of a hook": hook_token,
    "secret of jwt": jwt_secret,
}


def relay_config(path: Path) -> object:
    return read_relay_config(str(path))


def keys_file(path: Path) -> object:
    in_thread: Any = None
    return KeysFile(path, in_thread, Clock().seconds)


#: Files with secrets in JSON, and what is in them.
DOCUMENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "relay config": (relay_config, '{"destinations": []}'),
    "keys file": (keys_file, '{"streams": [], "users": {}}'),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret"


@pytest.mark.parametrize("read", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"", b"\n"), (b"", b"\r\n"), (BOM, b"\r\n"), (b" ", b" \n\n")],
    ids=["bare", "newline", "CRLF", "byte-order mark", "blanks"],
)
def test_a_secret_is_read_without_byte_order_mark_and_blanks(
    read: Callable[[Path], str], before: bytes, after: bytes, path: Path
) -> None:
    path.write_bytes(before + SECRET.encode() + after)
    assert read(path) == SECRET


@pytest.mark.parametrize("read", SECRETS.values(), ids=SECRETS)
def test_a_secret_of_4096_bytes_is_read_whole(read: Callable[[Path], str], path: Path) -> None:
    path.write_text("s" * 4095 + "\n")
    assert read(path) == "s" * 4095


@pytest.mark.parametrize("read", [stream_key, http_token, hook_token])
def test_a_larger_file_is_refused_and_never_cut(read: Callable[[Path], str], path: Path) -> None:
    path.write_text("s" * 5000)
    with pytest.raises(ConfigError, match="is larger than 4096 bytes"):
        read(path)


@pytest.mark.parametrize("read", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"one-line-of-a-secret-with-more-than-32\nanother-line\n", b"\xff\xfe" * 30]
)
def test_secret_that_is_not_one_line_of_text_is_refused_without_showing_it(
    read: Callable[[Path], str], content: bytes, path: Path
) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "line-of-a-secret" not in str(caught.value)


@pytest.mark.parametrize(("read", "content"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_may_begin_with_a_byte_order_mark(
    read: Callable[[Path], object], content: str, path: Path
) -> None:
    path.write_bytes(BOM + content.encode() + b"\r\n")
    assert read(path) is not None


@pytest.mark.parametrize(("read", "content"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_over_a_mebibyte_is_refused(
    read: Callable[[Path], object], content: str, path: Path
) -> None:
    path.write_text(content + " " * 2**20)
    with pytest.raises(ConfigError, match="is larger than 1048576 bytes"):
        read(path)
