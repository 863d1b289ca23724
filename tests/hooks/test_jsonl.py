"""Every event as a line in one file, which other programs may move away."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.errors import ConfigError
from rtmprelay.events import PublishStarted, ServerStarted, ServerStopped
from rtmprelay.hooks.event_queue import chosen_events
from rtmprelay.hooks.jsonl import JsonlHook, make_jsonl, open_for_appending
from tests.access.log_keeping import KeptLog
from tests.hooks.helpers import NOON, started, watched

BEGIN = ServerStarted(instance="run-1", version="1", host="h")


class JsonlTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "events.jsonl"
        self.clock = Clock()
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)
        self.hook = self.make()

    def make(self, *patterns: str) -> JsonlHook:
        hook = JsonlHook(self.path, chosen_events(patterns), self.clock, None)
        hook.startService()
        return hook

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.hook.event_happened(NOON, started(number))

    def write(self) -> None:
        """Do what the writer's thread does."""
        writer = self.hook.writer
        assert writer is not None
        writer.work()

    def streams(self, path: Path | None = None) -> list[Any]:
        return [json.loads(line)["stream"] for line in (path or self.path).read_text().splitlines()]

    def lines(self) -> list[str]:
        return self.log.lines

    def test_each_event_is_a_line_with_instance_and_number(self) -> None:
        self.hook.event_happened(NOON, BEGIN)
        self.send(1)
        self.write()
        first, second = [json.loads(line) for line in self.path.read_text().splitlines()]
        assert (first["event"], first["instance"], first["number"]) == ("server_started", "run-1", 1)
        assert second == {
            "time": "2026-11-16T12:00:00.000000Z",
            "event": "publish_started",
            "connection": "c000001",
            "stream": "live/1",
            "instance": "run-1",
            "number": 2,
        }

    def test_other_events_are_not_written(self) -> None:
        self.hook = self.make("publish_*")
        self.hook.event_happened(NOON, BEGIN)
        self.hook.event_happened(NOON, watched())
        self.send(1)
        self.write()
        assert self.streams() == ["live/1"]

    def test_lines_are_appended_to_an_existing_file(self) -> None:
        self.path.write_text('{"stream": "old"}\n')
        self.send(1)
        self.write()
        assert self.streams() == ["old", "live/1"]

    def test_a_torn_last_line_is_ended_before_the_next_one(self) -> None:
        self.path.write_text('{"stream": "old"}\n{"strea')
        self.send(1)
        self.write()
        lines = self.path.read_text().splitlines()
        assert lines[1] == '{"strea'
        assert json.loads(lines[2])["stream"] == "live/1"

    def test_a_file_that_gets_no_line_is_not_touched(self) -> None:
        self.path.write_text("precious")
        hook = self.make("play_*")
        hook.event_happened(NOON, started(1))
        self.successResultOf(hook.stopService())
        assert self.path.read_text() == "precious"

    def test_a_renamed_file_is_followed_by_a_new_one(self) -> None:
        """As logrotate does; no signal is needed."""
        self.send(1)
        self.write()
        self.path.rename(self.folder / "events.jsonl.1")
        self.send(2)
        self.write()
        assert self.streams() == ["live/2"]
        assert self.streams(self.folder / "events.jsonl.1") == ["live/1"]

    def test_a_replaced_file_gets_the_next_line(self) -> None:
        """As logrotate does with `create`."""
        self.send(1)
        self.write()
        self.path.rename(self.folder / "events.jsonl.1")
        self.path.touch()
        self.send(2)
        self.write()
        assert self.streams() == ["live/2"]

    def test_a_reload_opens_the_file_again(self) -> None:
        self.send(1)
        self.write()
        current = self.hook._current
        self.hook.reload()
        self.send(2)
        self.write()
        assert self.hook._current is not current
        assert self.streams() == ["live/1", "live/2"]

    def test_a_reload_before_the_first_line_does_nothing(self) -> None:
        self.hook.reload()
        self.send(1)
        self.write()
        assert self.streams() == ["live/1"]

    def test_a_deleted_or_emptied_file_gets_the_next_line(self) -> None:
        self.send(1)
        self.write()
        self.path.unlink()
        self.send(2)
        self.write()
        assert self.streams() == ["live/2"]
        os.truncate(self.path, 0)
        self.send(3)
        self.write()
        assert self.streams() == ["live/3"]

    def test_lines_wait_for_a_path_that_cannot_be_written(self) -> None:
        self.path.mkdir()
        self.send(1)
        self.write()
        (line,) = self.lines()
        assert line == f"Events cannot be written to {self.path}: Is a directory"
        self.path.rmdir()
        self.clock.advance(2)
        self.send(2)
        self.write()
        # The failure itself is an event too.
        assert self.streams() == ["live/1", None, "live/2"]

    def test_lines_beyond_16_mib_are_lost_counted_and_reported(self) -> None:
        """No thread writes here: the lines wait."""
        self.send(*range(10_000))
        writer = self.hook.writer
        assert writer is not None
        assert writer.lost == 0
        large = PublishStarted(connection="c000001", stream="live/" + "x" * 2000)
        for _ in range(20_000):
            self.hook.event_happened(NOON, large)
        lost = writer.lost
        assert lost > 0
        assert writer._queue.size <= 16 * 1024 * 1024
        self.write()
        assert self.lines() == [
            f"The disk of {self.path} cannot keep up: events are lost from now on, and counted",
            f"{lost} events are not in {self.path}: its disk could not keep up",
        ]
        self.write()
        assert json.loads(self.path.read_text().splitlines()[-1])["count"] == lost

    def test_a_stop_writes_everything_and_a_new_start_appends(self) -> None:
        self.send(1)
        self.hook.event_happened(NOON, ServerStopped(instance="run-1", duration=1.0))
        self.successResultOf(self.hook.stopService())
        assert self.streams() == ["live/1", None]
        self.send(2)
        self.hook.startService()
        self.send(3)
        self.successResultOf(self.hook.stopService())
        assert self.streams() == ["live/1", None, "live/3"]

    def test_a_torn_line_is_removed_even_if_the_file_was_emptied_meanwhile(self) -> None:
        self.path.write_text("old\n")
        file = open_for_appending(self.path)
        file.append(b"whole\n")
        file.append(b"tor")
        file.truncate(6)
        assert self.path.read_text() == "old\nwhole\n"
        os.truncate(self.path, 0)
        file.append(b"tor")
        file.truncate(6)
        assert self.path.read_text() == ""
        file.delete()
        assert self.path.exists()
        file.close()

    def test_unusable_arguments_are_refused_with_the_reason(self) -> None:
        reactor: Any = Clock()
        for argument, message in (
            ("", "the name of the file is missing"),
            (str(self.folder), "is a folder: the name of a file is expected"),
            (f"{self.folder}/no/file", "does not exist"),
            (f"{self.path}#events=none", "there is no event 'none'"),
            (f"{self.path}#timeout=1", "unknown option 'timeout'; known options: events"),
        ):
            with self.assertRaises(ConfigError) as caught:
                make_jsonl(argument, reactor)
            assert message in str(caught.exception)
