"""A store of objects on this machine that speaks as much of S3 as reading takes: listing, heads, and ranges of bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

#: When all objects were last changed.
CHANGED = 1_767_268_800.0

#: Keys in one page of a listing: few, so that there are several.
_PAGE = 2


class ObjectStore(ThreadingHTTPServer):
    """One bucket, called `bucket`.

    Attributes:
        asked: The method and the key of each request for an object that is there.
    """

    daemon_threads = True

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.objects = objects
        self.asked: list[tuple[str, str]] = []

    @property
    def environment(self) -> dict[str, str]:
        """What tells a client of S3 to come here."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "hush",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        if bucket == "bucket" and not key:
            fields = {name: values[0] for name, values in parse_qs(address.query).items()}
            self._send(200, self._listing(fields).encode())
        elif bucket != "bucket" or key not in self.server.objects:
            self._send(404, b"")
        else:
            self.server.asked.append((self.command, key))
            self._send_object(self.server.objects[key])

    def _listing(self, fields: Mapping[str, str]) -> str:
        prefix, after = fields.get("prefix", ""), fields.get("continuation-token", "")
        keys = sorted(key for key in self.server.objects if key.startswith(prefix) and key > after)
        page = keys[:_PAGE]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            "<LastModified>2026-01-01T12:00:00.000Z</LastModified></Contents>"
            for key in page
        )
        more = len(keys) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><Name>bucket</Name><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
        )

    def _send_object(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, data)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        end = min(int(last) + 1 if last else len(data), len(data))
        self._send(206, data[int(first) : end], f"bytes {first}-{end - 1}/{len(data)}")

    def _send(self, status: int, body: bytes, content_range: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(CHANGED, usegmt=True))
        if content_range is not None:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def serving(objects: Mapping[str, bytes]) -> Iterator[ObjectStore]:
    """A store with these objects, while it is needed."""
    with ObjectStore(objects) as store:
        thread = threading.Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
