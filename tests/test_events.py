"""Events and the bus that delivers them."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import get_args

import attrs
import pytest
from twisted.logger import capturedLogs
from zope.interface import implementer

import rtmprelay
from rtmprelay.event_bus import EventBus
from rtmprelay.events import AnyEvent, Event, ServerAlive, event_types
from rtmprelay.interfaces import IEventSink
from tests.helpers import EventList


@pytest.mark.parametrize("kind", event_types(), ids=lambda kind: kind.name)
def test_every_event_belongs_to_exactly_one_group_of_the_union(kind: type[Event]) -> None:
    assert sum(issubclass(kind, group) for group in get_args(AnyEvent)) == 1


@pytest.mark.parametrize("kind", event_types(), ids=lambda kind: kind.name)
def test_every_sentence_is_filled_from_the_fields_of_its_event(kind: type[Event]) -> None:
    used = {name for _, name, _, _ in Formatter().parse(kind.sentence) if name is not None}
    assert used <= {field.name for field in attrs.fields(kind)}


def test_event_names_are_unique() -> None:
    names = [kind.name for kind in event_types()]
    assert len(names) == len(set(names)) > 30


def test_dashboard_handles_only_events_that_exist() -> None:
    scripts = Path(rtmprelay.__file__).parent / "web" / "page" / "dashboard"
    text = (scripts / "event_list.js").read_text() + (scripts / "dashboard.js").read_text()
    routine = re.findall(r'"(\w+)"', text.partition("new Set([")[2].partition("]")[0])
    compared = re.findall(r'(?:event\.event|\(name) === "(\w+)"', text)
    assert len(routine) >= 10
    assert "publish_stopped" in compared
    assert {*routine, *compared} <= {kind.name for kind in event_types()}


@implementer(IEventSink)
class FailingSink:
    def event_happened(self, time: float, event: AnyEvent) -> None:
        raise RuntimeError("a bug in a sink")


def test_a_failing_sink_is_logged_and_the_other_sinks_still_get_the_event() -> None:
    bus = EventBus()
    after = EventList()
    bus.add_sink(FailingSink())
    bus.add_sink(after)
    with capturedLogs() as logged:
        bus.publish(ServerAlive())
    assert after.events == [ServerAlive()]
    assert [line["log_failure"].getErrorMessage() for line in logged] == ["a bug in a sink"]
