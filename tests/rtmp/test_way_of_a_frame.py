"""The way of one video frame: every function of ours that it takes from the server's `dataReceived` to the socket.

docs/relay-architecture.rst has the same way as a table. A change that needs more says why, there and here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType

import attrs
import pytest
from twisted.internet.task import Clock

import rtmprelay
from rtmprelay.clock import SteadyClock
from rtmprelay.streams.merging import Merging
from tests.helpers import audio, inter, keyframe, start_frames
from tests.rtmp.counted_server import CountedServer, CountedSocket, profile

#: From `dataReceived` to `send`.
MOST_CALLS = 15
MOST_CROSSINGS = 10

#: From `dataReceived` until it returns.
MOST_CALLS_IN_A_READ = 18

PACKAGE = Path(rtmprelay.__file__).parent

#: They are functions only in older Pythons, and called by the line that they are in.
NOT_CALLS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


def place(code: CodeType) -> str | None:
    """A function of ours as file:name; None for any other."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_name in NOT_CALLS:
        return None
    return f"{path.relative_to(PACKAGE)}:{code.co_name}"


@attrs.frozen
class Way:
    """The functions that were called, in order."""

    steps: list[str]

    def until_sent(self) -> Way:
        """Up to the first `send`."""
        return Way(self.steps[: self.steps.index("send")])

    def without_sends(self) -> Way:
        return Way([step for step in self.steps if step != "send"])

    @property
    def crossings(self) -> int:
        """How often the next function is in another module."""
        return sum(one.split(":")[0] != other.split(":")[0] for one, other in pairwise(self.steps))

    def __str__(self) -> str:
        lines = "\n".join(f"{number:3} {step}" for number, step in enumerate(self.steps, 1))
        return f"{len(self.steps)} calls, {self.crossings} changes of module:\n{lines}"


def way_of(action: Callable[[], object]) -> Way:
    """What is called from `dataReceived` until it returns."""
    steps: list[str] = []
    reading: FrameType | None = None

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal reading
        if event == "return" and frame is reading:
            reading = None
        if event != "call":
            return
        if frame.f_code is CountedSocket.send.__code__:
            steps.append("send")
            return
        step = place(frame.f_code)
        if step is not None and reading is None and frame.f_code.co_name == "dataReceived":
            reading = frame
        if step is not None and reading is not None:
            steps.append(step)

    profile(action, note)
    return Way(steps)


def frame_on_its_way(players: int = 1, together: int = 1, merging: bool = True) -> Way:
    """The way of inter frames that arrive in one read, of a stream that has been live for a while."""

    def make_merging(clock: Clock) -> Merging:
        return Merging(clock, 0.04)

    server = CountedServer(make_merging if merging else None)
    publisher = server.publisher()
    publisher.arrive(publisher.encoded(*start_frames(), keyframe(0)))
    for _ in range(players):
        server.player()
    for at in (40, 80, 120):
        publisher.arrive(publisher.encoded(inter(at), audio(at + 5)))
    data = publisher.encoded(*[inter(160 + 40 * number, 4300) for number in range(together)])
    way = way_of(lambda: publisher.arrive(data))
    assert way.steps.count("send") == players
    return way


@pytest.mark.parametrize("merging", [True, False])
def test_frame_takes_few_calls_to_a_player(merging: bool) -> None:
    way = frame_on_its_way(merging=merging).until_sent()
    assert len(way.steps) <= MOST_CALLS, str(way)
    assert way.crossings <= MOST_CROSSINGS, str(way)


def test_asking_for_the_time_is_no_call_of_ours() -> None:
    """The tests above have a clock that stands still; a server has this one."""
    assert isinstance(SteadyClock(Clock()).seconds, BuiltinFunctionType)


def test_read_takes_little_more_than_the_way_of_its_frame() -> None:
    way = frame_on_its_way().without_sends()
    assert len(way.steps) <= MOST_CALLS_IN_A_READ, str(way)


def test_one_more_player_takes_two_calls() -> None:
    """It is asked, and it is written to."""
    one, eleven = frame_on_its_way(players=1), frame_on_its_way(players=11)
    more = len(eleven.without_sends().steps) - len(one.without_sends().steps)
    assert more == 20, str(eleven)


def test_one_more_frame_in_a_read_takes_one_call() -> None:
    """The startup cache remembers it; everything else is done for all frames of the read together."""
    one, eleven = frame_on_its_way(together=1), frame_on_its_way(together=11)
    assert len(eleven.steps) - len(one.steps) == 10, str(eleven)


def test_everybody_is_asked_before_anything_is_sent() -> None:
    way = frame_on_its_way(players=3)
    steps = [step for step in way.steps if step == "send" or step.endswith(":frames_arrived")]
    assert [step.split(":")[-1] for step in steps] == ["frames_arrived"] * 3 + ["send"] * 3, str(way)
