"""What clients really send, byte by byte, and what becomes of it in bad hands."""

from __future__ import annotations

import random
from functools import cache

from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectRequested,
    PlayRequested,
    PublishRequested,
)
from rtmprelay.session.server import ServerSession
from tests.helpers import group, start_frames

#: What no log, answer or file name may have in it.
MARK = b"MARKED"

#: The key of the server that is attacked. Whatever is cut out of it, enough is left to find it.
KEY = "MARKED-MARKED-MARKED-MARKED"

#: The names under which the conversations publish; nobody else uses them.
NAMES = tuple(f"hostile-{letter}?key={KEY}" for letter in "abc")

#: Bytes of a client's handshake, and of a server's.
HANDSHAKE = 3073

#: Numbers that have broken parsers before.
_TELLING = (
    b"\xff\xff\xff",
    b"\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00",
)


def _talk(client: ClientSession, name: str | None, play: bool) -> tuple[bytes, bytes]:
    """Let a client talk to a server; what each of them said. Without a name it only connects."""
    server = ServerSession(0.0)
    sent = answered = b""
    asked = False
    for _ in range(20):
        upstream = client.bytes_to_send()
        sent += upstream
        for event in server.receive_data(upstream, 0.0) if upstream else ():
            if isinstance(event, ConnectRequested | PublishRequested | PlayRequested):
                server.accept(event.request_id)
        downstream = server.bytes_to_send()
        answered += downstream
        if downstream:
            client.receive_data(downstream, 0.0)
        elif not upstream and not asked and name is not None:
            asked = True
            (client.play if play else client.publish)(name)
    return sent, answered


def conversation(name: str | None, play: bool = False, use_digest: bool = True) -> bytes:
    """All that a client sends, from the handshake to its media. Without a name it only connects."""
    client = ClientSession("live", "rtmp://127.0.0.1/live", use_digest=use_digest)
    sent, _ = _talk(client, name, play)
    if name is not None and not play:
        for frame in (*start_frames(), *group(0), *group(400)):
            sent += client.send_media(frame)
    return sent


@cache
def greeting() -> bytes:
    """Handshake and connect, and nothing else."""
    return conversation(None)


def beyond_greeting(name: str, play: bool = False) -> bytes:
    """What a client sends after that."""
    return conversation(name, play)[len(greeting()) :]


def answers() -> bytes:
    """All that a server says to a publisher."""
    return _talk(ClientSession("live", "rtmp://127.0.0.1/live", use_digest=False), "name", False)[1]


def mutate(original: bytes, chance: random.Random, first: int = 0) -> bytes:
    """The same with a few things wrong; how many and which, chance decides.

    Args:
        first: What comes before this stays as it is.
    """
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(first, len(data))
        length = chance.choice((1, 2, 8, 64, 512))
        match chance.randrange(7):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place : place + 1] = chance.choice(_TELLING)
            case 2:
                data[place : place + length] = chance.randbytes(length)
            case 3:
                del data[place : place + length]
            case 4:
                data[place:place] = data[place : place + length]
            case 5:
                data[place:place] = chance.randbytes(length)
            case _:
                del data[max(place, first + 1) :]
        if len(data) <= first + 1:
            break
    return bytes(data)
