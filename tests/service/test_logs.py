"""The lines of a JSON log and of a text log. No client can forge or break them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.event_bus import EventBus, LogSink
from rtmprelay.events import ClientConnected, ConnectionClosed, DestinationFailed, event_types
from rtmprelay.logs import FORMATS, LEVELS, format_json, format_text, make_observer


@implementer(ILogObserver)
class Captured:
    """Collects log events."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)


def logged(sentence: str, **fields: object) -> LogEvent:
    """A log event with a fixed time, as Twisted makes it."""
    captured = Captured()
    Logger(namespace="rtmprelay.test", observer=captured).info(sentence, **fields)
    (event,) = captured.events
    event["log_time"] = 1_750_000_000.1234
    return event


def as_json(event: LogEvent) -> dict[str, Any]:
    """The JSON line of an event, parsed again. It must be one line of strict JSON in ASCII."""
    line = format_json(event)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert line.isascii()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    read = json.loads(line, parse_constant=refuse)
    assert isinstance(read, dict)
    return read


def test_json_line_has_time_level_logger_message_and_fields() -> None:
    line = as_json(logged("{connection} did {what}", connection="c000001", what="something", count=3))
    assert line == {
        "time": "2025-06-15T15:06:40.123Z",
        "level": "info",
        "logger": "rtmprelay.test",
        "message": "c000001 did something",
        "connection": "c000001",
        "what": "something",
        "count": 3,
    }


def test_json_line_of_a_relay_event_has_its_fields() -> None:
    captured = Captured()
    event = ConnectionClosed(
        connection="c000001",
        peer="192.0.2.1:5",
        reason="why",
        limit=None,
        duration=1.5,
        bytes_in=1,
        bytes_out=2,
    )
    bus = EventBus()
    bus.add_sink(LogSink())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rtmprelay.event_bus._event_log", Logger(namespace="rtmprelay", observer=captured))
        bus.publish(event)
    (log_event,) = captured.events
    line = as_json(log_event)
    assert line["event"] == "connection_closed"
    assert line["message"] == "Connection c000001 closed after 1.5 s: why"
    assert (line["limit"], line["duration"], line["bytes_out"]) == (None, 1.5, 2)


def test_failure_is_logged_with_its_traceback() -> None:
    captured = Captured()
    try:
        raise ZeroDivisionError("planted\nin two lines")
    except ZeroDivisionError:
        Logger(observer=captured).failure("It broke")
    (event,) = captured.events
    line = as_json(event)
    assert (line["level"], line["message"]) == ("critical", "It broke")
    assert "ZeroDivisionError: planted" in line["traceback"]
    assert "test_failure_is_logged_with_its_traceback" in line["traceback"]
    text = format_text(event)
    assert text is not None
    assert "ZeroDivisionError" in text


def test_failure_of_the_legacy_logging_is_logged_with_its_traceback() -> None:
    event: LogEvent = {
        "log_time": 0.0,
        "log_level": LogLevel.critical,
        "log_namespace": "log_legacy",
        "log_failure": Failure(ValueError("old")),
        "isError": 1,
        "why": None,
        "message": (),
    }
    assert "ValueError: old" in as_json(event)["traceback"]


class Unprintable:
    """A value whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Shown:
    """A value that has no form in JSON."""

    def __str__(self) -> str:
        return "shown"


def test_values_without_a_json_form_are_logged_as_text() -> None:
    line = as_json(logged("x", thing=Shown(), some={1: 2}, data=b"\xff", listed=(1, Shown())))
    assert line["thing"] == "shown"
    assert line["listed"] == [1, "shown"]
    assert line["data"] == "b'\\xff'"


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {("a", "b"): 1}, Unprintable(), [Unprintable()]]
)
def test_values_that_json_cannot_encode_still_give_a_line(value: object) -> None:
    line = as_json(logged("text", value=value))
    assert line["message"] == "text"
    assert isinstance(line["value"], str | list)


def test_value_that_contains_itself_still_gives_a_line() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert as_json(logged("text", value=endless))["message"] == "text"


def test_surrogates_and_separators_survive_in_json_and_are_escaped_in_text() -> None:
    name = "cam\ud800\u2028\x00\x1b[31m\n"
    assert as_json(logged("{name}", name=name))["name"] == name
    text = format_text(logged("{name}", name=name))
    assert text is not None
    assert text.encode("utf-8")


def test_event_field_cannot_replace_level_logger_message_or_time() -> None:
    event = logged("text")
    event.update({"level": "forged", "logger": "forged", "message": "forged", "time": "forged"})
    line = as_json(event)
    assert "forged" not in line.values()


@pytest.mark.parametrize(
    "name",
    [
        "x\n2026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\r2026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\r\n2026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\x852026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\u20282026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\x0b2026-01-01T00:00:00+0000 [rtmprelay#info] forged",
        "x\x1b[2K2026-01-01T00:00:00+0000 [rtmprelay#info] forged",
    ],
)
def test_client_name_cannot_forge_a_log_line(name: str) -> None:
    event = ClientConnected(connection="c000001", peer="x:1", app="live", client=name)
    text = format_text(logged(event.sentence, **event.fields()))
    assert text is not None
    lines = text.splitlines()
    assert lines[0].startswith("2025-06-15T")
    assert not any(line.startswith("2026-01-01T") for line in lines)
    assert "\x1b" not in text
    assert "\r" not in text


def test_text_line_keeps_umlauts() -> None:
    text = format_text(logged("Grüße von {who}", who="c000001"))
    assert text is not None
    assert text.endswith("[rtmprelay.test#info] Grüße von c000001\n")
    assert format_text({}) is None


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", "d i w e c"), ("info", "i w e c"), ("warn", "w e c"), ("error", "e c")],
)
@pytest.mark.parametrize("log_format", FORMATS)
def test_lines_below_the_log_level_are_dropped(level: str, shown: str, log_format: str) -> None:
    out = io.StringIO()
    log = Logger(namespace="n", observer=make_observer(out, level, log_format))
    log.debug("d")
    log.info("i")
    log.warn("w")
    log.error("e")
    log.critical("c")
    lines = out.getvalue().splitlines()
    found = [json.loads(line)["message"] if log_format == "json" else line[-1] for line in lines]
    assert found == shown.split()
    assert set(LEVELS) == {"debug", "info", "warn", "error"}


def test_failures_are_logged_as_warnings() -> None:
    """An operator with --log-level warn sees them."""
    failures = {kind.name for kind in event_types() if kind.level == "warn"}
    assert {
        "destination_failed",
        "recording_failed",
        "connection_refused",
    } <= failures
    captured = Captured()
    globalLogPublisher.addObserver(captured)
    try:
        failed = DestinationFailed(destination="d", stream="live/a", error_class="network", reason="gone")
        LogSink().event_happened(0.0, failed)
    finally:
        globalLogPublisher.removeObserver(captured)
    (event,) = captured.events
    assert event["log_level"] is LogLevel.warn
