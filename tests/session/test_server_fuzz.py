"""Arbitrary input: a server session raises only RemoteProtocolError, and its state stays consistent."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.session.lifecycle import Phase, Role
from rtmprelay.session.reports import (
    ConnectRequested,
    MediaReceived,
    PlayEnded,
    PlayRequested,
    PublishEnded,
    PublishRequested,
    SessionReport,
)
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command
from tests.rounds import rounds
from tests.session.helpers import ScriptedClient, connected_client

stream_ids = st.sampled_from([0, 1, 2, 3, 9, 2**32 - 1])
names = st.sampled_from(["cam", "other", "", "bad\n", "cam?key=1", "mp4:x"])
loose_values = st.one_of(
    names,
    st.none(),
    st.booleans(),
    st.floats(),
    st.sampled_from([0.0, 1.0, 2.0, 9.0]),
    st.dictionaries(st.sampled_from(["streamName", "app", "tcUrl"]), names, max_size=2),
)
methods = st.sampled_from(
    [
        "createStream",
        "releaseStream",
        "FCPublish",
        "FCUnpublish",
        "FCSubscribe",
        "getStreamLength",
        "publish",
        "play",
        "play2",
        "pause",
        "pauseRaw",
        "receiveAudio",
        "receiveVideo",
        "closeStream",
        "deleteStream",
        "_checkbw",
        "_result",
        "onStatus",
        "nonsense",
    ]
)


@st.composite
def any_call(draw: st.DrawFn) -> Command:
    arguments = tuple(draw(st.lists(loose_values, max_size=4)))
    transaction = draw(st.sampled_from([0.0, 1.0, 5.0, float("nan")]))
    return Command(draw(methods), transaction, None, arguments, draw(stream_ids))


@st.composite
def plain_call(draw: st.DrawFn) -> Command:
    """Well-formed calls that change the state: random ones rarely do."""
    method = draw(st.sampled_from(["publish", "play", "closeStream", "deleteStream", "pause", "FCUnpublish"]))
    stream_id = draw(st.sampled_from([1, 2, 3]))
    argument = float(stream_id) if method == "deleteStream" else "cam"
    return Command(method, 0.0, None, (argument,), stream_id)


@st.composite
def any_media(draw: st.DrawFn) -> RawMessage:
    kind = draw(st.sampled_from([8, 9, 15, 18, 22]))
    payload = b"" if kind == 22 else draw(st.binary(max_size=8))
    return RawMessage(kind, draw(st.integers(0, 2**32 - 1)), draw(stream_ids), payload)


#: True accepts the oldest open request, False rejects it, and a number answers a request that may not exist.
answers = st.one_of(st.booleans(), st.integers(0, 20))
steps = st.one_of(any_call(), plain_call(), plain_call(), any_media(), answers)


class Driver:
    """Acts as the owner of the session, and checks its state after each step."""

    def __init__(self) -> None:
        self.client = connected_client()
        self.open_requests: list[int] = []
        self.publishing: set[int] = set()
        self.playing: set[int] = set()

    def step(self, step: Command | RawMessage | bool | int) -> None:
        if isinstance(step, bool):
            self._answer(self.open_requests.pop(0) if self.open_requests else 0, step)
        elif isinstance(step, int):
            self._answer(step, step % 2 == 0)
        else:
            for event in self.client.send(step):
                self._see(event)
        self.client.received()
        self.check()

    def _answer(self, request_id: int, accepted: bool) -> None:
        session = self.client.session
        rejected = {} if accepted else dict(self._requested(request_id))
        if accepted:
            session.accept(request_id)
        else:
            session.reject(request_id, StatusCode.PUBLISH_DENIED, "No")
        self.publishing -= rejected.keys()
        self.playing -= rejected.keys()
        if session.requests.awaited is None:
            for event in self.client.feed(b""):
                self._see(event)

    def _requested(self, request_id: int) -> list[tuple[int, None]]:
        request = self.client.session.requests.get(request_id)
        stream = getattr(request, "stream", None)
        return [(stream.stream_id, None)] if stream is not None else []

    def _see(self, event: SessionReport) -> None:
        assert not isinstance(event, ConnectRequested)
        if isinstance(event, PublishRequested | PlayRequested):
            self.open_requests.append(event.request_id)
            busy = self.publishing if isinstance(event, PublishRequested) else self.playing
            assert event.stream_id not in self.publishing | self.playing
            busy.add(event.stream_id)
        elif isinstance(event, PublishEnded):
            self.publishing.remove(event.stream_id)
        elif isinstance(event, PlayEnded):
            self.playing.remove(event.stream_id)
        elif isinstance(event, MediaReceived):
            assert event.stream_id in self.publishing
            assert event.frames

    def check(self) -> None:
        session = self.client.session
        roles = {stream.stream_id: stream.role for stream in session._streams.values()}
        assert set(session._streams) == set(roles)
        open_for_media = {number for number, role in roles.items() if role is Role.PUBLISHING}
        assert set(session._intake.open_streams) == open_for_media
        publish_roles = {Role.REQUESTING_PUBLISH, Role.PUBLISHING}
        assert {number for number, role in roles.items() if role in publish_roles} == self.publishing
        play_roles = {Role.REQUESTING_PLAY, Role.PLAYING}
        assert {number for number, role in roles.items() if role in play_roles} == self.playing
        waiting_roles = {Role.REQUESTING_PUBLISH, Role.REQUESTING_PLAY}
        waiting = sum(role in waiting_roles for role in roles.values())
        assert len(session.requests) == waiting


@settings(max_examples=rounds(50, full=250), deadline=None)
@given(st.lists(steps, max_size=40))
def test_any_order_of_commands_media_and_answers_leaves_the_session_consistent(
    taken: list[Command | RawMessage | bool | int],
) -> None:
    driver = Driver()
    with contextlib.suppress(RemoteProtocolError):
        for step in taken:
            driver.step(step)


@settings(max_examples=rounds(30, full=150), deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=6))
def test_garbage_in_place_of_the_handshake_completes_none_and_raises_only_remote_protocol_errors(
    reads: list[bytes],
) -> None:
    client = ScriptedClient(shake=False)
    with contextlib.suppress(RemoteProtocolError):
        for data in reads:
            client.feed(data)
    assert client.session.phase is Phase.HANDSHAKE


def assert_waiting_bytes_are_bounded(client: ScriptedClient) -> None:
    reader, limits = client.session.channel.reader, ConnectionLimits()
    most = limits.assembly_size if client.session.trust.may_publish else limits.assembly_size_before_publish
    assert 0 <= reader.unfinished + reader.held <= most


@settings(max_examples=rounds(30, full=150), deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=6), st.booleans())
def test_garbage_after_the_handshake_raises_only_remote_protocol_errors(
    reads: list[bytes], connected: bool
) -> None:
    client = connected_client() if connected else ScriptedClient()
    with contextlib.suppress(RemoteProtocolError):
        for data in reads:
            client.feed(data)
    assert_waiting_bytes_are_bounded(client)


@settings(max_examples=rounds(50, full=250), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([3, 4, 5, 6, 8, 15, 17, 18, 20, 22, 99]), st.binary(max_size=40))),
    st.binary(max_size=30),
)
def test_garbage_inside_whole_messages_raises_only_remote_protocol_errors(
    messages: list[tuple[int, bytes]], amf_tail: bytes
) -> None:
    client = connected_client()
    client.publish()
    beginning = b"\x02\x00\x07publish\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05"
    with contextlib.suppress(RemoteProtocolError):
        client.send(RawMessage(20, 0, 2, beginning + amf_tail))
        for type_id, payload in messages:
            client.send(RawMessage(type_id, 0, 1, payload))
            client.received()
    assert_waiting_bytes_are_bounded(client)


@settings(max_examples=rounds(15, full=60), deadline=None)
@given(st.data())
def test_reports_are_the_same_however_the_bytes_are_split(data: st.DataObject) -> None:
    whole = _conversation()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=30)))
    client = connected_client()
    events: list[SessionReport] = []
    for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        events += client.feed(whole[a:b])
        if client.session.requests.awaited is not None:
            client.session.accept(client.session.requests.awaited)
            events += client.feed(b"")
    kinds = [type(event).__name__ for event in events if not isinstance(event, MediaReceived)]
    assert kinds == ["PublishRequested", "PublishEnded"]
    assert sum(len(event.frames) for event in events if isinstance(event, MediaReceived)) == 3


def _conversation() -> bytes:
    client = connected_client()
    return client.encode(
        Command("publish", 0.0, None, ("cam",), 1),
        RawMessage(9, 0, 1, bytes(300)),
        RawMessage(9, 2**24 + 5, 1, bytes(300)),
        RawMessage(8, 3, 1, b""),
        Command("closeStream", 0.0, None, (), 1),
    )
