"""Many viewers of low-latency HLS in one thread: each waits for every playlist and fetches every part, as players do."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from urllib.parse import urljoin, urlsplit

import attrs

_PART = re.compile(r'#EXT-X-PART:[^\n]*URI="([^"]+)"')
_SEQUENCE = re.compile(r"#EXT-X-MEDIA-SEQUENCE:(\d+)")

#: Seconds for everything that a crowd does.
DEADLINE = 60.0


@attrs.define
class Crowd:
    """What the viewers of one run did.

    Attributes:
        requests: How often each URL was asked for.
        failures: What was no 200, by status and path.
        parts: How many parts each viewer got.
    """

    requests: Counter[str] = attrs.field(factory=Counter)
    failures: Counter[tuple[int, str]] = attrs.field(factory=Counter)
    parts: list[int] = attrs.field(factory=list)

    @property
    def distinct(self) -> int:
        """How many different URLs were asked for."""
        return len(self.requests)


def watch(url: str, viewers: int, parts: int) -> Crowd:
    """Let viewers watch until each has got so many parts."""
    crowd = Crowd()

    async def everybody() -> None:
        watching = (_Viewer(url, crowd).watch(parts) for _ in range(viewers))
        await asyncio.wait_for(asyncio.gather(*watching), DEADLINE)

    # A loop of its own: that of the tests is Twisted's.
    thread = threading.Thread(target=lambda: asyncio.run(everybody()))
    thread.start()
    thread.join(DEADLINE + 10)
    assert not thread.is_alive(), "the viewers are not done"
    return crowd


class _Viewer:
    def __init__(self, url: str, crowd: Crowd) -> None:
        self._url = url
        self._crowd = crowd
        self._host = urlsplit(url).hostname or ""
        self._port = urlsplit(url).port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def watch(self, wanted: int) -> None:
        index = await self._get(self._url)
        playlist_url = urljoin(
            self._url, next(line for line in index.splitlines() if line and line[0] != "#")
        )
        text = await self._get(playlist_url)
        seen = set(_PART.findall(text))
        got = 0
        while got < wanted:
            text = await self._get(after(playlist_url, text))
            new = [uri for uri in _PART.findall(text) if uri not in seen]
            seen.update(new)
            for uri in new:
                await self._get(urljoin(playlist_url, uri))
                got += 1
        self._crowd.parts.append(got)
        if self._streams is not None:
            self._streams[1].close()

    async def _get(self, url: str) -> str:
        self._crowd.requests[url] += 1
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        path = url.split("/", 3)[3]
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(head.split(" ", 2)[1])
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if "chunked" in fields.get("transfer-encoding", ""):
            body = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        else:
            body = await reader.readexactly(int(fields["content-length"]))
        if status != 200:
            self._crowd.failures[status, path] += 1
        return body.decode("latin-1")


def after(playlist_url: str, text: str) -> str:
    """The address at which a player waits for what follows a playlist."""
    found = _SEQUENCE.search(text)
    assert found is not None, text
    number = int(found[1]) + text.count("#EXTINF:")
    part = text.rpartition("#EXTINF:")[2].count("#EXT-X-PART:")
    return f"{playlist_url}{'&' if '?' in playlist_url else '?'}_HLS_msn={number}&_HLS_part={part}"
