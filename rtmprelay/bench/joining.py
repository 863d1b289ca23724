"""How long players wait from joining to their first keyframe."""

from __future__ import annotations

import select
import time

from rtmprelay.bench.connections import LoadConnection, RefusedError, client, is_connected
from rtmprelay.bench.control import WorkerControl
from rtmprelay.bench.tasks import Joined, JoinTask
from rtmprelay.media import MediaKind
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import MediaReceived

#: Seconds after which a join has failed.
_TIMEOUT = 5.0


class Joiner:
    def __init__(self, port: int) -> None:
        self.began = time.monotonic()
        self.connection: LoadConnection
        self._session: ClientSession
        self.connection, self._session = client(port)
        self.connection.flush()

    def readable(self) -> float | None:
        """Read; return the milliseconds since joining once the first keyframe has arrived."""
        data = self.connection.receive()
        now = time.monotonic()
        for event in self.connection.events(data) if data else []:
            if is_connected(event):
                self._session.play("bench0")
                self.connection.flush()
            elif isinstance(event, MediaReceived):
                for frame in event.frames:
                    if frame.kind is MediaKind.VIDEO and frame.payload[:2] == b"\x17\x01":
                        return (now - self.began) * 1000
        return None


class JoinWorker:
    """Joins at a steady rate once the measured time begins."""

    def __init__(self, control: WorkerControl, task: JoinTask) -> None:
        self._control = control
        self._task = task
        self._poll = select.epoll()
        self._poll.register(control.orders, select.EPOLLIN)
        self._joiners: dict[int, Joiner] = {}
        self._times: list[float] = []
        self._failed = 0
        self._began = 0
        self._next: float | None = None
        self._running = True

    def run(self) -> None:
        self._control.say("ready")
        while self._running:
            self._begin_some()
            for descriptor, _ in self._poll.poll(0.005):
                if descriptor == self._control.orders:
                    for order in self._control.read():
                        self._obey(order["do"])
                else:
                    self._readable(descriptor)
            self._give_up_some()

    def _obey(self, order: str) -> None:
        if order == "open":
            self._control.begin_counting()
            self._next = time.monotonic()
        elif order == "expect":
            self._failed += len(self._joiners)
            self._control.say("joined", Joined(self._times, self._failed))
            self._control.say("used", self._control.used())
        elif order == "stop":
            self._running = False

    def _begin_some(self) -> None:
        if self._next is None or self._began == self._task.joins or time.monotonic() < self._next:
            return
        # A step that shares no factor with the keyframe distance, so that joins fall anywhere between two keyframes.
        self._next += 1.0 / self._task.per_second + (self._began % 7) * 0.001
        self._began += 1
        joiner = Joiner(self._task.port)
        descriptor = joiner.connection.sock.fileno()
        self._joiners[descriptor] = joiner
        self._poll.register(descriptor, select.EPOLLIN)

    def _readable(self, descriptor: int) -> None:
        joiner = self._joiners[descriptor]
        try:
            took = joiner.readable()
        except RefusedError:
            took = None
            joiner.connection.close()
        if took is not None:
            self._times.append(took)
        elif joiner.connection.is_open:
            return
        else:
            self._failed += 1
        self._end(descriptor)

    def _give_up_some(self) -> None:
        late = time.monotonic() - _TIMEOUT
        for descriptor in [one for one, joiner in self._joiners.items() if joiner.began < late]:
            self._failed += 1
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        # Closing the socket removes it from the poll too.
        self._joiners.pop(descriptor).connection.close()
