"""The files of the dashboard and of the page to watch: read once and served from memory, so that no path of a request reaches the disk."""

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
_WATCH_PAGE = "watch.html"

_SHARED = ("favicon.svg", "mp4_boxes.js")

#: What the page to watch has for the way up to the root of the server, wherever a proxy has put that.
_ROOT = b"../../"

#: Levels below the root at which there can be a page to watch.
_MAX_DEPTH = 32


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


def read_folder(name: str) -> dict[str, PageFile]:
    """All files of a folder by name."""
    folder = files(__name__).joinpath(name)
    found: dict[str, PageFile] = {}
    for entry in folder.iterdir():
        dot = entry.name.rfind(".")
        content_type = _TYPES.get(entry.name[dot:]) if dot > 0 else None
        if content_type is not None and entry.is_file():
            found[entry.name] = _page_file(entry.read_bytes(), content_type)
    return found


def _page_file(content: bytes, content_type: bytes) -> PageFile:
    return PageFile(content, content_type, b'"%s"' % hashlib.sha256(content).hexdigest()[:24].encode())


class Pages:
    """Serves the pages and their files."""

    def __init__(self) -> None:
        self._watch_files = read_folder("watch")
        self._watch_page = self._watch_files.pop(_WATCH_PAGE)
        # By the level below the root.
        self._watch_pages: dict[int, PageFile] = {}
        dashboard = read_folder("dashboard")
        # What the page to watch needs of the dashboard's files.
        self._watch_files |= {name: dashboard[name] for name in _SHARED}
        self._files = {**dashboard, **self._watch_files}

    def page(self, request: RelayRequest) -> Response:
        return self.asset(request, _PAGE)

    def watch(self, request: RelayRequest, depth: int) -> Response:
        """The page to watch a stream whose key has so many parts. It finds out by itself which stream."""
        if depth > _MAX_DEPTH:
            raise HttpError(404, "there is nothing here")
        page = self._watch_pages.get(depth)
        if page is None:
            content = self._watch_page.content.replace(_ROOT, b"../" * depth)
            page = self._watch_pages[depth] = _page_file(content, self._watch_page.content_type)
        return page.response(request.header(b"If-None-Match"))

    def watch_asset(self, request: RelayRequest, name: str) -> Response:
        """A file of the page to watch, for those who may not see the dashboard."""
        file = self._watch_files.get(name)
        if file is None:
            raise HttpError(404, "there is no such file")
        return file.response(request.header(b"If-None-Match"))

    def asset(self, request: RelayRequest, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise HttpError(404, "there is no such file; the page is at /")
        return file.response(request.header(b"If-None-Match"))
