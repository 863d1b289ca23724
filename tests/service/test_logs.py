"""Log lines for machines and for people, whatever a peer calls itself."""

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
class Caught:
    """Keeps log events."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)


def logged(sentence: str, **fields: object) -> LogEvent:
    """A log event as Twisted makes it."""
    caught = Caught()
    Logger(namespace="rtmprelay.test", observer=caught).info(sentence, **fields)
    (event,) = caught.events
    event["log_time"] = 1_750_000_000.1234
    return event


def as_json(event: LogEvent) -> dict[str, Any]:
    """The line, read back; it must be one line and strict JSON."""
    line = format_json(event)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert line.isascii()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    read = json.loads(line, parse_constant=refuse)
    assert isinstance(read, dict)
    return read


def test_a_line_of_json() -> None:
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


def test_an_event_of_the_relay_keeps_its_fields() -> None:
    caught = Caught()
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
        patch.setattr("rtmprelay.event_bus._event_log", Logger(namespace="rtmprelay", observer=caught))
        bus.publish(event)
    (log_event,) = caught.events
    line = as_json(log_event)
    assert line["event"] == "connection_closed"
    assert line["message"] == "Connection c000001 closed after 1.5 s: why"
    assert (line["limit"], line["duration"], line["bytes_out"]) == (None, 1.5, 2)


def test_a_failure_has_its_traceback() -> None:
    caught = Caught()
    try:
        raise ZeroDivisionError("planted\nin two lines")
    except ZeroDivisionError:
        Logger(observer=caught).failure("It broke")
    (event,) = caught.events
    line = as_json(event)
    assert (line["level"], line["message"]) == ("critical", "It broke")
    assert "ZeroDivisionError: planted" in line["traceback"]
    assert "test_a_failure_has_its_traceback" in line["traceback"]
    text = format_text(event)
    assert text is not None
    assert "ZeroDivisionError" in text


def test_a_failure_of_the_old_logging() -> None:
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


class Stubborn:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Shown:
    """A value that JSON does not know."""

    def __str__(self) -> str:
        return "shown"


def test_values_that_json_does_not_know() -> None:
    line = as_json(logged("x", thing=Shown(), some={1: 2}, data=b"\xff", listed=(1, Shown())))
    assert line["thing"] == "shown"
    assert line["listed"] == [1, "shown"]
    assert line["data"] == "b'\\xff'"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {("a", "b"): 1}, Stubborn(), [Stubborn()]])
def test_values_that_no_json_can_hold_still_give_a_line(value: object) -> None:
    line = as_json(logged("told", value=value))
    assert line["message"] == "told"
    assert isinstance(line["value"], str | list)


def test_a_value_that_holds_itself() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert as_json(logged("told", value=endless))["message"] == "told"


def test_surrogates_and_separators() -> None:
    name = "cam\ud800\u2028\x00\x1b[31m\n"
    assert as_json(logged("{name}", name=name))["name"] == name
    text = format_text(logged("{name}", name=name))
    assert text is not None
    text.encode("utf-8")


def test_a_field_cannot_stand_in_for_what_the_line_is_about() -> None:
    event = logged("told")
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
def test_nobody_forges_a_line(name: str) -> None:
    event = ClientConnected(connection="c000001", peer="x:1", app="live", client=name)
    text = format_text(logged(event.sentence, **event.fields()))
    assert text is not None
    lines = text.splitlines()
    assert lines[0].startswith("2025-06-15T")
    assert not any(line.startswith("2026-01-01T") for line in lines)
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_plain_line_of_text() -> None:
    text = format_text(logged("Grüße von {who}", who="c000001"))
    assert text is not None
    assert text.endswith("[rtmprelay.test#info] Grüße von c000001\n")
    assert format_text({}) is None


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", "d i w e c"), ("info", "i w e c"), ("warn", "w e c"), ("error", "e c")],
)
@pytest.mark.parametrize("log_format", FORMATS)
def test_levels(level: str, shown: str, log_format: str) -> None:
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


def test_trouble_is_logged_as_a_warning() -> None:
    """With --log-level warn an operator still hears of what does not work."""
    trouble = {kind.name for kind in event_types() if kind.level == "warn"}
    assert {"destination_failed", "destination_given_up", "recording_failed", "connection_refused"} <= trouble
    caught = Caught()
    globalLogPublisher.addObserver(caught)
    try:
        failed = DestinationFailed(destination="d", stream="live/a", error_class="network", reason="gone")
        LogSink().event_happened(0.0, failed)
    finally:
        globalLogPublisher.removeObserver(caught)
    (event,) = caught.events
    assert event["log_level"] is LogLevel.warn
