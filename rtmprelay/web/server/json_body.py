"""The JSON object in a request's body. What is wrong with it is told by place and name, never by value."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NoReturn

from rtmprelay.web.server.answers import HttpError
from rtmprelay.web.server.request import RelayRequest

#: A destination has three levels; its metadata is the operator's own.
_DEEPEST = 20

#: Field names in an error are cut: somebody may have put anything there.
_LONGEST_NAME = 64


def read_object(request: RelayRequest) -> dict[str, object]:
    """The object that a request brings."""
    media_type = request.header(b"Content-Type").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HttpError(415, "the body must be JSON, sent with the header 'Content-Type: application/json'")
    try:
        document = json.loads(
            request.body.decode("utf-8"),
            object_pairs_hook=_without_repetition,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:
        raise HttpError(400, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise HttpError(
            400, f"the body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except ValueError:
        raise HttpError(400, "the body has a number in it that is too long") from None
    if not isinstance(document, dict):
        raise HttpError(400, "the body must be a JSON object, such as {...}")
    _refuse_deep(document)
    return document


def _refuse_deep(document: object) -> None:
    """What is nested too deeply to be written out again later must not come in."""
    level = [document]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise HttpError(400, f"the body is nested too deeply: {_DEEPEST} levels are the most")


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise HttpError(400, "a field of the body is there twice")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise HttpError(400, "the body is not valid JSON: NaN and Infinity are no JSON numbers")


def refuse_unknown(fields: Collection[str], known: Collection[str]) -> None:
    """Raise if there is a field that nobody knows."""
    unknown = sorted(name[:_LONGEST_NAME] for name in fields if name not in known)
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (" ..." if len(unknown) > 5 else "")
        raise HttpError(400, f"unknown field {shown}: {', '.join(known)} are known")


def take_flag(fields: dict[str, object], name: str, default: bool | None = None) -> bool:
    """Take a field out that is true or false."""
    value = fields.pop(name, default)
    if value is None:
        raise HttpError(400, f"the field {name!r} is missing: true or false is expected")
    if not isinstance(value, bool):
        raise HttpError(400, f"the field {name!r} is wrong: true or false is expected")
    return value
