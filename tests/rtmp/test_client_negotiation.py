"""How a client gets to its stream: accepted, refused, cancelled, and servers that misbehave."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import time
from typing import cast

from twisted.internet.defer import CancelledError
from twisted.internet.error import (
    ConnectingCancelledError,
    ConnectionDone,
    ConnectionRefusedError,
)
from twisted.internet.error import TimeoutError as TwistedTimeoutError

from rtmprelay.errors import (
    DestinationRefusedError,
    RemoteProtocolError,
)
from rtmprelay.rtmp.client import (
    RtmpPublisherProtocol,
)
from rtmprelay.session.reports import StatusReceived
from rtmprelay.wire import commands
from rtmprelay.wire.messages import (
    Command,
)
from tests.rtmp.client_harness import ClientTests


class NegotiationTests(ClientTests):
    def test_publish_is_negotiated_in_the_order_that_encoders_use(self) -> None:
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

    def test_tls_handshake_is_reported_as_a_step(self) -> None:
        publisher = self.publish("rtmps://host/app/key")
        publisher.handshakeCompleted()
        self.assertEqual(self.steps[-1], "tls")

    def test_query_of_an_application_is_sent_to_the_server(self) -> None:
        self.publish("rtmp://host:1935/app?a=b")
        properties = self.server.last.command("connect").command_object
        assert isinstance(properties, dict)
        self.assertEqual((properties["app"], properties["tcUrl"]), ("app?a=b", "rtmp://host:1935/app?a=b"))

    def test_accepted_client_has_no_deadline_any_more(self) -> None:
        self.publish()
        self.clock.advance(60)
        self.pump()
        self.assertFalse(self.server.last.lost)

    def test_a_second_acceptance_changes_nothing(self) -> None:
        publisher = self.publish()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "again"))
        self.assertNoResult(publisher.when_lost)
        self.assertEqual(self.steps.count("publish"), 1)

    def test_refused_publish_fails_with_the_servers_words(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "it is taken")
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertEqual(reason, "the server refused: NetStream.Publish.BadName: it is taken")
        self.assertTrue(self.server.last.lost)

    def test_refusal_sent_with_a_harmless_level_is_recognized_by_its_code(self) -> None:
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

    def test_other_status_before_the_answer_is_no_refusal(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        for code in ("NetStream.Play.Reset", "NetStream.Publish.Pending", "", "NetStream.Failed.Not"):
            self.server.last.say(commands.on_status(1, "status", code, "BadName"))
        self.pump()
        self.assertNoResult(asking)
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "now"))
        self.successResultOf(asking)

    def test_refused_connect_fails_with_the_servers_words(self) -> None:
        self.server.refuse_connect = lambda command: "no such application"
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertEqual(reason, "the server refused: NetConnection.Connect.Rejected: no such application")

    def test_refusal_without_a_description_says_which_step_failed(self) -> None:
        self.server.silent_about = {"createStream"}
        asking = self.ask()
        self.server.last.say(Command("_error", 4.0, None, ()))
        self.pump()
        self.assertIn("no stream", self.reason(asking, DestinationRefusedError))

    def test_key_repeated_by_the_server_is_masked_in_the_error(self) -> None:
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

    def test_query_of_the_application_repeated_by_the_server_is_masked(self) -> None:
        self.server.refuse_connect = lambda command: "token=QUERYMARK, not QUERYMARK"
        reason = self.reason(self.ask("rtmp://host/app?token=QUERYMARK"), DestinationRefusedError)
        self.assertTrue(reason.endswith(": ***, not ***"), reason)

    def test_long_refusal_is_cut_and_printable(self) -> None:
        self.server.refuse_publish = ("Code", "line\r\n\x1b[31m" + "x" * 100_000 + "KEYMARK")
        reason = self.reason(self.ask(), DestinationRefusedError)
        self.assertLess(len(reason), 400)
        self.assertTrue(reason.isprintable())

    def test_refusal_of_many_megabytes_takes_little_processor_time(self) -> None:
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

    def test_server_that_never_answers_is_given_up_at_the_timeout(self) -> None:
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

    def test_server_without_a_handshake_is_given_up_at_the_timeout(self) -> None:
        self.server.deaf = True
        asking = self.ask(timeout=3)
        self.clock.advance(3)
        self.pump()
        self.assertIn("no answer within 3 s", self.reason(asking, TwistedTimeoutError))

    def test_server_of_another_protocol_is_a_protocol_error(self) -> None:
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

    def test_server_that_closes_before_its_answer_fails_the_publish(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        self.server.last.close()
        self.reason(asking, ConnectionDone)

    def test_server_that_cannot_be_reached_fails_the_publish(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.reason(self.ask(), ConnectionRefusedError)

    def test_cancelling_aborts_the_connection(self) -> None:
        self.server.silent_about = {"publish"}
        asking = self.ask()
        asking.cancel()
        self.pump()
        self.failureResultOf(asking, CancelledError)
        self.assertTrue(self.server.last.lost)
        self.assertTrue(self.server.last.transport.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancelling_before_there_is_a_connection_stops_connecting(self) -> None:
        self.server.black_hole = True
        asking = self.ask()
        asking.cancel()
        self.failureResultOf(asking, ConnectingCancelledError)
        self.assertEqual(self.server.cancelled, 1)

    def test_acceptance_after_a_refusal_is_ignored(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")
        asking = self.ask()
        self.server.last.say(commands.on_status(1, "status", "NetStream.Publish.Start", "or yes"))
        self.reason(asking, DestinationRefusedError)
