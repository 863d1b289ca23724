"""Profiles, and the cost of single steps."""

from __future__ import annotations

import os

import pytest

from rtmprelay.bench import profiling, steps

STACKS = """\
main (a.py:1);send (b.py:7) 6
main (a.py:1);send (b.py:8) 1
main (a.py:1);read (c.py:3);<module> (b.py:9) 1
main (a.py:1) 2
"""


def test_profile_counts_the_innermost_line() -> None:
    assert profiling.by_place(STACKS) == [
        (0.6, "send (b.py:7)"),
        (0.2, "main (a.py:1)"),
        (0.1, "send (b.py:8)"),
        (0.1, "<module> (b.py:9)"),
    ]


def test_profile_adds_up_lines_by_file() -> None:
    assert [(round(share, 3), part) for share, part in profiling.by_part(STACKS)] == [
        (0.8, "b.py"),
        (0.2, "a.py"),
    ]


def test_profile_as_text_lists_files_and_lines() -> None:
    text = profiling.as_text(STACKS)
    assert text.splitlines()[0] == " 80.0%  b.py"
    assert "nothing" in profiling.as_text("\n")


def test_second_of_media_has_all_frames_in_order() -> None:
    """As many frames as the stream has, in order."""
    frames = steps.a_second_of_media()
    assert len(frames) == 30 + 43
    assert [frame.timestamp_ms for frame in frames] == sorted(frame.timestamp_ms for frame in frames)


def test_steps_print_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step does its work and takes some time; how much is not for a test to judge."""
    monkeypatch.setattr(steps, "_REPEATS", 1)
    frames = steps.a_second_of_media()
    found = [*steps.reading_steps(frames), *steps.stream_steps(frames), *steps.delivery_steps(frames)]
    assert len(found) == 8
    assert all(step.microseconds > 0 for step in found)


def test_sleeping_receivers_measure_a_send() -> None:
    """The work between two sends is done at each, and the child that reads ends with the connections."""
    receivers = steps.SleepingReceivers(2)
    between: list[None] = []
    try:
        cost = receivers.cost_of_sending(1000, lambda: between.append(None), rounds=2)
    finally:
        receivers.close()
    assert isinstance(cost, float)
    # Two rounds with the send and two without, to two receivers each.
    assert len(between) == 8
    assert all(one.fileno() == -1 for one in receivers.sockets)
    with pytest.raises(ChildProcessError):
        os.waitpid(receivers._child, os.WNOHANG)
