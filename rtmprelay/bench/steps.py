"""What each step on the way of a frame costs by itself: `python -m rtmprelay.bench.steps`.

The frames are those of the benchmark, 4.3 kB on average. In a loop all code and data are in the processor's caches. In a
server that wakes up 70 times a second the same code takes several times as long, which the last lines show.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

import attrs
from zope.interface import implementer

from rtmprelay.bench import stream
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, FrameEncoder, live_frame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.summary import DeliveryRecord
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage

_T = TypeVar("_T")

_REPEATS = 7
_RECEIVERS = 200
#: Three frames.
_SEND_SIZE = 13_000


@attrs.frozen
class MeasuredStep:
    name: str
    each: str
    microseconds: float


def a_second_of_media() -> list[MediaFrame]:
    """The frames of one second, in the order in which they are sent."""
    due = [(number / stream.FRAME_RATE, number) for number in range(stream.FRAME_RATE)]
    audio = stream.AUDIO_RATE / stream.AUDIO_SAMPLES
    due += [(number / audio, stream.AUDIO_PLACE) for number in range(int(audio))]
    return [
        MediaFrame(
            MediaKind.AUDIO if place == stream.AUDIO_PLACE else MediaKind.VIDEO,
            int(at * 1000),
            stream.PAYLOADS[place],
        )
        for at, place in sorted(due)
    ]


def cost_of(work: Callable[[], object], count: int) -> float:
    """CPU microseconds for each of the `count` things that `work` does; the best of several tries."""
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - began)
    return best / count / 1000


def cost_of_each(work: Callable[[_T], object], things: Sequence[_T]) -> float:
    """The same for work that takes one thing at a time."""

    def all_of_it() -> None:
        for thing in things:
            work(thing)

    return cost_of(all_of_it, len(things))


# -- our own code --------------------------------------------------------------------------------------------


def reading_steps(frames: Sequence[MediaFrame]) -> list[MeasuredStep]:
    """Parse chunks into messages, for three chunk sizes and reads of one or eight frames."""
    steps = []
    for chunk_size, together in ((4096, 1), (4096, 8), (128, 8), (65536, 8)):
        writer, reader = ChunkWriter(), ChunkReader()
        writer.chunk_size = reader.chunk_size = chunk_size
        messages = [RawMessage(frame.kind, frame.timestamp_ms, 1, frame.payload) for frame in frames]
        encoded = [
            writer.encode(message, stream.chunk_stream_of(MediaKind(message.type_id))) for message in messages
        ]
        reads = [b"".join(encoded[start : start + together]) for start in range(0, len(encoded), together)]

        def read(reader: ChunkReader = reader, reads: Sequence[bytes] = reads) -> None:
            for data in reads:
                reader.feed(data)

        name = f"read chunks of {chunk_size} bytes, {together} frame{'s' if together > 1 else ''} in a read"
        steps.append(MeasuredStep(name, "frame", cost_of(read, len(frames))))
    return steps


def stream_steps(frames: Sequence[MediaFrame]) -> list[MeasuredStep]:
    """What the stream does once for each frame, however many watch."""
    live = LiveStream("live/bench")
    encoder = shared_encoder(65536, 1)
    return [
        MeasuredStep(
            "look at it, remember it for late joiners, count it",
            "frame",
            cost_of_each(lambda frame: live.publish_frames([frame], 0.0), frames),
        ),
        MeasuredStep(
            "encode it once for all players",
            "frame",
            cost_of_each(lambda frame: encoder.encode([frame]), frames),
        ),
    ]


@implementer(IFrameSubscriber)
class Nowhere(Consumer):
    def __init__(self, encoder: FrameEncoder) -> None:
        super().__init__(lambda data: None, encoder)

    def publisher_left(self) -> None: ...

    def publisher_returned(self) -> None: ...


def delivery_steps(frames: Sequence[MediaFrame]) -> list[MeasuredStep]:
    """The work for each receiver and write, without the write itself."""
    watched, unwatched = LiveStream("live/watched"), LiveStream("live/unwatched")
    for _ in range(_RECEIVERS):
        watched.subscribe(Nowhere(shared_encoder(65536, 1)))
    triples = [frames[start : start + 3] for start in range(0, len(frames), 3)]

    def publish(live: LiveStream) -> None:
        for triple in triples:
            live.publish_frames(triple, 0.0)

    for_all = cost_of(lambda: publish(watched), len(triples)) - cost_of(
        lambda: publish(unwatched), len(triples)
    )
    record = DeliveryRecord()
    summaries = [FrameBatch.of([live_frame(frame) for frame in triple]).summary() for triple in triples]

    def note() -> None:
        for summary in summaries:
            record.add(summary, 0.0)

    return [
        MeasuredStep("account for it, three frames in a write", "receiver and write", for_all / _RECEIVERS),
        MeasuredStep(
            "note it for a destination's digest", "destination and write", cost_of(note, len(summaries))
        ),
    ]


# -- the kernel ----------------------------------------------------------------------------------------------


def _drain_for_ever(descriptors: Sequence[socket.socket]) -> None:
    """The receiving process: it sleeps until data arrives, and ends when the sockets are closed."""
    poll = select.epoll()
    by_number = {sock.fileno(): sock for sock in descriptors}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    while by_number:
        for number, _ in poll.poll(30.0):
            if not by_number[number].recv(1 << 18):
                poll.unregister(number)
                del by_number[number]


class SleepingReceivers:
    """Loopback connections that are read by another process, which sleeps between reads."""

    def __init__(self, count: int) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=count)
        with closing(listener):
            self.sockets = [socket.create_connection(listener.getsockname()) for _ in range(count)]
            accepted = [listener.accept()[0] for _ in range(count)]
        for sock in self.sockets:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._child = os.fork()
        if not self._child:
            for sock in self.sockets:
                sock.close()
            _drain_for_ever(accepted)
            os._exit(0)
        for sock in accepted:
            sock.close()

    def close(self) -> None:
        """Close the sockets, at which the child ends too."""
        for sock in self.sockets:
            sock.close()
        os.waitpid(self._child, 0)

    def cost_of_sending(self, size: int, between: Callable[[], object], rounds: int) -> float:
        """CPU microseconds of one send. The cost of the work in between is measured too, and subtracted."""
        data = bytes(size)
        used = 0
        for number in range(2 * rounds):
            time.sleep(0.02)
            sends = number % 2 == 0
            began = time.process_time_ns()
            for sock in self.sockets:
                between()
                if sends:
                    sock.send(data)
            took = time.process_time_ns() - began
            used += took if sends else -took
        return used / rounds / len(self.sockets) / 1000


def _nothing() -> None: ...


def _busy(microseconds: float) -> Callable[[], None]:
    def work() -> None:
        until = time.perf_counter_ns() + int(microseconds * 1000)
        while time.perf_counter_ns() < until:
            pass

    return work


def kernel_steps() -> list[MeasuredStep]:
    """Sending, the largest part of the cost of a delivery."""
    steps = []
    for count, rounds in ((10, 120), (_RECEIVERS, 20)):
        receivers = SleepingReceivers(count)
        try:
            for how, between in (
                ("one right after the other", _nothing),
                ("with 50 us of other work before each", _busy(50)),
            ):
                cost = receivers.cost_of_sending(_SEND_SIZE, between, rounds)
                steps.append(
                    MeasuredStep(f"send {_SEND_SIZE} bytes to {count} receivers, {how}", "write", cost)
                )
        finally:
            receivers.close()
    return steps


def cold_steps(frames: Sequence[MediaFrame]) -> list[MeasuredStep]:
    live = LiveStream("live/bench")
    encoder = shared_encoder(65536, 1)
    writer, reader = ChunkWriter(), ChunkReader()
    writer.chunk_size = reader.chunk_size = 4096
    messages = [RawMessage(frame.kind, frame.timestamp_ms, 1, frame.payload) for frame in frames]
    reads = [
        writer.encode(message, stream.chunk_stream_of(MediaKind(message.type_id))) for message in messages
    ]

    def all_steps(number: int) -> None:
        reader.feed(reads[number])
        live.publish_frames([frames[number]], 0.0)
        encoder.encode([frames[number]])

    hot = cost_of_each(all_steps, range(len(frames)))
    inside, began_all = 0, time.process_time_ns()
    for number in range(len(frames)):
        time.sleep(0.014)
        began = time.process_time_ns()
        all_steps(number)
        inside += time.process_time_ns() - began
    whole = time.process_time_ns() - began_all
    return [
        MeasuredStep("read, look, remember, encode: in a loop", "frame", hot),
        MeasuredStep(
            "read, look, remember, encode: 14 ms asleep before it", "frame", inside / len(frames) / 1000
        ),
        MeasuredStep("fall asleep and wake up", "frame", (whole - inside) / len(frames) / 1000),
    ]


def main() -> int:
    frames = a_second_of_media()
    steps = [
        *reading_steps(frames),
        *stream_steps(frames),
        *delivery_steps(frames),
        *kernel_steps(),
        *cold_steps(frames),
    ]
    width = max(len(step.name) for step in steps)
    for step in steps:
        sys.stdout.write(f"{step.name:{width}}  {step.microseconds:7.2f} us for each {step.each}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
