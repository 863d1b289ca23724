"""Events as lines of JSON."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay import events
from rtmprelay.events.lines import COMMON_FIELDS, LONGEST_LINE, encode_line, format_time
from rtmprelay.secret import Secret
from tests.event_log.helpers import INSTANCE, NOON


class Colour(enum.Enum):
    RED = "red"


# Not an event of ours to the rest of the tests: all of those are documented.
@attrs.frozen
class _Anything:
    what: Any
    name = "anything"

    def fields(self) -> dict[str, object]:
        return {"what": self.what}


def Anything(what: object) -> events.Event:  # noqa: N802
    """An event with a field of any kind."""
    return cast(events.Event, _Anything(what))


def decoded(event: events.Event, time: float = NOON, number: int = 7) -> dict[str, Any]:
    line = encode_line(time, event, INSTANCE, number)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()
    return dict(json.loads(line))


def test_every_line_has_the_common_fields_first() -> None:
    line = decoded(events.PublishStarted(connection="c000001", stream="live/test"), NOON + 0.25)
    assert line == {
        "time": "2026-11-16T12:00:00.250000Z",
        "event": "publish_started",
        "connection": "c000001",
        "stream": "live/test",
        "instance": INSTANCE,
        "number": 7,
    }
    assert tuple(line) == COMMON_FIELDS


def test_common_fields_that_an_event_lacks_are_null() -> None:
    line = decoded(events.RecordingDeleted(path="x.flv", bytes=5, reason="too old"))
    assert tuple(line) == (*COMMON_FIELDS, "path", "bytes", "reason")
    assert line["connection"] is None
    assert line["stream"] is None
    assert line["bytes"] == 5


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), None),
        (float("inf"), None),
        ({"a": float("nan"), 3: [float("-inf"), 1]}, {"a": None, "3": [None, 1]}),
        (Path("a/b"), "a/b"),
        (Colour.RED, "red"),
        ((1, 2), [1, 2]),
        (frozenset({1}), [1]),
        ("two\nlines\u2028\x00\ud800", "two\nlines\u2028\x00\ud800"),
        ({"queue_full": 3}, {"queue_full": 3}),
        ([{(1, 2): Colour.RED}, float("nan")], [{"(1, 2)": "red"}, None]),
    ],
)
def test_values_that_json_lacks_are_replaced(value: object, written: object) -> None:
    assert decoded(Anything(what=value))["what"] == written


def test_of_a_secret_only_the_mask_is_written() -> None:
    line = encode_line(NOON, Anything(what={"key": Secret("hush-hush")}), INSTANCE, 1)
    assert b"hush" not in line
    assert b"<secret " in line


def test_a_long_text_is_cut_but_not_the_stream() -> None:
    stream = "live/" + "\U0001f600" * 4000
    line = encode_line(
        NOON, events.PublishRefused(connection="c1", stream=stream, peer="", reason="x" * 10**6), INSTANCE, 1
    )
    assert len(line) < LONGEST_LINE + 2000
    assert json.loads(line)["stream"] == stream
    assert json.loads(line)["reason"] == "x" * 1000 + "..."


def test_a_cut_line_keeps_its_numbers() -> None:
    line = decoded(Anything(what=["x" * 100_000, 5]))
    assert len(line["what"]) == 1003
    event = events.CommandIgnored(connection="c1", command="y" * 100_000)
    assert decoded(event, number=5)["number"] == 5


@given(st.floats(min_value=0, max_value=4e9))
def test_times_have_one_width_and_sort_as_text(time: float) -> None:
    text = format_time(time)
    assert len(text) == len("2026-11-16T12:00:00.250000Z")
    assert text <= format_time(time + 1)


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.floats() | st.text()))
def test_anything_is_one_line(value: dict[str, Any]) -> None:
    assert decoded(Anything(what=value))["event"] == "anything"


def test_no_event_has_a_field_that_would_hide_a_common_one() -> None:
    for kind in events.event_types():
        names = {field.name for field in attrs.fields(kind)}
        allowed = {"connection", "stream"} | ({"instance"} if kind.name.startswith("server_") else set())
        assert not names & (set(COMMON_FIELDS) - allowed), kind
