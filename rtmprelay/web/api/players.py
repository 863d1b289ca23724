"""Who watches: a bounded list, made when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.api.shapes import Json, Now, seconds
from rtmprelay.web.server.request import RelayRequest, refuse_unknown
from rtmprelay.web.server.responses import HttpError, iso_time, list_pieces, object_pieces, small_fields

if TYPE_CHECKING:
    from rtmprelay.streams.consumer import Player

#: Players in one list. A stream may have thousands, and nobody reads so many.
MAX_LISTED = 200


def stream_in_query(request: RelayRequest) -> str | None:
    """The stream that `?stream=APP/NAME` asks for; None for all."""
    try:
        fields = dict(parse_qsl(request.query.decode("ascii"), keep_blank_values=True, max_num_fields=10))
    except ValueError:
        raise HttpError(400, "the query cannot be read: ?stream=APP/NAME is known") from None
    refuse_unknown(list(fields), ("stream",))
    return fields.get("stream")


def players_pieces(
    registry: StreamRegistry, now: Now, head: Iterator[tuple[str, list[bytes]]], wanted: str | None
) -> Iterator[bytes]:
    """The players of a stream, or of all, in the order in which they came to it."""
    streams = [one for one in registry if wanted is None or one.key == wanted]
    total = sum(1 for stream in streams for _ in stream.players)
    found = ((stream.key, player) for stream in streams for player in stream.players)
    listed = list_pieces(_player_json(key, player, now) for key, player in islice(found, MAX_LISTED))
    count = small_fields({"total": total})
    yield from object_pieces([*head, *count, ("players", listed)])
    yield b"\n"


def _player_json(key: str, player: Player, now: Now) -> Json:
    report, account = player.report, player.account
    duration = None if report is None else seconds(now.steady - report.began)
    return {
        "connection": None if report is None else report.connection,
        "address": None if report is None else report.peer,
        "stream": key,
        "protocol": player.audience,
        "started_at": None if duration is None else iso_time(now.wall - duration),
        "duration": duration,
        "bytes_sent": account.bytes_sent,
        "messages_dropped": account.messages_dropped,
        "dropped_by_reason": account.reasons(),
        "bytes_queued": player.bytes_queued,
        "stalls": 0 if report is None else report.stalls.count,
    }
