"""What one message costs in objects and in calls of native code, beside the calls of `test_work_per_message`.

One more object or call for each frame, player or destination is more than these bounds: who needs it says why, here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tests.destinations.harness import MemoryRelay
from tests.helpers import keyframe, start_frames
from tests.rtmp.counted_server import CountedServer, CountedSocket, profile
from tests.rtmp.test_work_per_message import messages, publishing


def native_calls(action: Callable[[], object]) -> int:
    """How many functions of C are called while something is done."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    profile(action, note)
    return count


def ingest(chunk_size: int, together: int) -> int:
    """The native calls of a read with so many messages, of a stream that nobody gets."""
    publisher = publishing(CountedServer(), chunk_size)
    data = publisher.encoded(*messages(together, 1000))
    return native_calls(lambda: publisher.arrive(data))


@pytest.mark.parametrize(("chunk_size", "further"), [(65536, 13), (4096, 14), (128, 14)])
def test_further_message_of_a_read_takes_few_native_calls(chunk_size: int, further: int) -> None:
    each = (ingest(chunk_size, 5) - ingest(chunk_size, 1)) / 4
    assert each <= further, f"each further message takes {each} native calls; {further} were enough"


def fan_out(players: int) -> int:
    server = CountedServer()
    publisher = publishing(server)
    audience = [server.player() for _ in range(players)]
    data = publisher.encoded(*messages(3, 1000))
    count = native_calls(lambda: publisher.arrive(data))
    assert all(player.socket.sends for player in audience)
    return count


def test_one_more_player_takes_few_native_calls() -> None:
    each = (fan_out(30) - fan_out(10)) / 20
    assert each <= 7, f"one more player takes {each} native calls for each write; 7 were enough"


def relay(destinations: int) -> int:
    server = MemoryRelay()
    for number in range(destinations):
        server.add_stub(f"host{number}")
        server.add_destination(f"host{number}", f"rtmp://host{number}/live/key")
    encoder = server.publish()
    server.send(encoder, *start_frames(), keyframe(0))
    data = b"".join(encoder.session.send_media(frame) for frame in messages(3, 1000))
    return native_calls(lambda: encoder.deliver(data))


def test_one_more_destination_takes_few_native_calls() -> None:
    each = (relay(15) - relay(5)) / 10
    assert each <= 9, f"one more destination takes {each} native calls for each write; 9 were enough"


# -- objects -------------------------------------------------------------------------------------------------

#: What is alive for one frame while it is sent: the frame as it came, and what its first bytes say.
OBJECTS_OF_A_FRAME = 2


def tracked_at_first_send(players: int, together: int) -> int:
    """The objects with a reference to others that are new when the first player gets so many messages."""
    server = CountedServer()
    publisher = publishing(server)
    for _ in range(players):
        server.player()
    data = publisher.encoded(*messages(together, 1000))
    alive: list[int] = []

    def send(_: CountedSocket, sent: bytes) -> int:
        if not alive:
            alive.append(len(gc.get_objects()))
        return len(sent)

    original = CountedSocket.send
    CountedSocket.send = send  # type: ignore[method-assign, assignment]
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        publisher.arrive(data)
    finally:
        gc.enable()
        CountedSocket.send = original  # type: ignore[method-assign]
    return alive[0] - before


def test_each_frame_of_a_read_is_few_objects() -> None:
    each = (tracked_at_first_send(1, 11) - tracked_at_first_send(1, 1)) / 10
    assert each <= OBJECTS_OF_A_FRAME, f"{each} objects for each frame; {OBJECTS_OF_A_FRAME} were enough"


def test_one_more_player_is_one_object_until_it_is_written_to() -> None:
    """The bytes are shared: a player adds who gets them."""
    each = (tracked_at_first_send(30, 3) - tracked_at_first_send(10, 3)) / 20
    assert each <= 1, f"{each} objects for each player"


@pytest.mark.skipif(not hasattr(sys, "getallocatedblocks"), reason="only CPython counts its blocks of memory")
def test_one_more_player_takes_no_memory_for_a_frame() -> None:
    """Beyond what is alive until it is written to: its counters grow, and nothing else."""
    figures: list[int] = []
    for players in (10, 110):
        server = CountedServer()
        publisher = publishing(server)
        for _ in range(players):
            server.player()
        for begin in (400, 500):
            publisher.arrive(publisher.encoded(*messages(3, begin)))
        data = publisher.encoded(*messages(3, 1000))
        gc.collect()
        before = sys.getallocatedblocks()
        publisher.arrive(data)
        figures.append(sys.getallocatedblocks() - before)
    # Three counters: numbers over 256 are objects, and replace the ones before. Some blocks come and go by themselves; one
    # object more for each player would be 100 of them.
    assert figures[1] - figures[0] <= 150, f"{figures[1] - figures[0]} blocks for 100 more players"
