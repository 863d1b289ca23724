"""The load generator's receiving processes: players, and servers for destinations."""

from __future__ import annotations

import select
import socket
import time

from rtmprelay.bench.connections import HOST, LoadConnection, client, is_connected, server_side
from rtmprelay.bench.control import Order, WorkerControl
from rtmprelay.bench.receiving import Comparing, Receivers
from rtmprelay.bench.tasks import PlayTask, SinkTask
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectRequested, PlayAccepted, PublishRequested
from rtmprelay.session.server import ServerSession

#: How many players may be connecting at the same time.
_AT_ONCE = 32
_LOOK_EVERY = 0.05
#: Seconds after which a missing frame counts as lost.
_DRAIN = 3.0


class ReceiveWorker:
    """What players and destinations have in common. `rest` is the sleep between two looks at the sockets."""

    rest = 0.0

    def __init__(self, control: WorkerControl) -> None:
        self._control = control
        self._receivers = Receivers()
        self._poll = select.epoll()
        self._poll.register(control.orders, select.EPOLLIN)
        self._measuring = False
        self._expected: int | None = None
        self._drain_until = 0.0
        self._running = True

    def run(self) -> None:
        while self._running:
            self._look()
            if self._expected is not None:
                self._report_if_drained(self._expected)
            self.go_on()
            if self._measuring and self.rest:
                time.sleep(self.rest)

    def go_on(self) -> None:
        """Called in each turn of the loop."""

    def not_live_readable(self, descriptor: int) -> None:
        """A socket that is not live yet became readable."""
        raise NotImplementedError

    def obey(self, order: Order) -> None:
        """An order that only this kind of worker knows."""

    def _look(self) -> None:
        timeout = 0.005 if self._expected is not None else _LOOK_EVERY
        live = self._receivers.by_descriptor
        comparing: list[Comparing] = []
        for descriptor, _ in self._poll.poll(timeout, 4096):
            receiver = live.get(descriptor)
            if receiver is not None:
                receiver.readable()
                if isinstance(receiver, Comparing):
                    comparing.append(receiver)
            elif descriptor == self._control.orders:
                for order in self._control.read():
                    self._obey(order)
            else:
                self.not_live_readable(descriptor)
        for one in comparing:
            one.look()

    def _obey(self, order: Order) -> None:
        match order["do"]:
            case "open":
                self._measuring = True
                self._control.begin_counting()
            case "expect":
                self._expected = order["frames"]
                self._drain_until = time.monotonic() + _DRAIN
            case "stop":
                self._running = False
            case _:
                self.obey(order)

    def _report_if_drained(self, expected: int) -> None:
        if self._receivers.have_all(expected) or time.monotonic() >= self._drain_until:
            self._expected = None
            self._control.say("received", self._receivers.report())
            self._control.say("used", self._control.used())


class PlayWorker(ReceiveWorker):
    def __init__(self, control: WorkerControl, task: PlayTask) -> None:
        super().__init__(control)
        self._task = task
        self.rest = task.rest
        self._wanted = 0
        self._answered = True
        self._joining: dict[int, tuple[LoadConnection, ClientSession]] = {}

    def obey(self, order: Order) -> None:
        self._wanted += order["join"]
        self._answered = False

    def go_on(self) -> None:
        """Join, a few at a time."""
        while len(self._joining) < min(_AT_ONCE, self._wanted - len(self._receivers)):
            connection, session = client(self._task.port, tls=self._task.tls)
            descriptor = connection.sock.fileno()
            self._joining[descriptor] = connection, session
            self._poll.register(descriptor, select.EPOLLIN)
            connection.flush()
        if not self._answered and len(self._receivers) == self._wanted:
            self._answered = True
            self._control.say("ready")

    def not_live_readable(self, descriptor: int) -> None:
        connection, session = self._joining[descriptor]
        data = connection.receive()
        if not connection.is_open:
            raise ConnectionError("the server closed the connection of a player that joined")
        events = connection.events(data) if data else []
        for event in events:
            if is_connected(event):
                session.play("bench0")
            elif isinstance(event, PlayAccepted):
                del self._joining[descriptor]
                self._receivers.add(descriptor, connection, self._task.verify)
        connection.flush()


class SinkWorker(ReceiveWorker):
    """The server that destinations publish to: one port, one stream name for each."""

    def __init__(self, control: WorkerControl, task: SinkTask) -> None:
        super().__init__(control)
        self._task = task
        self._arriving: dict[int, tuple[LoadConnection, ServerSession]] = {}
        self._listener = socket.socket()
        self._listener.bind((HOST, 0))
        self._listener.listen(256)
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        control.say("listening", self._listener.getsockname()[1])

    def not_live_readable(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            self._accept()
            return
        connection, session = self._arriving[descriptor]
        data = connection.receive()
        for event in connection.events(data) if data else []:
            if isinstance(event, ConnectRequested):
                session.accept(event.request_id)
            elif isinstance(event, PublishRequested):
                session.accept(event.request_id)
                del self._arriving[descriptor]
                self._receivers.add(descriptor, connection, len(self._receivers) < self._task.verify)
                if len(self._receivers) == self._task.destinations:
                    self._control.say("ready")
        connection.flush()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        connection, session = server_side(sock)
        self._arriving[sock.fileno()] = connection, session
        self._poll.register(sock.fileno(), select.EPOLLIN)
