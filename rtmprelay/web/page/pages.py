"""The dashboard's files: read once, served from memory, so that no path of a request ever reaches the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files

import attrs

from rtmprelay.web.server.answers import Answer, Headers, HttpError

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
    ".json": b"application/json",
    ".webmanifest": b"application/manifest+json",
}

#: Nothing from elsewhere, nothing inline, and in nobody's frame.
_POLICY = (
    b"default-src 'self'; img-src 'self' data:; media-src 'self' blob:; object-src 'none'; base-uri 'none';"
    b" form-action 'self'; frame-ancestors 'none'"
)

_PAGE = "index.html"


@attrs.frozen
class PageFile:
    """One file, ready to be sent."""

    content: bytes
    content_type: bytes
    etag: bytes

    def answer(self, known: str) -> Answer:
        """The file, or that the client has it already."""
        headers: Headers = (
            (b"ETag", self.etag),
            # Asked for again each time, and then answered with 304: a new version shows at once.
            (b"Cache-Control", b"no-cache"),
            (b"Content-Security-Policy", _POLICY),
            (b"Referrer-Policy", b"no-referrer"),
            (b"X-Frame-Options", b"DENY"),
            (b"Cross-Origin-Opener-Policy", b"same-origin"),
        )
        if known == "*" or self.etag.decode() in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
            return Answer(b"", 304, self.content_type, headers, shared=False)
        return Answer(self.content, 200, self.content_type, headers, shared=False)


def read_dashboard() -> dict[str, PageFile]:
    """All files of the dashboard by name."""
    folder = files("rtmprelay.web.page").joinpath("dashboard")
    found: dict[str, PageFile] = {}
    if not folder.is_dir():
        return found
    for entry in folder.iterdir():
        dot = entry.name.rfind(".")
        content_type = _TYPES.get(entry.name[dot:]) if dot > 0 else None
        if content_type is not None and entry.is_file():
            content = entry.read_bytes()
            etag = b'"%s"' % hashlib.sha256(content).hexdigest()[:24].encode()
            found[entry.name] = PageFile(content, content_type, etag)
    return found


class Pages:
    """Answers requests for the page and what belongs to it."""

    def __init__(self, page_files: Mapping[str, PageFile] | None = None) -> None:
        self._files = read_dashboard() if page_files is None else page_files

    def page(self, known: str) -> Answer:
        """The page itself."""
        return self.asset(_PAGE, known)

    def asset(self, name: str, known: str) -> Answer:
        """One of its files.

        Args:
            known: What the client sent as If-None-Match.
        """
        file = self._files.get(name)
        if file is None:
            raise HttpError(404, "there is no such file; the page is at /")
        return file.answer(known)
