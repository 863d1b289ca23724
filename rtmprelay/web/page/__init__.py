"""The dashboard's files: read once and served from memory, so that no path of a request reaches the disk."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import attrs

from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import Headers, HttpError, Response

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

#: Nothing from other origins, nothing inline, and no frame around the page.
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

    def response(self, if_none_match: str) -> Response:
        """The file, or 304 if the client has it already."""
        headers: Headers = (
            (b"ETag", self.etag),
            # The browser asks again each time and usually gets 304, so that a new version shows at once.
            (b"Cache-Control", b"no-cache"),
            (b"Content-Security-Policy", _POLICY),
            (b"Referrer-Policy", b"no-referrer"),
            (b"X-Frame-Options", b"DENY"),
            (b"Cross-Origin-Opener-Policy", b"same-origin"),
        )
        known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
        if if_none_match == "*" or self.etag.decode() in known:
            return Response(b"", 304, self.content_type, headers, cross_origin=False)
        return Response(self.content, 200, self.content_type, headers, cross_origin=False)


def read_dashboard() -> dict[str, PageFile]:
    """All files of the dashboard by name."""
    folder = files(__name__).joinpath("dashboard")
    found: dict[str, PageFile] = {}
    for entry in folder.iterdir():
        dot = entry.name.rfind(".")
        content_type = _TYPES.get(entry.name[dot:]) if dot > 0 else None
        if content_type is not None and entry.is_file():
            content = entry.read_bytes()
            etag = b'"%s"' % hashlib.sha256(content).hexdigest()[:24].encode()
            found[entry.name] = PageFile(content, content_type, etag)
    return found


class Pages:
    """Serves the page and its files."""

    def __init__(self) -> None:
        self._files = read_dashboard()

    def page(self, request: RelayRequest) -> Response:
        return self.asset(request, _PAGE)

    def asset(self, request: RelayRequest, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise HttpError(404, "there is no such file; the page is at /")
        return file.response(request.header(b"If-None-Match"))
