"""What reads texts of strangers and of the operator: commands, names, passes of other relays, settings."""

from __future__ import annotations

from pathlib import Path

from rtmprelay.amf import amf0
from rtmprelay.config.settings_file import KnownOptions, read_settings_file
from rtmprelay.errors import ConfigError
from rtmprelay.flv.names import parse_recording_name
from rtmprelay.pulls.config_file import parse_pulls
from rtmprelay.quantities import read_count, read_duration, read_seconds, read_size
from rtmprelay.rtmp.node_pass import NodeIdentity, NodeRefusedError
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import AdobeAuthentication, AdobeLogin, AuthenticationRefusedError
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import Connect, Play, Publish, can_reconnect, read_client_command, status_of
from rtmprelay.wire.messages import Command, MessageType, from_raw
from rtmprelay.wire.names import read_application, read_stream_name
from tests.hostile.costly import costly_amf
from tests.hostile.target import SECONDS_PER_BYTE_OF_OPERATOR, Target

_SECRET = Secret("a secret of sixteen and more characters")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _read_command(data: bytes, folder: Path) -> None:
    """A payload of a command, and what is made of it."""
    for kind in (MessageType.COMMAND_AMF0, MessageType.COMMAND_AMF3):
        read = from_raw(RawMessage(kind, 0, 1, data))
        if isinstance(read, Command):
            status_of(read)
            asked = read_client_command(read)
            if isinstance(asked, Connect):
                can_reconnect(asked.properties)
                read_application(asked.properties)
            elif isinstance(asked, Publish | Play):
                read_stream_name(read_application({"app": "live?a=b"}), asked.name)


def _commands() -> list[bytes]:
    properties: dict[str, amf0.AmfValue] = {
        "app": "live?key=a",
        "tcUrl": "rtmp://h/live?key=a",
        "capsEx": 1.0,
        "fourCcList": ["av01"],
    }
    return [
        amf0.encode("connect", 1.0, properties),
        amf0.encode("publish", 5.0, None, "film?key=b", "live"),
        amf0.encode("play", 5.0, None, "mp4:film", -2.0, -1.0, True),
        amf0.encode("play2", 5.0, None, {"streamName": "b", "transition": "switch"}),
        amf0.encode("deleteStream", 5.0, None, 1.0),
        amf0.encode("onStatus", 0.0, None, {"level": "error", "code": "x", "description": "y"}),
    ]


def _identity(name: str) -> NodeIdentity:
    return NodeIdentity(name, _SECRET, f"rtmp://{name}", wall_clock=lambda: 1.7e9)


def _log_in(data: bytes, folder: Path) -> None:
    """Adobe's login, from both sides."""
    AdobeLogin(bytes).judge(Secret(_text(data)), lambda user: [Secret("word")], 1.7e9)
    client = AdobeAuthentication("anna", Secret("word"))
    client.refused("code=403 need auth; authmod=adobe")
    if data.startswith(b"authmod=adobe :"):
        client.refused(_text(data))


_KNOWN = KnownOptions(
    frozenset({"record-all"}), frozenset({"record-dir", "chunk-size"}), frozenset({"listen"})
)

_SETTINGS = b"""listen = [":1935"]
record-all = true
chunk-size = 4096

[limits]
max_connections = 2000

[[destinations]]
name = "YouTube"
url = "rtmps://a.example/live2"
stream_key = "k"
"""


def _read_settings(data: bytes, folder: Path) -> None:
    path = folder / "relay.toml"
    path.write_bytes(data)
    path.chmod(0o600)
    found = read_settings_file(path, _KNOWN)
    found.arguments()
    found.changed_options(found)


def _quantities(data: bytes, folder: Path) -> None:
    text = _text(data)
    read_count(text)
    read_seconds(text)
    parse_recording_name(text)
    for read in (read_size, read_duration):
        try:
            read(text)
        except ConfigError:
            continue


TEXT_TARGETS = {
    "commands": Target(_read_command, _commands, costly_amf),
    "pass": Target(
        lambda data, _: _identity("a").check(Secret(_text(data))),
        lambda: [
            _identity("b").issue(("c",), "rtmp://a", "moved live/film").reveal().encode(),
            b"1;b,c",
        ],
        lambda: [b"1;" + b"b," * 70_000, b"1;" + b";" * 100_000, b"1;b;" + b"9" * 100_000],
        (NodeRefusedError,),
    ),
    "login": Target(
        _log_in,
        lambda: [
            b"authmod=adobe&user=anna&challenge=ab&response=cd&opaque=00ff",
            b"authmod=adobe : ?reason=needauth&user=anna&salt=aa&challenge=bb&opaque=cc",
        ],
        lambda: [b"authmod=adobe&user=anna" + b"&a=b" * 30_000, b"?" + b"&=" * 70_000],
        (AuthenticationRefusedError,),
    ),
    "settings": Target(
        _read_settings,
        lambda: [_SETTINGS],
        lambda: [
            b"a = " + b"[" * 100_000,
            b"a = " + b"9" * 100_000,
            b'x = "' + b"a" * 100_000 + b'"',
            b"[[destinations]]\n" * 5_000,
            b"a.b.c.d = 1\n" * 3_000,
        ],
        (ConfigError,),
        SECONDS_PER_BYTE_OF_OPERATOR,
    ),
    "pulls": Target(
        lambda data, _: parse_pulls(_text(data), {"KEY": "k"}),
        lambda: [b'{"pulls": [{"name": "a", "url": "rtmp://h/live", "match": "live/*"}]}'],
        lambda: [b'{"pulls": [' + b"{}," * 40_000 + b"{}]}", b"[" * 100_000],
        (ConfigError,),
        SECONDS_PER_BYTE_OF_OPERATOR,
    ),
    "quantities": Target(
        _quantities, lambda: [b"1.5h", b"64M", b"live_film_20260517_201500-2.flv"], lambda: [b"9" * 100_000]
    ),
}
