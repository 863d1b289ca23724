"""Every event as a line in one file, which somebody else may move away."""

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
from rtmprelay.events import ServerStarted, ServerStopped
from rtmprelay.hooks.append_file import AppendFile, open_for_appending
from rtmprelay.hooks.event_choice import chosen_events
from rtmprelay.hooks.jsonl import JsonlHook, make_jsonl
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

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            self.hook.event_happened(NOON, started(number))

    def write(self) -> None:
        """The thread does its work."""
        writer = self.hook.event_log.writer
        assert writer is not None
        writer.work()

    def streams(self, path: Path | None = None) -> list[Any]:
        return [json.loads(line)["stream"] for line in (path or self.path).read_text().splitlines()]

    def lines(self) -> list[str]:
        return self.log.lines

    def test_lines(self) -> None:
        self.hook.event_happened(NOON, BEGIN)
        self.tell(1)
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

    def test_only_those_that_are_wanted(self) -> None:
        self.hook = self.make("publish_*")
        self.hook.event_happened(NOON, BEGIN)
        self.hook.event_happened(NOON, watched())
        self.tell(1)
        self.write()
        assert self.streams() == ["live/1"]

    def test_what_was_there_stays(self) -> None:
        self.path.write_text('{"stream": "old"}\n')
        self.tell(1)
        self.write()
        assert self.streams() == ["old", "live/1"]

    def test_a_line_that_a_crash_tore_spoils_no_other(self) -> None:
        self.path.write_text('{"stream": "old"}\n{"strea')
        self.tell(1)
        self.write()
        lines = self.path.read_text().splitlines()
        assert lines[1] == '{"strea'
        assert json.loads(lines[2])["stream"] == "live/1"

    def test_nothing_is_done_to_a_file_that_gets_no_line(self) -> None:
        self.path.write_text("precious")
        self.write_nothing()
        assert self.path.read_text() == "precious"

    def write_nothing(self) -> None:
        hook = self.make("play_*")
        hook.event_happened(NOON, started(1))
        hook.stopService()

    def test_a_file_that_was_moved_away(self) -> None:
        """logrotate renames it; with a signal or without, the next line begins a new file."""
        self.tell(1)
        self.write()
        self.path.rename(self.folder / "events.jsonl.1")
        self.tell(2)
        self.write()
        assert self.streams() == ["live/2"]
        assert self.streams(self.folder / "events.jsonl.1") == ["live/1"]

    def test_a_file_that_was_replaced_by_an_empty_one(self) -> None:
        """As logrotate does with `create`."""
        self.tell(1)
        self.write()
        self.path.rename(self.folder / "events.jsonl.1")
        self.path.touch()
        self.tell(2)
        self.write()
        assert self.streams() == ["live/2"]

    def test_a_signal_opens_it_again(self) -> None:
        self.tell(1)
        self.write()
        current = self.hook._current
        self.hook.reload()
        self.tell(2)
        self.write()
        assert self.hook._current is not current
        assert self.streams() == ["live/1", "live/2"]

    def test_a_signal_before_the_first_line(self) -> None:
        self.hook.reload()
        self.tell(1)
        self.write()
        assert self.streams() == ["live/1"]

    def test_a_file_that_was_deleted_or_emptied(self) -> None:
        self.tell(1)
        self.write()
        self.path.unlink()
        self.tell(2)
        self.write()
        assert self.streams() == ["live/2"]
        os.truncate(self.path, 0)
        self.tell(3)
        self.write()
        assert self.streams() == ["live/3"]

    def test_a_folder_that_cannot_be_written_loses_nothing_once_it_can(self) -> None:
        self.path.mkdir()
        self.tell(1)
        self.write()
        (line,) = self.lines()
        assert line == f"Events cannot be written to {self.path}: Is a directory"
        self.path.rmdir()
        self.clock.advance(2)
        self.tell(2)
        self.write()
        # That it failed is told there, too.
        assert self.streams() == ["live/1", None, "live/2"]

    def test_ten_thousand_events_for_a_disk_that_hangs(self) -> None:
        """There is no thread that writes here: they wait, within the bound."""
        self.tell(*range(10_000))
        assert self.hook.event_log.lost == 0
        self.tell(*range(200_000))
        lost = self.hook.event_log.lost
        assert lost > 0
        assert any("cannot keep up" in line for line in self.lines())
        assert self.hook.event_log._queue.size <= 16 * 1024 * 1024
        self.write()
        self.hook.event_log.tell_losses()
        self.write()
        assert json.loads(self.path.read_text().splitlines()[-1])["count"] == lost

    def test_the_end(self) -> None:
        self.tell(1)
        self.hook.event_happened(NOON, ServerStopped(instance="run-1", duration=1.0))
        self.successResultOf(self.hook.stopService())
        assert self.streams() == ["live/1", None]
        self.tell(2)
        self.hook.startService()
        self.tell(3)
        self.successResultOf(self.hook.stopService())
        assert self.streams() == ["live/1", None, "live/3"]

    def test_a_torn_line_is_cut_off_even_if_the_file_was_emptied_meanwhile(self) -> None:
        self.path.write_text("old\n")
        file = open_for_appending(self.path)
        assert isinstance(file, AppendFile)
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

    def test_arguments_that_cannot_be_used(self) -> None:
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
