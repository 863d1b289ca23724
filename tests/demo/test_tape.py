"""What was sent against what arrived: every difference is reported."""

from __future__ import annotations

import pytest

from rtmprelay.demo.tape import SPOILED_MESSAGE, ReceivedTape, SentTape, SpoiledTape
from rtmprelay.media import MediaFrame, MediaKind
from tests.helpers import audio, audio_header, group, inter, keyframe, metadata, start_frames

SENT = [*start_frames(), *group(0)]


def sent_tape(frames: list[MediaFrame] = SENT) -> SentTape:
    tape = SentTape()
    for number, frame in enumerate(frames):
        tape.add(frame, number / 100)
    return tape


def received(frames: list[MediaFrame], later: float = 0.005) -> ReceivedTape:
    tape = ReceivedTape("player", sent_tape())
    for number, frame in enumerate(frames):
        tape.add(frame, number / 100 + later)
    return tape


def test_identical_messages_have_no_problem() -> None:
    tape = received(SENT)
    assert tape.problem() is None
    assert tape.is_complete
    assert tape.messages == len(SENT) - 1, "metadata is not counted"
    assert tape.digest == sent_tape().digest
    assert tape.bytes == sum(len(frame.payload) for frame in SENT[1:])


def test_latency_counts_from_sending() -> None:
    tape = received(SENT, later=0.25)
    assert tape.latency == pytest.approx(0.25)
    assert tape.worst_latency == pytest.approx(0.25)
    assert tape.recent_worst_latency == pytest.approx(0.25)


def test_messages_from_a_file_have_no_latency() -> None:
    tape = ReceivedTape("recording", sent_tape())
    for frame in SENT:
        tape.add(frame, None)
    assert tape.problem() is None
    assert (tape.latency, tape.worst_latency, tape.recent_worst_latency) == (None, None, None)


def changed(number: int, frame: MediaFrame) -> list[MediaFrame]:
    return [*SENT[:number], frame, *SENT[number + 1 :]]


@pytest.mark.parametrize(
    ("came", "problem"),
    [
        ([], "got nothing"),
        (SENT[:-2], "lacks 2 messages at the end, from message 11 (video at 0.160 s) on"),
        ([*SENT, audio(999)], "got more than was sent: audio at 0.999 s after the last message"),
        (
            changed(3, keyframe(0, size=41)),
            "differs from message 3 (video at 0.000 s) on: the payload is different",
        ),
        (
            changed(3, MediaFrame(MediaKind.VIDEO, 1, SENT[3].payload)),
            "differs from message 3 (video at 0.000 s) on: video at 0.001 s came instead",
        ),
        (
            [SENT[0], SENT[2], SENT[1], *SENT[3:]],
            "differs from message 1 (video at 0.000 s) on: decoder configuration (audio at 0.000 s) came instead",
        ),
        (
            [*SENT[:5], *SENT[6:]],
            "differs from message 5 (video at 0.040 s) on: audio at 0.040 s came instead",
        ),
        (
            [*SENT[:2], audio_header(b"\x11\x90"), *SENT[3:]],
            "differs from message 2 (audio at 0.000 s) on: the payload is different",
        ),
        ([metadata(width=640.0), *SENT[1:]], "got other metadata: width"),
        (SENT[1:], "got other metadata: width"),
    ],
    ids=[
        "nothing",
        "an end that is missing",
        "too much",
        "a payload",
        "a timestamp",
        "an order",
        "a hole",
        "a configuration",
        "metadata",
        "no metadata",
    ],
)
def test_every_difference_is_reported(came: list[MediaFrame], problem: str) -> None:
    assert received(came).problem() == problem


def test_additional_metadata_is_no_problem() -> None:
    assert received([metadata(width=1280.0, duration=3.0), *SENT[1:]]).problem() is None


def test_only_the_first_difference_is_reported() -> None:
    tape = received([SENT[1], inter(77), inter(78)])
    assert tape.difference == "differs from message 2 (audio at 0.000 s) on: video at 0.077 s came instead"


def test_spoiled_tape_differs_in_one_message() -> None:
    tape = SpoiledTape("player", sent_tape())
    for frame in SENT:
        tape.add(frame, None)
    problem = tape.problem()
    assert problem is not None
    assert problem.startswith(f"differs from message {SPOILED_MESSAGE} ")
    assert problem.endswith("the payload is different")
