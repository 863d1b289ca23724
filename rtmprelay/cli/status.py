"""`rtmprelay status`: the streams and destinations of a running relay, in the terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any

from rtmprelay.screen import Screen

_GAP = "  "

#: Seconds between two looks, and after which an answer is late.
_INTERVAL = 1.0
_TIMEOUT = 5.0

#: Bytes of an answer; thousands of streams have less.
_LARGEST_ANSWER = 64 * 1024 * 1024


class StatusError(Exception):
    """The relay did not answer; the message says why, for a person."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url",
        nargs="?",
        default="http://127.0.0.1:8080",
        metavar="URL",
        help="where its --http-status is (default: http://127.0.0.1:8080)",
    )
    parser.add_argument("--once", action="store_true", help="print the status once, and end")


def run(options: argparse.Namespace) -> int:
    out = sys.stdout
    url = options.url if "://" in options.url else f"http://{options.url}"
    if not url.startswith(("http://", "https://")):
        sys.stderr.write(f"rtmprelay status: {url!r} is not an address such as http://127.0.0.1:8080\n")
        return 1
    live = not options.once and out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    screen = Screen(out)
    try:
        while True:
            document = {name: _ask(url, name) for name in ("health", "streams", "destinations")}
            if not live:
                out.write("".join(f"{line}\n" for line in lines(document, 200)))
                return 0
            screen.draw(lambda columns, shown=document: lines(shown, columns))  # type: ignore[misc]
            time.sleep(_INTERVAL)
    except StatusError as error:
        sys.stderr.write(f"rtmprelay status: {error}\n")
        return 1
    except (KeyError, TypeError, AttributeError):
        sys.stderr.write(f"rtmprelay status: what answers at {url} is no relay of this version\n")
        return 1
    except KeyboardInterrupt:
        return 0


def _ask(url: str, name: str) -> Any:
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/{name}")
    except ValueError as error:
        raise StatusError(f"{url!r} is not an address such as http://127.0.0.1:8080: {error}") from None
    token = os.environ.get("RTMPRELAY_HTTP_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            return json.loads(answer.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return json.loads(error.read(_LARGEST_ANSWER))
        hint = "; put the token into RTMPRELAY_HTTP_TOKEN" if error.code in (401, 403) else ""
        raise StatusError(f"{url} answered {error.code}{hint}") from None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise StatusError(
            f"no relay answers at {url} ({getattr(reason, 'strerror', None) or reason}); it has to be started"
            " with --http-status :8080, or name another address"
        ) from None


def lines(document: Mapping[str, Any], columns: int) -> list[str]:
    """What the terminal shows."""
    streams = [one for one in document["streams"]["streams"].values() if one["live"]]
    destinations = [*document["destinations"]["destinations"].values()]
    players = sum(one["players"] for one in streams)
    counts = ((len(streams), "live stream"), (players, "player"), (len(destinations), "destination"))
    head = ", ".join(f"{count} {what}" if count == 1 else f"{count} {what}s" for count, what in counts)
    made = [f"rtmprelay {document['health']['version']}: {head}"]
    made += [f"Warning: {warning}" for warning in document["health"].get("warnings", ())]
    made += [
        f"{one['address']} was refused {one['refused']} times ({one['limit']})"
        for one in document["health"].get("refused_addresses", ())
    ]
    made.append("")
    made += _table(
        ("stream", "video", "audio", "kbit/s", "fps", "players", "recorded", "live for"),
        [_stream(one) for one in streams],
    )
    if destinations:
        made += [
            "",
            *_table(
                ("destination", "state", "kbit/s", "frames dropped", "note"),
                [_destination(one) for one in destinations],
            ),
        ]
    pulls = document["health"].get("pulls", {})
    if pulls:
        rows = [
            (name, one["status"], str(one["viewers"]), one["last_error"] or "") for name, one in pulls.items()
        ]
        made += ["", *_table(("fetched from", "state", "players", "note"), rows)]
    # What comes from elsewhere must not move the cursor.
    return ["".join(c if c.isprintable() else "?" for c in line)[:columns] for line in made]


def _stream(one: Mapping[str, Any]) -> tuple[str, ...]:
    video, audio = one["video"], one["audio"]
    size = f" {video['width']}x{video['height']}" if video and video["width"] else ""
    return (
        one["key"],
        f"{video['codec']}{size}" if video else "-",
        audio["codec"] if audio else "-",
        _number(one["bitrate_kbps"]),
        _number(one["fps"]),
        str(one["players"]),
        "yes" if one["recording"] else "no",
        _duration(one["duration"]),
    )


def _destination(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one["name"],
        one["status"],
        _number(one["bitrate_kbps"]),
        str(one["messages_dropped"]),
        _failure(one),
    )


def _failure(one: Mapping[str, Any]) -> str:
    """What went wrong last, how often in a row, and what follows."""
    if not one["last_error"]:
        return ""
    times = f" ({one['failures']} times)" if one["failures"] > 1 else ""
    if one["given_up"]:
        return f"{one['last_error']}{times}, given up"
    waits = one["next_attempt_in"]
    follows = "" if waits is None else f", next attempt in {waits:.0f} s"
    return f"{one['last_error']}{times}{follows}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        rows = [["none", *[""] * (len(titles) - 1)]]
    widths = [max(len(titles[column]), *(len(row[column]) for row in rows)) for column in range(len(titles))]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *rows)
    ]
