"""The load generator's publishers: each frame is sent when it is due, stamped with the time of sending."""

from __future__ import annotations

import fcntl
import select
import sys
import termios
import time

from rtmprelay.bench import stream
from rtmprelay.bench.connections import client, is_connected
from rtmprelay.bench.control import WorkerControl
from rtmprelay.bench.tasks import STEP_NS, Histogram, PublishTask, Sent
from rtmprelay.media import MediaKind
from rtmprelay.session.reports import PublishAccepted
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage

#: How many publishers may be connecting at the same time.
_AT_ONCE = 8
#: The longest sleep between two looks at orders and sockets.
_LOOK_EVERY = 0.005
_NEVER = 1 << 62
_INTERVALS = {MediaKind.VIDEO: stream.PICTURE_INTERVAL_NS, MediaKind.AUDIO: stream.AUDIO_INTERVAL_NS}


class Publisher:
    def __init__(self, task: PublishTask, number: int, frames: list[stream.OutgoingFrame]) -> None:
        self.connection, self._session = client(task.port, task.chunk_size, task.tls)
        self._name = f"bench{number}"
        # Real publishers are not in step with each other: spread them evenly over one frame interval.
        self._place_among_others = number / task.streams
        self._frames = frames
        self._chunk_size = task.chunk_size
        self.is_live = False
        self.lateness: Histogram = {}
        self.sent_frames = self.sent_bytes = 0
        self._measured = self._will_measure = False
        self._number = 0
        self._place = 0
        self._began = 0
        self._due = {MediaKind.VIDEO: _NEVER, MediaKind.AUDIO: _NEVER}
        self._last_ms = {MediaKind.VIDEO: 0, MediaKind.AUDIO: 0}

    def readable(self) -> None:
        data = self.connection.receive()
        for event in self.connection.events(data) if data else []:
            if is_connected(event):
                self._session.publish(self._name)
            elif isinstance(event, PublishAccepted):
                self._begin(time.monotonic_ns())
        self.connection.flush()

    def _begin(self, now: int) -> None:
        """Send headers and one keyframe; then only audio until `show_pictures`."""
        self.is_live = True
        self._began = now
        for frame in stream.start_frames():
            message = RawMessage(frame.kind, 0, self._session.stream_id, frame.payload)
            self.connection.outgoing += encode_standalone(
                message, stream.chunk_stream_of(frame.kind), self._chunk_size
            )
        self._send(MediaKind.VIDEO, 0, now)
        self._due[MediaKind.AUDIO] = now + stream.AUDIO_INTERVAL_NS
        self.connection.flush()

    def show_pictures(self, now: int, measured: bool) -> None:
        """Begin a new group of pictures, whose frames count as measured or not."""
        for kind, interval in _INTERVALS.items():
            self._due[kind] = now + int(interval * self._place_among_others)
        self._place = 0
        self._will_measure = measured

    def fall_silent(self) -> None:
        self._due = {MediaKind.VIDEO: _NEVER, MediaKind.AUDIO: _NEVER}

    @property
    def next_due(self) -> int:
        return min(self._due.values())

    def send_due(self, now: int) -> None:
        for kind, interval in _INTERVALS.items():
            while self._due[kind] <= now:
                due = self._due[kind]
                self._due[kind] += interval
                if kind is MediaKind.VIDEO:
                    self._measured = self._will_measure
                    place, self._place = self._place, (self._place + 1) % stream.PICTURES_PER_GROUP
                else:
                    place = stream.AUDIO_PLACE
                self._send(kind, place, due)
                if self._measured:
                    step = (now - due) // STEP_NS
                    self.lateness[step] = self.lateness.get(step, 0) + 1
        self.connection.flush()

    def _send(self, kind: MediaKind, place: int, due: int) -> None:
        timestamp = (due - self._began) // 1_000_000
        later = timestamp - self._last_ms[kind]
        self._last_ms[kind] = timestamp
        self.connection.outgoing += self._frames[place].fill(
            later, time.monotonic_ns(), self._number, self._measured
        )
        self._number += 1
        if self._measured:
            self.sent_frames += 1
            self.sent_bytes += stream.SIZES[place]

    def unacknowledged(self) -> int:
        """Bytes that the server has not taken, still here or in the kernel."""
        if not self.connection.is_open:
            return 0
        waiting = fcntl.ioctl(self.connection.sock.fileno(), termios.TIOCOUTQ, bytes(4))
        return len(self.connection.outgoing) + int.from_bytes(waiting, sys.byteorder)


class PublishWorker:
    """All publishers, in one process."""

    def __init__(self, control: WorkerControl, task: PublishTask) -> None:
        self._control = control
        self._task = task
        self._frames = stream.outgoing_frames(task.chunk_size)
        self._poll = select.epoll()
        self._poll.register(control.orders, select.EPOLLIN)
        self._publishers: dict[int, Publisher] = {}
        self._told_ready = False
        self._drain_until: int | None = None
        self._running = True

    def run(self) -> None:
        while self._running:
            self._dial_some()
            now = time.monotonic_ns()
            next_due = now + int(_LOOK_EVERY * 1e9)
            for publisher in self._publishers.values():
                if publisher.next_due <= now:
                    publisher.send_due(now)
                next_due = min(next_due, publisher.next_due)
            self._report_if_drained(now)
            wait = next_due - time.monotonic_ns()
            if wait > 0:
                # epoll's timeout is in milliseconds: too coarse to send on time.
                time.sleep(wait / 1e9)
            self._look()

    def _dial_some(self) -> None:
        if self._told_ready:
            return
        live = sum(publisher.is_live for publisher in self._publishers.values())
        while len(self._publishers) < self._task.streams and len(self._publishers) - live < _AT_ONCE:
            publisher = Publisher(self._task, len(self._publishers), self._frames)
            descriptor = publisher.connection.sock.fileno()
            self._publishers[descriptor] = publisher
            self._poll.register(descriptor, select.EPOLLIN)
            publisher.connection.flush()
        if live == self._task.streams:
            self._told_ready = True
            self._control.say("ready")

    def _look(self) -> None:
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._control.orders:
                for order in self._control.read():
                    self._obey(order["do"])
            else:
                self._publishers[descriptor].readable()

    def _obey(self, order: str) -> None:
        now = time.monotonic_ns()
        match order:
            case "warm up" | "open":
                self._control.begin_counting()
                for publisher in self._publishers.values():
                    publisher.show_pictures(now, measured=order == "open")
            case "close":
                for publisher in self._publishers.values():
                    publisher.fall_silent()
                self._drain_until = now + 3 * 10**9
            case "stop":
                self._running = False

    def _report_if_drained(self, now: int) -> None:
        if self._drain_until is None:
            return
        publishers = self._publishers.values()
        unsent = 0
        for publisher in publishers:
            publisher.connection.flush()
            unsent += publisher.unacknowledged()
        if unsent and now < self._drain_until:
            return
        self._drain_until = None
        lateness: Histogram = {}
        for publisher in publishers:
            for step, count in publisher.lateness.items():
                lateness[step] = lateness.get(step, 0) + count
        self._control.say(
            "sent",
            Sent(
                frames=sum(publisher.sent_frames for publisher in publishers),
                bytes=sum(publisher.sent_bytes for publisher in publishers),
                unsent=unsent,
                lateness=lateness,
                lost_connections=sum(not publisher.connection.is_open for publisher in publishers),
            ),
        )
        self._control.say("used", self._control.used())
