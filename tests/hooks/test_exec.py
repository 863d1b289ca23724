"""A program for each event: a few at once, for a limited time, and without the relay's secrets."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.errors import ConfigError
from rtmprelay.events import PlayStopped, PublishStopped
from rtmprelay.hooks.event_queue import chosen_events
from rtmprelay.hooks.exec_hook import GRACE, STOP_TIMEOUT, ExecHook, ExecSettings, make_exec_hook
from rtmprelay.hooks.program import Program, environment
from tests.access.log_keeping import KeptLog
from tests.hooks.helpers import NOON, started, watched


class FakeProgram:
    """A program that ends when the test fires `ended`."""

    def __init__(self, path: str, variables: Mapping[str, str]) -> None:
        self.path = path
        self.variables = variables
        self.signals: list[str] = []
        self.ended: Deferred[str | None] = Deferred()

    def run(self) -> str | None:
        raise AssertionError("there is no thread here")

    def terminate(self) -> None:
        self.signals.append("end")

    def kill(self) -> None:
        self.signals.append("kill")


class ExecTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.programs: list[FakeProgram] = []
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)
        self.make()

    def make(self, start: bool = True, **settings: Any) -> None:
        chosen = ExecSettings(**{"events": chosen_events([]), "program": "/bin/it", **settings})
        self.hook = ExecHook(chosen, self.clock, self.in_thread, self.make_program)
        if start:
            self.hook.startService()

    def make_program(self, path: str, variables: Mapping[str, str]) -> FakeProgram:
        self.programs.append(FakeProgram(path, variables))
        return self.programs[-1]

    def in_thread(self, function: Callable[[], str | None]) -> Deferred[str | None]:
        program = self.programs[-1]
        assert function == program.run
        return program.ended

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.hook.event_happened(NOON, started(number))

    def lines(self) -> list[str]:
        return self.log.lines

    def test_a_program_gets_the_event_in_its_environment(self) -> None:
        self.send(1)
        (program,) = self.programs
        assert program.path == "/bin/it"
        assert program.variables["RTMPRELAY_EVENT"] == "publish_started"
        assert program.variables["RTMPRELAY_STREAM"] == "live/1"
        program.ended.callback(None)
        assert not self.clock.getDelayedCalls()
        assert self.lines() == []

    def test_other_events_start_no_program(self) -> None:
        self.make(events=chosen_events(["publish_started"]))
        self.hook.event_happened(NOON, watched())
        assert self.programs == []

    def test_four_programs_run_at_once_and_the_next_one_starts_when_one_ends(self) -> None:
        self.send(*range(10))
        assert len(self.programs) == 4
        self.programs[2].ended.callback(None)
        assert [program.variables["RTMPRELAY_STREAM"] for program in self.programs] == [
            f"live/{number}" for number in range(5)
        ]

    def test_events_before_the_start_wait_for_it(self) -> None:
        self.make(start=False)
        self.send(1)
        assert self.programs == []
        self.hook.startService()
        assert len(self.programs) == 1

    def test_a_program_over_its_timeout_is_terminated_then_killed(self) -> None:
        self.make(timeout=5.0)
        self.send(1)
        (program,) = self.programs
        self.clock.advance(4.9)
        assert program.signals == []
        self.clock.advance(0.2)
        assert program.signals == ["end"]
        self.clock.advance(GRACE)
        assert program.signals == ["end", "kill"]
        program.ended.callback("it was ended by signal 9")
        assert self.lines() == [
            "/bin/it failed for publish_started: it was ended by signal 9 (0 more since the last report)"
        ]

    def test_failures_are_logged_once_in_ten_seconds_with_their_count(self) -> None:
        for number in range(100):
            self.send(number)
            self.programs[-1].ended.callback("it ended with status 1")
        assert len(self.log) == 1
        self.clock.advance(11)
        self.send(1)
        self.programs[-1].ended.callback("it ended with status 1")
        assert "(99 more since the last report)" in self.lines()[1]

    def test_a_program_that_hangs_costs_the_oldest_of_ten_thousand_events(self) -> None:
        began = time.thread_time()
        self.send(*range(10_000))
        # Some microseconds each; of our own time, whatever else the machine does.
        assert time.thread_time() - began < 2.0
        assert len(self.programs) == 4
        assert len(self.hook._queue) == 1000
        assert self.hook._queue.lost == 8996
        assert len(self.log) == 1
        # The newest are kept.
        self.programs[0].ended.callback(None)
        assert self.programs[-1].variables["RTMPRELAY_STREAM"] == "live/9000"

    # -- the end ---------------------------------------------------------------------------------------------

    def test_an_idle_hook_stops_at_once_and_runs_nothing_any_more(self) -> None:
        self.send(1)
        self.programs[0].ended.callback(None)
        self.successResultOf(self.hook.stopService())
        self.send(2)
        assert len(self.programs) == 1
        assert not self.clock.getDelayedCalls()
        assert self.lines() == []

    def test_a_stop_waits_for_the_programs_of_waiting_events(self) -> None:
        self.send(*range(6))
        stopped = self.hook.stopService()
        self.assertNoResult(stopped)
        for number in range(6):
            self.programs[number].ended.callback(None)
        self.successResultOf(stopped)
        assert not self.clock.getDelayedCalls()

    def test_a_stop_terminates_and_kills_programs_that_take_too_long(self) -> None:
        self.send(*range(6))
        stopped = self.hook.stopService()
        self.clock.advance(STOP_TIMEOUT)
        assert all(program.signals == ["end"] for program in self.programs)
        assert "2 events were not sent to /bin/it: the relay stops" in self.lines()[0]
        self.clock.advance(GRACE / 2)
        assert all(program.signals == ["end", "kill"] for program in self.programs)
        for program in self.programs:
            program.ended.callback("it was ended by signal 9")
        self.successResultOf(stopped)
        assert len(self.programs) == 4
        assert not self.clock.getDelayedCalls()

    def test_a_program_that_cannot_be_killed_does_not_hold_up_the_stop(self) -> None:
        self.send(1)
        stopped = self.hook.stopService()
        self.clock.advance(STOP_TIMEOUT)
        self.clock.advance(GRACE / 2)
        self.assertNoResult(stopped)
        self.clock.advance(GRACE / 2)
        self.successResultOf(stopped)
        (program,) = self.programs
        assert program.signals == ["end", "kill"]
        # It ends after all, when nobody waits for it any more.
        program.ended.callback("it was ended by signal 9")
        assert not self.clock.getDelayedCalls()


# -- the environment ----------------------------------------------------------------------------------------


def test_each_field_of_an_event_is_a_variable() -> None:
    event = PublishStopped(
        connection="c000001", stream="live/a", reason="gone", clean=False, duration=1.5, messages=7, bytes=8
    )
    assert environment(NOON, event, {}) == {
        "RTMPRELAY_EVENT": "publish_stopped",
        "RTMPRELAY_TIME": "2026-11-16T12:00:00.000000Z",
        "RTMPRELAY_CONNECTION": "c000001",
        "RTMPRELAY_STREAM": "live/a",
        "RTMPRELAY_REASON": "gone",
        "RTMPRELAY_CLEAN": "0",
        "RTMPRELAY_DURATION": "1.5",
        "RTMPRELAY_MESSAGES": "7",
        "RTMPRELAY_BYTES": "8",
    }


def test_a_field_with_several_values_is_json() -> None:
    event = PlayStopped(
        connection="c",
        stream="s",
        duration=1.0,
        messages=1,
        bytes=1,
        dropped=2,
        dropped_by_reason={"slow": 2},
    )
    assert environment(NOON, event, {})["RTMPRELAY_DROPPED_BY_REASON"] == '{"slow": 2}'


def test_programs_do_not_inherit_the_keys_in_the_relays_environment() -> None:
    own = {"PATH": "/bin", "RTMPRELAY_HTTP_TOKEN": "MARKED", "YOUTUBE_KEY": "MARKED", "LD_PRELOAD": "MARKED"}
    variables = environment(NOON, started(), own)
    assert variables["PATH"] == "/bin"
    assert "MARKED" not in repr(variables)


def test_characters_that_no_variable_can_hold_are_replaced() -> None:
    event = started()
    odd = type(event)(connection="c\0d\n\x1b[2J", stream="\ud800" + "x" * 100_000)
    variables = environment(NOON, odd, {})
    assert variables["RTMPRELAY_CONNECTION"] == "c?d??[2J"
    assert len(variables["RTMPRELAY_STREAM"]) <= 8192
    assert all("\0" not in value and value.encode() for value in variables.values())


# -- real programs, without a reactor ------------------------------------------------------------------------------


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def run_in_thread(program: Program) -> tuple[threading.Thread, list[str | None]]:
    outcome: list[str | None] = []
    thread = threading.Thread(target=lambda: outcome.append(program.run()), daemon=True)
    thread.start()
    return thread, outcome


def wait_for(path: Path, within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def test_a_real_program_gets_its_environment_and_no_open_files(tmp_path: Path) -> None:
    program = Program(
        script(
            tmp_path, f"env > {tmp_path}/env; ls -l /proc/self/fd > {tmp_path}/fd; echo noise; echo noise >&2"
        ),
        {"PATH": "/usr/bin:/bin", "RTMPRELAY_EVENT": "x y; touch /tmp/never"},
    )
    assert program.run() is None
    lines = (tmp_path / "env").read_text().splitlines()
    assert "RTMPRELAY_EVENT=x y; touch /tmp/never" in lines
    assert {line.partition("=")[0] for line in lines} <= {
        "PATH",
        "RTMPRELAY_EVENT",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    }
    described = (tmp_path / "fd").read_text()
    assert described.count("/dev/null") == 2
    assert "socket" not in described


@pytest.mark.parametrize(
    ("text", "problem"), [("exit 3", "it ended with status 3"), ("kill -9 $$", "it was ended by signal 9")]
)
def test_the_status_or_signal_of_a_failed_program_is_reported(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert Program(script(tmp_path, text), {}).run() == problem


def test_a_program_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    assert Program("/nowhere/program", {}).run() == "it cannot be started: No such file or directory"
    path = script(tmp_path, "")
    Path(path).write_text("#!/nowhere/interpreter\n")
    assert (Program(path, {}).run() or "").startswith("it cannot be started: ")


def test_terminating_a_program_ends_its_children(tmp_path: Path) -> None:
    text = f"sleep 60 & echo $! > {tmp_path}/child.tmp; mv {tmp_path}/child.tmp {tmp_path}/child; wait"
    program = Program(script(tmp_path, text), {"PATH": "/usr/bin:/bin"})
    thread, outcome = run_in_thread(program)
    wait_for(tmp_path / "child")
    child = int((tmp_path / "child").read_text())
    program.terminate()
    thread.join(10)
    assert outcome == ["it was ended by signal 15"]
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "what the program started lives on"
        time.sleep(0.01)


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    text = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    program = Program(script(tmp_path, text), {"PATH": "/usr/bin:/bin"})
    thread, outcome = run_in_thread(program)
    wait_for(tmp_path / "ready")
    program.terminate()
    assert outcome == []
    program.kill()
    thread.join(10)
    assert outcome == ["it was ended by signal 9"]


def test_a_program_that_is_terminated_before_its_start_never_runs(tmp_path: Path) -> None:
    program = Program(script(tmp_path, f"touch {tmp_path}/ran"), {"PATH": "/usr/bin:/bin"})
    program.terminate()
    assert program.run() == "it was not started"
    assert not (tmp_path / "ran").exists()


# -- arguments -----------------------------------------------------------------------------------------------------


def test_all_options_are_read_from_the_argument(tmp_path: Path) -> None:
    reactor: Any = Clock()
    path = script(tmp_path, "")
    settings = make_exec_hook(f"publish_*,play_started={path}#timeout=5&at-once=1&queue=9", reactor)._settings
    assert settings.program == path
    assert settings.events == chosen_events(["publish_*", "play_started"])
    assert (settings.timeout, settings.at_once, settings.queue) == (5.0, 1, 9)
    assert make_exec_hook("publish_started=true", reactor)._settings.program.endswith("/true")


def test_unusable_arguments_are_refused_with_the_reason(tmp_path: Path) -> None:
    reactor: Any = Clock()
    plain = tmp_path / "plain"
    plain.write_text("")
    for argument, message in (
        ("", "EVENT=PROGRAM is expected"),
        ("publish_started", "EVENT=PROGRAM is expected"),
        ("=/bin/true", "EVENT=PROGRAM is expected"),
        ("publish_begun=/bin/true", "there is no event 'publish_begun'"),
        ("publish_started=/nowhere/x", "there is no program '/nowhere/x'"),
        ("publish_started=no-such-program-here", "there is no program 'no-such-program-here' in PATH"),
        (f"publish_started={tmp_path}", "there is no program"),
        (f"publish_started={plain}", "may not be executed: chmod +x would help"),
        ("publish_started=/bin/true#at-once=0", "the option at-once is '0'"),
    ):
        with pytest.raises(ConfigError) as caught:
            make_exec_hook(argument, reactor)
        assert message in str(caught.value)
