"""Parts of a response (RFC 9110, section 14): phones play a file only from servers that send parts of it."""

from __future__ import annotations

import re

from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import HttpError

_ONE_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


def wanted_range(request: RelayRequest, size: int, etag: bytes) -> tuple[int, int] | None:
    """Begin and end of the bytes that a client wants; None for all of them.

    Several parts at once are not made: the client gets all.

    Raises:
        HttpError: There are no such bytes.
    """
    condition = request.header(b"If-Range")
    match = _ONE_RANGE.fullmatch(request.header(b"Range").strip())
    if match is None or match[0] == "bytes=-" or (condition and condition.encode("latin-1") != etag):
        return None
    first, last = match[1], match[2]
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if begin >= end:
        raise HttpError(416, f"there are {size} bytes", ((b"Content-Range", b"bytes */%d" % size),))
    return begin, end
