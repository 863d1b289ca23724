"""The log under twistd: lines of text or of flat JSON, from a chosen level on."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TextIO, cast

from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    PredicateResult,
    formatEvent,
    formatEventAsClassicLogText,
)
from twisted.python.failure import Failure
from twisted.python.reflect import safe_repr, safe_str
from zope.interface import implementer

#: What the options call the levels.
LEVELS = {"debug": LogLevel.debug, "info": LogLevel.info, "warn": LogLevel.warn, "error": LogLevel.error}

FORMATS = ("text", "json")

#: Keys that Twisted's older logging puts beside its events; the line has them under other names.
_LEGACY_KEYS = frozenset({"message", "time", "system", "isError", "format", "failure", "why", "printed"})

#: Control characters and further line breaks as escapes. A line feed is fine: what follows it is indented.
_SHOWN = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
    if chr(code) not in "\n\t"
}


def format_json(event: LogEvent) -> str:
    """One event as one line of JSON, without nesting: what jq, Loki and others take as it is."""
    time = cast(float, event.get("log_time", 0.0))
    level = event.get("log_level")
    line: dict[str, object] = {
        "time": datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": getattr(level, "name", "info"),
        "logger": event.get("log_namespace", ""),
        "message": formatEvent(event),
    }
    for key, value in event.items():
        if not key.startswith("log_") and key not in _LEGACY_KEYS and key not in line:
            line[key] = value
    failure = event.get("log_failure")
    if isinstance(failure, Failure):
        line["traceback"] = failure.getTraceback()
    return _to_json(line) + "\n"


def _to_json(line: dict[str, object]) -> str:
    try:
        return json.dumps(line, default=safe_str, allow_nan=False)
    except (TypeError, ValueError):
        # NaN, keys that are no text, or a value that holds itself: a line that a person can read is better than none.
        return json.dumps(
            {key: value if isinstance(value, str) else safe_repr(value) for key, value in line.items()}
        )


def format_text(event: LogEvent) -> str | None:
    """One event as one line for people."""
    text = formatEventAsClassicLogText(event)
    if text is None:
        return None
    # What came from a peer must not be able to break the log's encoding, its lines, or the terminal that shows it.
    return text.translate(_SHOWN).encode("utf-8", "backslashreplace").decode("utf-8")


#: What Twisted's ports say through its older logging, which names no module.
_OF_A_PORT = re.compile(r"\S+ starting on \S+|\(.* Port .* Closed\)|\(Port .* Closed\)")


@implementer(ILogFilterPredicate)
class _SkipSteps:
    """Twisted tells of its own steps; ours say more, and which listener or destination it is."""

    def __call__(self, event: LogEvent) -> object:
        is_step = event.get("log_level") is LogLevel.info and _is_of_twisted(event)
        return PredicateResult.no if is_step else PredicateResult.maybe


def _is_of_twisted(event: LogEvent) -> bool:
    if str(event.get("log_namespace", "")).startswith("twisted."):
        return True
    message = event.get("message")
    return isinstance(message, tuple) and bool(message) and _OF_A_PORT.fullmatch(str(message[0])) is not None


@implementer(ILogObserver)
class LevelObserver:
    """Writes events from a level on, which may change."""

    def __init__(self, out: TextIO, level: str, log_format: str) -> None:
        self._observer = FileLogObserver(out, format_json if log_format == "json" else format_text)
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Write events from this level on, a key of `LEVELS`."""
        predicates: list[ILogFilterPredicate] = [LogLevelFilterPredicate(LEVELS[level])]
        if level != "debug":
            predicates.insert(0, _SkipSteps())
        self._filtered = FilteringLogObserver(self._observer, predicates)

    def __call__(self, event: LogEvent) -> None:
        self._filtered(event)


def make_observer(out: TextIO, level: str, log_format: str) -> LevelObserver:
    """An observer that writes to a file or a terminal.

    Args:
        level: A key of `LEVELS`.
        log_format: One of `FORMATS`.
    """
    return LevelObserver(out, level, log_format)
