"""Gives a question to an engine: the file of SQL, and what it is asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from rtmprelay.flv.names import split_key
from spark_analytics.catalogue import Snapshot
from spark_analytics.questions.time_window import ALWAYS, LONGEST, TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

#: Stands for no end, in microseconds since 1970: far after the year 9999, and sums of it are still whole numbers.
FAR_US = 1 << 61

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Engine(Protocol):
    """What answers SQL."""

    snapshot: Snapshot

    def ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Answer a question; `:name` in it is a parameter."""

    def close(self) -> None:
        """Let go of what it has opened."""


#: Whom to ask: a version of a catalogue, which DuckDB reads then, or an engine.
Source: TypeAlias = Snapshot | Engine


@cache
def question(name: str) -> str:
    """The SQL of a question, without its comments: they say what it answers, and may name parameters too."""
    text = (files("spark_analytics.questions") / f"{name}.sql").read_text(encoding="utf-8")
    return re.sub(r"^\s*--.*\n", "", text, flags=re.MULTILINE)


def answer(source: Source, name: str, **parameters: Any) -> pa.Table:
    """Answer a question."""
    if not isinstance(source, Snapshot):
        return source.ask(question(name), parameters)
    from spark_analytics.engine.duck import DuckEngine

    engine = DuckEngine(source)
    try:
        return engine.ask(question(name), parameters)
    finally:
        engine.close()


def snapshot_of(source: Source) -> Snapshot:
    """The version of the catalogue that is asked about."""
    return source if isinstance(source, Snapshot) else source.snapshot


@attrs.frozen
class Scope:
    """Which rows are wanted.

    Attributes:
        window: A time that overlaps with the row's.
        key: A stream, as `app/name`.
    """

    window: TimeWindow = ALWAYS
    key: str | None = None

    def parameters(self, longest: timedelta = LONGEST) -> dict[str, Any]:
        """The parameters that all questions name alike.

        Args:
            longest: Rows belong to the day on which they began: so much earlier may those be that last into the time.
        """
        window = self.window
        app, stream = ("", "") if self.key is None else split_key(self.key)
        first_day, last_day = window.days(before=longest)
        return {
            "since": window.since,
            "until": window.until,
            "since_us": -FAR_US if window.since is None else microseconds(window.since),
            "until_us": FAR_US if window.until is None else microseconds(window.until),
            "first_day": first_day,
            "last_day": last_day,
            "all_streams": self.key is None,
            "app": app,
            "stream": stream,
        }


def microseconds(time: datetime) -> int:
    """A moment as the questions count: since 1970."""
    return (time - _EPOCH) // _MICROSECOND
