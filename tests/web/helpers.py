"""The harness for HTTP: a relay and its HTTP part in memory, without sockets, on a clock that tests advance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.access.gate import Gate
from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.media import MediaFrame
from rtmprelay.secret import Secret
from rtmprelay.service import RelayService
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.web.http_service import HttpPart
from rtmprelay.web.settings import HttpSettings
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import group, start_frames
from tests.streams.helpers import FakePublisher

TOKEN = "a-token-for-tests"

#: The wall clock, in seconds since 1970, when the clock of a test is at zero.
STARTED_AT = 1_767_268_800.0


@attrs.frozen
class Response:
    """A response as the client received it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """The status and the code of an error; also checks that the body has the same status."""
        error = self.json["error"]
        assert error["status"] == self.status
        assert self.headers["content-type"] == "application/json"
        return self.status, error["code"]


def parse_response(data: bytes, head: bool = False) -> tuple[Response, bytes]:
    """The first response in some bytes, and the bytes after it."""
    top, separator, rest = data.partition(b"\r\n\r\n")
    assert separator, data
    first, *lines = top.decode("latin-1").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version in ("HTTP/1.1", "HTTP/1.0")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if head or status in ("204", "304"):
        return Response(int(status), headers, b""), rest
    if headers.get("transfer-encoding") == "chunked":
        body, rest = _unchunked(rest)
    else:
        size = int(headers.get("content-length", len(rest)))
        body, rest = rest[:size], rest[size:]
    return Response(int(status), headers, body), rest


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            return body, data[2:]
        body += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return body, b""


class Transport(StringTransport):
    """A transport that keeps what was written. Set `stalled` for a client that does not read."""

    def __init__(self, host: str = "192.0.2.9") -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, 40000))
        self.stalled = False
        self.aborted = False
        self.is_full = False

    @override
    def write(self, data: bytes) -> None:
        if self.aborted:
            return
        super().write(data)
        if self.stalled and len(self.value()) > 65536 and self.producer is not None and not self.is_full:
            self.is_full = True
            self.producer.pauseProducing()

    @override
    def writeSequence(self, data: Iterable[bytes]) -> None:
        self.write(b"".join(data))

    @override
    def abortConnection(self) -> None:
        self.aborted = True
        self.disconnecting = True

    def read_all(self) -> bytes:
        """Read as the client."""
        data: bytes = self.value()
        self.clear()
        if self.is_full and self.producer is not None:
            self.is_full = False
            self.producer.resumeProducing()
        return data


class Client:
    """One HTTP connection to the relay."""

    def __init__(self, web: Web, host: str = "192.0.2.9") -> None:
        self._web = web
        self.transport = Transport(host)
        self.protocol: Any = web.http.site.buildProtocol(self.transport.getPeer())
        self.protocol.makeConnection(self.transport)
        self.lost = False

    def send(self, data: bytes) -> None:
        """Send raw bytes, which the server reads at once."""
        if not self.lost and not self.transport.aborted:
            self.protocol.dataReceived(data)
            self._web.clock.advance(0)
        self.lose_if_closed()

    def lose_if_closed(self) -> None:
        """Lose the connection if the server has closed it."""
        if self.transport.disconnecting and not self.lost:
            self.lose()

    def lose(self) -> None:
        """Close the connection as the client."""
        self.lost = True
        self.protocol.connectionLost(Failure(ConnectionDone()))

    def responses(self) -> list[Response]:
        """All responses received so far."""
        data, found = self.transport.read_all(), []
        while data:
            response, data = parse_response(data)
            found.append(response)
        return found

    def events(self) -> list[tuple[str, Any]]:
        """All messages of an event stream received so far: the kind and the content of each."""
        data = self.transport.read_all()
        if data.startswith(b"HTTP/1.1"):
            response, rest = parse_response(data)
            assert rest == b""
            text = response.body
        else:
            text, _ = _unchunked(data)
        found = []
        for block in text.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if line)
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found


class Web:
    """A relay in memory, with its HTTP part."""

    def __init__(
        self,
        settings: HttpSettings | None = None,
        destinations: Iterable[DestinationSettings] = (),
        relay_config: str | None = None,
        token: str | None = TOKEN,
        recordings: Path | None = None,
        authorizers: Iterable[Any] = (),
    ) -> None:
        self.clock = Clock()
        config = RelayConfig(listen=(), destinations=tuple(destinations), relay_config=relay_config)
        self.service = RelayService(config, self.clock)
        settings = settings or HttpSettings()
        if token is not None:
            settings = attrs.evolve(settings, token=Secret(token))
        self.settings = settings
        self.http = HttpPart(
            self.service.control,
            settings,
            self.clock,
            wall_clock=lambda: STARTED_AT + self.clock.seconds(),
            refused_addresses=self.service.factory.refused_addresses,
            gate=Gate(tuple(authorizers), self.clock),
            recordings=recordings,
            folders={"recordings": Path()},
        )
        self.service.startService()
        self.http.start()

    @property
    def registry(self) -> Any:
        return self.service.registry

    def publish(self, key: str = "live/test", frames: Iterable[MediaFrame] | None = None) -> LiveStream:
        """Publish a stream."""
        stream: LiveStream = self.registry.publish(key, FakePublisher(), self.clock.seconds())
        stream.publish_frames(
            [*start_frames(), *group(0)] if frames is None else list(frames), self.clock.seconds()
        )
        return stream

    def advance(self, seconds: float, step: float = 0.05) -> None:
        """Advance the clock, in steps."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        host: str = "192.0.2.9",
    ) -> Response:
        """Make one request on a new connection."""
        client = Client(self, host)
        lines = [f"{method} {path} HTTP/1.1", "Host: relay", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        client.send("\r\n".join([*lines, "", ""]).encode() + body)
        response, rest = parse_response(client.transport.value(), head=method == "HEAD")
        assert rest == b""
        if not client.lost:
            client.lose()
        return response

    def get(self, path: str, **headers: str) -> Response:
        """GET, with header names written with underscores."""
        return self.request(
            "GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    def change(self, method: str, path: str, document: object = None, token: str = TOKEN) -> Response:
        """Make a request with the token and a JSON body."""
        headers = {"Authorization": f"Bearer {token}"}
        if document is None:
            return self.request(method, path, headers=headers)
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.request(method, path, body, {**headers, "Content-Type": "application/json"})

    def stop(self) -> None:
        self.http.stop()
        self.service.stopService()


def destination(name: str, url: str = "", **more: Any) -> DestinationSettings:
    """A destination; without a URL, one that cannot be reached."""
    return DestinationSettings(
        name=name, url=RtmpUrl.parse(url or f"rtmp://192.0.2.1/live/{name}-key"), **more
    )


def run_due_calls(clock: Clock) -> None:
    """Run the calls that are due. Unlike with `advance`, calls that they schedule wait, as in a real reactor."""
    due: list[Any] = [call for call in clock.getDelayedCalls() if call.getTime() <= clock.seconds()]
    for call in due:
        function = call.func
        call.cancel()
        function()
