"""The RTMP client: negotiation, refusals, goodbyes, and servers that do not behave."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import base64
import hashlib
import time
from typing import cast
from unittest import mock

from twisted.application.internet import ClientService
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import (
    ConnectingCancelledError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
)
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay import client
from rtmprelay.destinations.failures import FailureClass, classify
from rtmprelay.errors import (
    ConfigError,
    DestinationRefusedError,
    LimitExceededError,
    LocalProtocolError,
    RemoteProtocolError,
)
from rtmprelay.flv.script import with_set_data_frame
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.client import (
    MAX_EARLY_BYTES,
    MAX_EARLY_FRAMES,
    ClientSettings,
    RtmpClientProtocol,
    RtmpPlayClientProtocol,
    RtmpPublisherProtocol,
)
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.rtmp.endpoint import RtmpPublishEndpoint, TlsTrust, negotiate
from rtmprelay.session.adobe import AuthenticationRefusedError
from rtmprelay.session.channel import SMALLEST_WINDOW
from rtmprelay.session.reports import StatusReceived
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, live_frame
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.testing import MemoryEndpoint, MemoryServer
from rtmprelay.wire import commands
from rtmprelay.wire.messages import (
    Acknowledgement,
    Command,
    SetChunkSize,
    UserControl,
    UserControlType,
    WindowAcknowledgementSize,
)
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.stub_server import StubServer
from tests.helpers import assert_decodable, audio, group, keyframe, metadata, start_frames, video_header

URL = "rtmp://host/app/KEYMARK?token=QUERYMARK"


class ClientTests(SynchronousTestCase):
    """Has a server that does as it is told."""

    @override
    def setUp(self) -> None:
        self.clock = Clock()
        self.server = StubServer()
        self.steps: list[str] = []

    def ask(self, url: str = URL, timeout: float = 10.0) -> Deferred[RtmpPublisherProtocol]:
        """Begin to publish."""
        settings = ClientSettings(negotiation_timeout=timeout, progress=self.steps.append)
        asking = Deferred.fromCoroutine(
            negotiate(
                RtmpPublisherProtocol,
                RtmpUrl.parse(url),
                cast(IStreamClientEndpoint, self.server),
                self.clock,
                settings,
            )
        )
        self.pump()
        return asking

    def publish(self, url: str = URL) -> RtmpPublisherProtocol:
        """Publish."""
        return self.successResultOf(self.ask(url))

    def pump(self) -> None:
        while self.server.pump():
            pass

    def reason(self, asking: Deferred[RtmpPublisherProtocol], kind: type[Exception]) -> str:
        """Why it failed; and nothing is left behind."""
        failure = self.failureResultOf(asking, kind)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for mark in ("KEYMARK", "QUERYMARK", "PASSWORDMARK"):
            self.assertNotIn(mark, str(failure.value))
        return str(failure.value)


class NegotiationTests(ClientTests):
    def test_it_succeeds(self) -> None:
        publisher = self.publish()
        self.assertEqual(
            self.server.last.order, ["connect", "releaseStream", "FCPublish", "createStream", "publish"]
        )
        properties = self.server.last.command("connect").command_object
        assert isinstance(properties, dict)
        self.assertEqual((properties["app"], properties["tcUrl"]), ("app", "rtmp://host/app"))
        self.assertEqual(self.server.last.command("publish").arguments[0], "KEYMARK?token=QUERYMARK")
        self.assertEqual(self.steps, ["tcp", "handshake", "connect", "publish"])
        self.assertNoResult(publisher.when_lost)
        self.assertEqual(publisher.connection_id, "host:1935/app")

    def test_over_tls_that_step_is_told(self) -> None:
        publisher = self.publish("rtmps://host/app/key")
        publisher.handshakeCompleted()
        self.assertEqual(self.steps[-1], "tls")

    def test_the_query_of_an_application_is_sent(self) -> None:
        self.publish("rtmp://host:1935/app?a=b")
        properties = self.server.last.command("connect").command_object
        assert isinstance(properties, dict)
        self.assertEqual((properties["app"], properties["tcUrl"]), ("app?a=b", "rtmp://host:1935/app?a=b"))

    def test_after_that_no_deadline_is_left(self) -> None:
        self.publish()
        self.clock.advance(60)
        self.pump()
        self.assertFalse(self.server.last.lost)

    def test_a_second_acceptance_changes_nothing(self) -> None:
        publisher = self.publish()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "again"))
        self.assertNoResult(publisher.when_lost)
        self.assertEqual(self.steps.count("publish"), 1)

    def test_a_refused_publish(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "it is taken")
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertEqual(reason, "the server refused: NetStream.Publish.BadName: it is taken")
        self.assertTrue(self.server.last.lost)

    def test_a_refusal_that_is_told_as_a_status(self) -> None:
        for code in (
            "NetStream.Publish.BadName",
            "NetStream.Publish.Denied",
            "NetConnection.Connect.Rejected",
            "NetStream.Publish.Failed",
            "NetStream.Publish.Unauthorized",
            "NetConnection.Connect.InvalidApp",
            "NetStream.Play.StreamNotFound",
        ):
            for level in ("status", "warning", ""):
                self.server.refusal_level = level
                self.server.refuse_publish = (code, "no")
                reason = self.reason(self.ask(), DestinationRefusedError)
                self.assertEqual(reason, f"the server refused: {code}: no")

    def test_other_news_before_the_answer_are_no_refusal(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        for code in ("NetStream.Play.Reset", "NetStream.Publish.Pending", "", "NetStream.Failed.Not"):
            self.server.last.say(commands.on_status(1, "status", code, "BadName"))
        self.pump()
        self.assertNoResult(asking)
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "now"))
        self.successResultOf(asking)

    def test_a_refused_connect(self) -> None:
        self.server.refuse_connect = lambda command: "no such application"
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertEqual(reason, "the server refused: NetConnection.Connect.Rejected: no such application")

    def test_a_refusal_without_words(self) -> None:
        self.server.silent_about = {"createStream"}
        asking = self.ask()
        self.server.last.say(Command("_error", 4.0, None, ()))
        self.pump()
        self.assertIn("no stream", self.reason(asking, DestinationRefusedError))

    def test_a_server_that_repeats_the_key(self) -> None:
        for said in (
            "KEYMARK?token=QUERYMARK is taken",
            "app/KEYMARK is taken",
            "QUERYMARK is wrong",
            "token=QUERYMARK is wrong",
            "PASSWORDMARK is wrong",
        ):
            self.server.refuse_publish = ("NetStream.Publish.BadName", said)
            reason = self.reason(
                self.ask("rtmp://user:PASSWORDMARK@host/app/KEYMARK?token=QUERYMARK"), DestinationRefusedError
            )
            self.assertIn("***", reason)

    def test_a_server_that_repeats_the_query_of_the_application(self) -> None:
        self.server.refuse_connect = lambda command: "token=QUERYMARK, not QUERYMARK"
        reason = self.reason(self.ask("rtmp://host/app?token=QUERYMARK"), DestinationRefusedError)
        self.assertTrue(reason.endswith(": ***, not ***"), reason)

    def test_a_server_that_says_too_much(self) -> None:
        self.server.refuse_publish = ("Code", "line\r\n\x1b[31m" + "x" * 100_000 + "KEYMARK")
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertLess(len(reason), 400)
        self.assertTrue(reason.isprintable())

    def test_a_refusal_of_many_megabytes_costs_little(self) -> None:
        many = 16 * 1024 * 1024
        for code, said in (
            ("Code", "\x01" * many),
            ("\x01" * many, ""),
            ("Code", "authmod=adobe ?" + "a=1&" * (many // 4)),
            ("Code", "?" + "a=1&" * (many // 4) + "authmod=adobe"),
        ):
            status = StatusReceived("error", code, said)
            self.server.silent_about = {"publish"}
            asking = self.ask("rtmp://user:PASSWORDMARK@host/app/KEYMARK")
            publisher = self.protocol()
            began = time.thread_time()
            publisher.handle(status, 0.0)
            self.server.silent_about = set()
            self.pump()
            self.assertLess(time.thread_time() - began, 0.3)
            asking.addErrback(lambda failure: failure.trap(DestinationRefusedError))
            self.pump()

    def protocol(self) -> RtmpPublisherProtocol:
        """The newest protocol, while it negotiates."""
        return cast(RtmpPublisherProtocol, self.server.last._client)

    def test_no_part_of_a_key_is_left_where_a_long_refusal_is_cut(self) -> None:
        for key in ("KEYMARK".join(map(str, range(100))), "KEYMARK".join(map(str, range(1000)))):
            for code in ("Code", ""):
                for more in (0, 100, 200, 300, 400):
                    self.server.refuse_publish = (code, "-" * more + key * 20)
                    reason = self.reason(self.ask(f"rtmp://host/app/{key}"), DestinationRefusedError)
                    self.assertNotIn("0", reason)

    def test_a_server_that_never_answers(self) -> None:
        for silence in ("connect", "createStream", "publish"):
            self.server.silent_about = {silence}
            asking = self.ask()
            self.clock.advance(9.9)
            self.pump()
            self.assertNoResult(asking)
            self.clock.advance(0.1)
            self.pump()
            self.assertIn("no answer within 10 s", self.reason(asking, TwistedTimeoutError))
            self.assertTrue(self.server.last.transport.aborted)

    def test_a_server_that_does_not_even_shake_hands(self) -> None:
        self.server.deaf = True
        asking = self.ask(timeout=3)
        self.clock.advance(3)
        self.pump()
        self.assertIn("no answer within 3 s", self.reason(asking, TwistedTimeoutError))

    def test_a_server_that_speaks_something_else(self) -> None:
        for garbage in (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"SSH-2.0-x\r\n",
            b"\x00" * 5000,
            b"\x15\x03\x01",
        ):
            self.server.greets_with = garbage
            asking = self.ask()
            self.pump()
            self.reason(asking, RemoteProtocolError)
            self.assertTrue(self.server.last.transport.aborted)

    def test_a_server_that_closes_before_it_answers(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        self.server.last.close()
        self.reason(asking, ConnectionDone)

    def test_a_server_that_cannot_be_reached(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.reason(self.ask(), ConnectionRefusedError)

    def test_who_cancels_closes_the_connection(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        asking.cancel()
        self.pump()
        self.failureResultOf(asking, CancelledError)
        self.assertTrue(self.server.last.lost)
        self.assertTrue(self.server.last.transport.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_who_cancels_before_there_is_a_connection(self) -> None:
        self.server.black_hole = True
        asking = self.ask()
        asking.cancel()
        self.failureResultOf(asking, ConnectingCancelledError)
        self.assertEqual(self.server.cancelled, 1)

    def test_what_comes_after_a_refusal_is_not_looked_at(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        asking = self.ask()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "or yes"))
        self.reason(asking, DestinationRefusedError)


class AdobeTests(ClientTests):
    """A server that wants Adobe's authentication, and computes the answer for itself."""

    url = "rtmp://anna:PASSWORDMARK@host/app/KEYMARK"
    password = "PASSWORDMARK"

    @override
    def setUp(self) -> None:
        super().setUp()
        self.server.refuse_connect = self.check
        self.apps: list[str] = []

    def check(self, command: Command) -> str | None:
        assert isinstance(command.command_object, dict)
        app = str(command.command_object["app"])
        self.assertEqual(command.command_object["tcUrl"], f"rtmp://host/{app}")
        self.apps.append(app)
        query = dict(part.split("=", 1) for part in app.partition("?")[2].split("&") if part)
        rejected = "[ AccessManager.Reject ] : [ "
        if query.get("authmod") != "adobe":
            return f"{rejected}code=403 need auth; authmod=adobe ] : "
        salt, opaque = "a+b/c==", "o+p/q=="
        if "response" not in query:
            return (
                f"{rejected}authmod=adobe ] : ?reason=needauth&user={query['user']}"
                f"&salt={salt}&challenge={opaque}&opaque={opaque}"
            )

        def hashed(text: str) -> str:
            return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()

        expected = hashed(hashed("anna" + salt + self.password) + opaque + query["challenge"])
        if query["response"] == expected and query["opaque"] == opaque:
            return None
        return f"{rejected}authmod=adobe ] : ?reason=authfailed&opaque={opaque}"

    def test_three_connections_and_it_is_accepted(self) -> None:
        self.publish(self.url)
        self.assertEqual(len(self.server.connections), 3)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, True, False])
        self.assertEqual(self.apps[0], "app")
        self.assertEqual(self.apps[1], "app?authmod=adobe&user=anna")

    def test_with_a_query_on_the_application(self) -> None:
        self.publish("rtmp://anna:PASSWORDMARK@host/app?x=y")
        self.assertEqual(self.apps[1], "app?x=y&authmod=adobe&user=anna")

    def test_a_wrong_password(self) -> None:
        self.password = "another"
        asking = self.ask(self.url)
        self.assertIn("does not accept", self.reason(asking, AuthenticationRefusedError))
        self.assertEqual(len(self.server.connections), 3)

    def test_no_user(self) -> None:
        self.assertIn("user:password@", self.reason(self.ask(), AuthenticationRefusedError))
        self.assertEqual(len(self.server.connections), 1)

    def test_the_password_is_on_no_wire(self) -> None:
        self.publish(self.url)
        for connection in self.server.connections:
            self.assertNotIn("PASSWORDMARK", repr(connection.messages))

    def test_cancelled_on_the_way(self) -> None:
        self.server.refuse_connect = lambda command: (
            self.check(command) if len(self.server.connections) == 1 else None
        )
        self.server.silent_about = {"publish"}
        asking = self.ask(self.url)
        asking.cancel()
        self.pump()
        self.failureResultOf(asking, CancelledError)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, True])


class PublishingTests(ClientTests):
    def test_frames_go_out_on_the_stream_that_the_server_gave(self) -> None:
        self.server.stream_id = 77
        publisher = self.publish()
        frames = [*start_frames(), *group(0)]
        for frame in frames:
            publisher.send(frame)
        self.pump()
        self.assertEqual({raw.stream_id for raw in self.server.last.media}, {77})
        self.assertEqual(self.server.last.frames, frames)
        self.assertEqual(self.server.last.command("publish").stream_id, 77)

    def test_metadata_goes_in_the_envelope_that_servers_want(self) -> None:
        publisher = self.publish()
        publisher.send(metadata(width=1.0))
        self.pump()
        (raw,) = self.server.last.media
        self.assertEqual(raw.payload, with_set_data_frame(metadata(width=1.0).payload))

    def test_a_consumer_that_is_there_is_used(self) -> None:
        publisher = self.publish()
        session = publisher.session
        encoder = shared_encoder(session.channel.chunk_size, session.stream_id, True)
        publisher.consumer = consumer = Consumer(publisher.write_media, encoder)
        publisher.send(keyframe(0))
        self.pump()
        self.assertIs(publisher.consumer, consumer)
        self.assertEqual(consumer.account.messages_sent, 1)
        self.assertEqual(self.server.last.frames, [keyframe(0)])

    def test_the_goodbye(self) -> None:
        self.server.stream_id = 3
        publisher = self.publish()
        publisher.send(keyframe(0))
        publisher.end()
        self.pump()
        self.assertEqual(self.server.last.order[-3:], ["media", "FCUnpublish", "deleteStream"])
        self.assertEqual(self.server.last.command("FCUnpublish").arguments[0], "KEYMARK?token=QUERYMARK")
        self.assertEqual(self.server.last.command("deleteStream").arguments[0], 3.0)
        self.assertTrue(self.server.last.lost)
        self.assertFalse(self.server.last.transport.aborted)
        self.successResultOf(publisher.when_lost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_saying_it_twice_is_saying_it_once(self) -> None:
        publisher = self.publish()
        publisher.end()
        publisher.end()
        publisher.loseConnection()
        self.pump()
        self.assertEqual(self.server.last.commands.count("FCUnpublish"), 1)

    def test_nothing_can_be_sent_after_it(self) -> None:
        publisher = self.publish()
        publisher.end()
        self.assertRaises(LocalProtocolError, publisher.send, keyframe(0))

    def test_a_goodbye_that_is_not_taken(self) -> None:
        publisher = self.publish()
        self.server.last.transport.stalled = True
        publisher.end()
        self.clock.advance(1.9)
        self.pump()
        self.assertNoResult(publisher.when_lost)
        self.clock.advance(0.1)
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertTrue(self.server.last.transport.aborted)

    def test_cutting_it_off(self) -> None:
        publisher = self.publish()
        publisher.abortConnection()
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertNotIn("FCUnpublish", self.server.last.commands)

    def test_a_server_that_goes_later(self) -> None:
        publisher = self.publish()
        self.server.last.close(ConnectionLost())
        self.successResultOf(publisher.when_lost)
        self.assertEqual(publisher.loss.type, ConnectionLost)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_server_that_changes_its_mind(self) -> None:
        for said in ("KEYMARK has expired", "authmod=adobe KEYMARK"):
            publisher = self.publish()
            self.server.last.say(commands.on_status(1, "error", "NetStream.Publish.Failed", said))
            self.pump()
            self.successResultOf(publisher.when_lost)
            failure = classify(publisher.loss)
            self.assertIs(failure.kind, FailureClass.REFUSED)
            self.assertIn("***", failure.sentence)
            self.assertNotIn("KEYMARK", failure.sentence)

    def test_other_news_change_nothing(self) -> None:
        publisher = self.publish()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Data.Start", "x"))
        self.server.last.say(commands.on_status(1, "warning", "NetStream.Odd", "x"))
        self.pump()
        self.assertNoResult(publisher.when_lost)

    def test_garbage_later(self) -> None:
        publisher = self.publish()
        self.server.last.say(SetChunkSize(0))
        self.pump()
        self.successResultOf(publisher.when_lost)
        self.assertIs(classify(publisher.loss).kind, FailureClass.PROTOCOL)

    def test_it_always_reads(self) -> None:
        self.publish()
        connection = self.server.last
        connection.say(UserControl(UserControlType.PING_REQUEST, 4711))
        connection.say(Command("ping", 9.0, None, ()))
        connection.say(WindowAcknowledgementSize(SMALLEST_WINDOW))
        connection.say(*[UserControl(UserControlType.STREAM_BEGIN, 1)] * SMALLEST_WINDOW)
        self.pump()
        self.assertIn(UserControl(UserControlType.PING_RESPONSE, 4711), connection.messages)
        self.assertIn("_result", connection.commands)
        self.assertTrue(any(isinstance(message, Acknowledgement) for message in connection.messages))

    def test_media_that_a_server_sends_to_a_publisher_is_ignored(self) -> None:
        publisher = self.publish()
        stray = Command("onStatus", 0.0, None, ("no object",))
        self.server.last.say(stray)
        self.server.last.say_bytes(publisher.session.send_media(keyframe(0)))
        self.assertNoResult(publisher.when_lost)


class StallTests(ClientTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.publisher = self.publish()
        session = self.publisher.session
        encoder = shared_encoder(session.channel.chunk_size, session.stream_id, True)
        self.consumer = self.publisher.consumer = Consumer(self.publisher.write_media, encoder)
        self.transport = self.server.last.transport

    def feed(self, count: int, size: int = 20_000) -> None:
        for number in range(count):
            self.consumer.send(FrameBatch.of([live_frame(keyframe(number, size))]))

    def test_a_server_that_stops_reading_is_given_up_after_ten_seconds(self) -> None:
        self.clock.advance(7)
        self.transport.stalled = True
        self.feed(10)
        self.assertGreater(self.consumer.messages_queued, 0)
        self.clock.pump([1] * 9)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        self.clock.pump([1])
        self.pump()
        self.successResultOf(self.publisher.when_lost)
        self.assertTrue(self.transport.aborted)
        self.assertIsInstance(self.publisher.loss.value, LimitExceededError)
        failure = classify(self.publisher.loss)
        self.assertIs(failure.kind, FailureClass.NETWORK)
        self.assertIn("took no byte for 10 s", failure.sentence)

    def test_one_that_reads_on_in_time_is_not(self) -> None:
        for _ in range(4):
            self.transport.stalled = True
            self.feed(10)
            self.clock.pump([1] * 9)
            self.transport.stalled = False
            self.pump()
        self.clock.pump([1] * 30)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)
        self.assertEqual(self.consumer.messages_queued, 0)
        self.assertEqual(len(self.server.last.media), 40)

    def test_nothing_to_send_is_no_stall(self) -> None:
        self.transport.stalled = True
        self.clock.pump([1] * 100)
        self.pump()
        self.assertNoResult(self.publisher.when_lost)


class SlowServerTests(ClientTests):
    """Frames sent one by one to a server that does not read."""

    @override
    def setUp(self) -> None:
        super().setUp()
        self.publisher = self.publish()
        self.transport = self.server.last.transport

    def own(self) -> Consumer:
        assert self.publisher.consumer is not None
        return self.publisher.consumer

    def test_what_waits_is_bounded_and_what_arrives_can_be_decoded(self) -> None:
        frames = list(start_frames())
        self.transport.stalled = True
        for begin in range(0, 60_000, 200):
            frames += group(begin, size=20_000)
        for frame in frames:
            self.publisher.send(frame)
        limits = QueueLimits()
        self.assertLess(self.transport.unread_size, 200_000)
        self.assertLess(self.own().bytes_queued, limits.max_bytes)
        account = self.own().account
        self.assertEqual(account.messages_in, len(frames))
        self.assertGreater(account.dropped_by_reason[DropReason.QUEUE_FULL], 0)
        self.assertTrue(self.own().is_balanced)
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.own().messages_queued, 0)
        arrived = self.server.last.frames
        self.assertEqual(len(arrived), account.messages_sent)
        assert_decodable(arrived, frames)

    def test_one_that_reads_again_gets_everything_in_order(self) -> None:
        frames = [*start_frames(), *group(0, size=20_000), *group(200, size=20_000)]
        self.transport.stalled = True
        for frame in frames:
            self.publisher.send(frame)
        self.assertGreater(self.own().messages_queued, 0)
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.server.last.frames, frames)

    def test_what_waits_at_the_goodbye_goes_before_it(self) -> None:
        frames = [*start_frames(), *group(0, size=20_000), *group(200, size=20_000)]
        self.transport.stalled = True
        for frame in frames:
            self.publisher.send(frame)
        self.assertGreater(self.own().messages_queued, 0)
        self.publisher.end()
        self.transport.stalled = False
        self.pump()
        self.assertEqual(self.server.last.frames, frames)
        self.assertEqual(self.server.last.order[-3:], ["media", "FCUnpublish", "deleteStream"])
        self.successResultOf(self.publisher.when_lost)
        self.assertEqual(self.own().account.messages_sent, len(frames))

    def test_what_waits_for_a_server_that_has_gone_is_accounted_for(self) -> None:
        self.transport.stalled = True
        for frame in group(0, size=50_000):
            self.publisher.send(frame)
        queued = self.own().messages_queued
        self.assertGreater(queued, 0)
        self.server.last.close(ConnectionLost())
        self.assertEqual((self.own().messages_queued, self.own().account.messages_dropped), (0, queued))
        self.publisher.send(keyframe(1000))
        self.assertEqual(self.own().account.messages_dropped, queued + 1)
        self.assertTrue(self.own().is_balanced)

    def test_the_first_frame_for_a_server_that_has_gone(self) -> None:
        self.server.last.close(ConnectionLost())
        self.publisher.send(keyframe(0))
        self.assertEqual((self.own().account.messages_sent, self.own().account.messages_dropped), (0, 1))

    def test_the_first_frame_for_a_server_that_is_slow_already(self) -> None:
        self.publisher.pauseProducing()
        self.publisher.send(keyframe(0))
        self.assertEqual(self.own().messages_queued, 1)
        self.publisher.resumeProducing()
        self.pump()
        self.assertEqual(self.server.last.frames, [keyframe(0)])

    def test_one_that_stops_reading_is_given_up(self) -> None:
        self.transport.stalled = True
        for number in range(10):
            self.publisher.send(keyframe(number, 20_000))
        self.clock.pump([1] * 11)
        self.pump()
        self.successResultOf(self.publisher.when_lost)
        self.assertIsInstance(self.publisher.loss.value, LimitExceededError)


class Upper(Protocol):
    """What an endpoint builds on top."""

    lost: Failure | None = None

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason


class EndpointTests(ClientTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        transport = cast(IStreamClientEndpoint, self.server)
        self.endpoint = RtmpPublishEndpoint(RtmpUrl.parse(URL), transport, self.clock)
        self.service = ClientService(
            self.endpoint, Factory.forProtocol(Upper), lambda attempt: float(attempt), self.clock
        )

    def test_it_connects_only_when_the_publish_is_accepted(self) -> None:
        self.server.silent_about = {"publish"}
        connecting = self.endpoint.connect(Factory.forProtocol(Upper))
        self.pump()
        self.assertNoResult(connecting)
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "now"))
        upper = self.successResultOf(connecting)
        assert isinstance(upper, Upper)
        self.assertIsInstance(upper.transport, RtmpPublisherProtocol)
        self.server.last.close(ConnectionLost())
        assert upper.lost is not None
        self.assertEqual(upper.lost.type, ConnectionLost)

    def test_a_refusal_is_a_failed_connection(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        connecting = self.endpoint.connect(Factory.forProtocol(Upper))
        self.pump()
        self.failureResultOf(connecting, DestinationRefusedError)

    def test_a_factory_that_wants_no_connection(self) -> None:
        factory = Factory.forProtocol(Upper)
        with mock.patch.object(factory, "buildProtocol", return_value=None):
            connecting = self.endpoint.connect(factory)
            self.pump()
        self.failureResultOf(connecting, ConnectionAbortedError)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertTrue(self.server.last.lost)

    def test_a_service_that_stops_says_goodbye(self) -> None:
        self.service.startService()
        self.pump()
        self.successResultOf(self.service.whenConnected())
        stopping = self.service.stopService()
        self.assertNoResult(stopping)
        self.pump()
        self.successResultOf(stopping)
        self.assertEqual(self.server.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_service_that_stops_while_it_negotiates(self) -> None:
        for silence in ("connect", "createStream", "publish"):
            self.server.silent_about = {silence}
            self.service.startService()
            self.pump()
            stopping = self.service.stopService()
            self.pump()
            self.successResultOf(stopping)
            self.assertTrue(self.server.last.lost)
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_service_that_is_refused_or_loses_the_server_tries_again(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        self.service.startService()
        self.pump()
        self.server.refuse_publish = None
        self.clock.advance(1)
        self.pump()
        self.successResultOf(self.service.whenConnected())
        self.server.last.close()
        self.clock.advance(1)
        self.pump()
        self.assertEqual(len(self.server.connections), 3)
        self.assertFalse(self.server.last.lost)
        self.service.stopService()
        self.pump()

    def test_to_a_server_of_our_own(self) -> None:
        server = MemoryServer(clock=self.clock)
        endpoint = RtmpPublishEndpoint(RtmpUrl.parse(URL), MemoryEndpoint(server), self.clock)
        connecting = endpoint.connect(Factory.forProtocol(Upper))
        server.pump()
        self.successResultOf(connecting)
        second = endpoint.connect(Factory.forProtocol(Upper))
        server.pump()
        failure = self.failureResultOf(second, DestinationRefusedError)
        self.assertNotIn("KEYMARK", str(failure.value))
        self.assertIn("BadName", str(failure.value))


class PlayTests(SynchronousTestCase):
    """The player's side, with a server of our own."""

    @override
    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect("app")
        self.encoder.publish("cam")
        self.frames: list[MediaFrame] = []

    def ask(self, url: str = "rtmp://host/app/cam") -> Deferred[RtmpPlayClientProtocol]:
        asking = Deferred.fromCoroutine(
            negotiate(
                RtmpPlayClientProtocol,
                RtmpUrl.parse(url),
                MemoryEndpoint(self.server),
                self.server.clock,
                ClientSettings(),
            )
        )
        self.server.pump()
        return asking

    def test_frames_come_from_the_first_on(self) -> None:
        sent = [*start_frames(), *group(0)]
        self.encoder.send(*sent)
        player = self.successResultOf(self.ask())
        later = group(200)
        self.encoder.send(*later)
        player.deliver_to(self.frames.extend)
        self.assertEqual(self.frames, sent + later)
        newest = group(400)
        self.encoder.send(*newest)
        self.assertEqual(self.frames, sent + later + newest)

    def test_the_receiver_is_there_from_the_beginning(self) -> None:
        player = self.successResultOf(self.ask())
        player.deliver_to(self.frames.extend)
        self.assertEqual(self.frames, [])
        self.encoder.send(keyframe(0))
        self.assertEqual(self.frames, [keyframe(0)])

    def test_what_nobody_takes_is_not_kept_for_ever(self) -> None:
        player = self.successResultOf(self.ask())
        for begin in range(0, 100_000, 1000):
            self.encoder.send(*[audio(begin + number) for number in range(100)])
        player.deliver_to(self.frames.extend)
        self.assertLess(len(self.frames), MAX_EARLY_FRAMES + 100)
        self.assertGreaterEqual(len(self.frames), MAX_EARLY_FRAMES)

    def test_large_frames_that_nobody_takes_are_not_kept_either(self) -> None:
        player = self.successResultOf(self.ask())
        size = 1024 * 1024
        for number in range(60):
            self.encoder.send(keyframe(number, size))
        player.deliver_to(self.frames.extend)
        kept = sum(len(frame.payload) for frame in self.frames)
        self.assertLess(kept, MAX_EARLY_BYTES + 2 * size)
        self.assertGreaterEqual(kept, MAX_EARLY_BYTES)
        self.assertEqual([frame.timestamp_ms for frame in self.frames], list(range(len(self.frames))))

    def test_the_end_of_the_stream_is_told_and_it_may_come_back(self) -> None:
        player = self.successResultOf(self.ask())
        codes: list[str] = []
        player.deliver_to(self.frames.extend)
        self.encoder.send(keyframe(0))
        self.encoder.end()
        player.on_status = codes.append
        self.encoder.publish("cam")
        self.encoder.end()
        self.assertEqual(codes, ["NetStream.Play.PublishNotify", "NetStream.Play.UnpublishNotify"])
        self.assertNoResult(player.when_lost)
        self.assertEqual(self.frames, [keyframe(0)])

    def test_the_end_of_the_server(self) -> None:
        player = self.successResultOf(self.ask())
        self.server.factory.shut_down()
        self.server.pump()
        self.successResultOf(player.when_lost)

    def test_no_such_stream(self) -> None:
        failure = self.failureResultOf(self.ask("rtmp://host/app/other"), DestinationRefusedError)
        self.assertIn("StreamNotFound", str(failure.value))

    def test_ending_on_purpose(self) -> None:
        player = self.successResultOf(self.ask())
        player.end()
        self.server.pump()
        self.successResultOf(player.when_lost)
        stream = self.server.registry.get("app/cam")
        assert stream is not None
        self.assertEqual(stream.subscribers, ())

    def test_a_receiver_that_fails_ends_the_play(self) -> None:
        player = self.successResultOf(self.ask())

        def fail(frames: list[MediaFrame]) -> None:
            raise ValueError("not today")

        player.deliver_to(fail)
        self.encoder.send(keyframe(0))
        self.successResultOf(player.when_lost)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_client_without_use_ignores_media(self) -> None:
        asking = Deferred.fromCoroutine(
            negotiate(
                RtmpClientProtocol,
                RtmpUrl.parse("rtmp://host/app/other"),
                MemoryEndpoint(self.server),
                self.server.clock,
                ClientSettings(),
            )
        )
        self.server.pump()
        protocol = self.successResultOf(asking)
        protocol.media_received([video_header()])
        protocol.end()
        self.server.pump()


class FunctionTests(SynchronousTestCase):
    """`rtmprelay.client`, which programs use."""

    def test_bad_addresses(self) -> None:
        for function in (client.publish, client.play):
            self.assertRaises(ConfigError, function, MemoryReactorClock(), "http://host/app")

    def connect(self, server: MemoryServer, function: str, url: str) -> Deferred[RtmpClientProtocol]:
        with mock.patch.object(client, "transport_endpoint", return_value=MemoryEndpoint(server)) as made:
            asking = getattr(client, function)(server.clock, url, TlsTrust(verify=False))
        self.assertEqual(made.call_args.args[2], TlsTrust(verify=False))
        server.pump()
        return cast("Deferred[RtmpClientProtocol]", asking)

    def test_publish_and_play(self) -> None:
        server = MemoryServer()
        publisher = self.successResultOf(self.connect(server, "publish", "rtmp://host/app/cam"))
        player = self.successResultOf(self.connect(server, "play", "rtmp://host/app/cam"))
        assert isinstance(publisher, RtmpPublisherProtocol)
        assert isinstance(player, RtmpPlayClientProtocol)
        frames: list[MediaFrame] = []
        player.deliver_to(frames.extend)
        publisher.send(keyframe(5))
        server.pump()
        self.assertEqual(frames, [keyframe(5)])
        publisher.end()
        player.end()
        server.pump()
        self.successResultOf(publisher.when_lost)
        self.successResultOf(player.when_lost)

    def test_a_reason_for_each_end(self) -> None:
        """An aborted connection says why, whatever the transport calls it."""
        server = MemoryServer()
        publisher = self.successResultOf(self.connect(server, "publish", "rtmp://host/app/cam"))
        publisher.connectionLost(Failure(ConnectionAborted()))
        self.assertEqual(publisher.loss.type, ConnectionAborted)
