"""Nobody publishes or plays before the gate has said yes; and what clients do meanwhile does no harm."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.access.guessing import Ban, GuessLimits
from rtmprelay.access.request import ALLOWED, Action, Verdict, refused
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.session.reports import PlayAccepted, PublishAccepted, StatusReceived
from rtmprelay.testing import MemoryClient, MemoryServer
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.messages import Command, to_raw
from tests.access.helpers import Answering, Hesitating
from tests.helpers import group, keyframe, start_frames
from tests.session.helpers import call

NO = refused("not you")


def encode_command(command: Command) -> bytes:
    """A command as a client sends it on a chunk stream of its own."""
    return encode_standalone(to_raw(command), 7, 65536)


def accepted(client: MemoryClient) -> bool:
    return any(isinstance(event, PublishAccepted | PlayAccepted) for event in client.events)


class AskingTests(SynchronousTestCase):
    def server(self, *authorizers: Any, settings: ServerSettings | None = None) -> MemoryServer:
        return MemoryServer(settings, authorizers=authorizers)

    def test_authorizer_is_asked_with_key_address_and_credentials(self) -> None:
        answering = Answering()
        server = self.server(answering)
        server.connect("live?token=t1").publish("film?key=k1")
        (request,) = answering.asked
        assert (request.action, request.stream) == (Action.PUBLISH, "live/film")
        assert (request.app, request.name) == ("live", "film")
        assert (request.host, request.connection, request.protocol) == ("192.0.2.1", "c000001", "rtmp")
        parameters = {name: value.reveal() for name, value in request.credentials.parameters().items()}
        assert parameters == {"key": "k1", "token": "t1"}
        assert request.credentials.user is None

    def test_refused_publisher_gets_denied_before_anything_else(self) -> None:
        server = self.server(Answering(NO))
        encoder = server.connect()
        encoder.publish("test")
        statuses = [event for event in encoder.events if isinstance(event, StatusReceived)]
        assert [(one.level, one.code, one.description) for one in statuses] == [
            ("error", "NetStream.Publish.Denied", "not you")
        ]
        assert not accepted(encoder)
        assert server.registry.get("live/test") is None
        (told,) = server.events_of(events.PublishRefused)
        assert (told.stream, told.reason) == ("live/test", "not you")

    def test_refused_player_gets_play_failed(self) -> None:
        server = self.server(Answering(NO))
        player = server.connect()
        player.play("test")
        (status,) = [event for event in player.events if isinstance(event, StatusReceived)]
        assert (status.level, status.code) == ("error", "NetStream.Play.Failed")
        (told,) = server.events_of(events.PlayRefused)
        assert told.reason == "not you"

    def test_refused_player_does_not_learn_whether_the_stream_is_live(self) -> None:
        """A player that may not watch is told the same, whether there is something to watch or not."""
        answering = Answering()
        server = self.server(answering)
        server.connect().publish("live")
        answering.answer = NO
        codes = []
        for name in ("live", "dead"):
            player = server.connect()
            player.play(name)
            codes.append(player.codes)
        assert codes == [["NetStream.Play.Failed"]] * 2

    # -- the time of the answer ------------------------------------------------------------------------------

    def test_late_answer_of_the_authorizer_is_carried_out(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        assert not accepted(encoder)
        assert server.registry.get("live/test") is None
        hesitating.say(ALLOWED)
        server.pump()
        assert accepted(encoder)
        encoder.send(*start_frames(), *group(0))
        player = server.connect()
        player.play("test")
        hesitating.say(ALLOWED)
        server.pump()
        assert player.frames == [*start_frames(), *group(0)]

    def test_media_sent_before_the_answer_is_published(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        encoder.send(*start_frames())
        encoder.send(*group(0))
        hesitating.say(ALLOWED)
        server.pump()
        encoder.send(*group(200))
        player = server.connect()
        player.play("test")
        hesitating.say(ALLOWED)
        server.pump()
        assert [frame.payload for frame in player.frames] == [
            frame.payload for frame in [*start_frames(), *group(200)]
        ]
        (stream,) = [server.registry.get("live/test")]
        assert stream is not None
        assert stream.counters.messages == len(start_frames()) + 2 * len(group(0))

    def test_media_of_a_refused_encoder_is_dropped(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        encoder.send(*group(0))
        hesitating.say(NO)
        server.pump()
        assert not encoder.connection.protocol.session.has_held_data
        assert encoder.transport.is_read
        assert server.registry.get("live/test") is None

    def test_encoder_is_left_unread_until_its_publish_is_answered(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        self.assertFalse(encoder.transport.is_read)
        frames = [keyframe(time, 300_000) for time in range(0, 400, 100)]
        encoder.send(*frames)
        assert server.factory.strangers_memory.used == 0
        hesitating.say(ALLOWED)
        server.pump()
        assert encoder.transport.is_read
        stream = server.registry.get("live/test")
        assert stream is not None
        assert stream.counters.messages == 4

    def test_player_is_read_while_it_waits(self) -> None:
        server = self.server(Hesitating())
        player = server.connect()
        player.play("test")
        assert player.transport.is_read

    def test_media_after_a_publish_in_the_same_read_is_kept(self) -> None:
        """An encoder that does not wait, whose first read has everything in it."""
        for answers_at_once in (True, False):
            hesitating = Hesitating()
            server = self.server(*([] if answers_at_once else [hesitating]))
            encoder = server.connect()
            encoder.session.publish("test")
            data = encoder.session.bytes_to_send()
            frames = [*start_frames(), keyframe(0, 100_000)]
            encoder.session.stream_id = 1
            data += encode_command(call("publish", 0.0, "test", "live", stream_id=1))
            data += b"".join(encoder.session.send_media(frame) for frame in frames)
            encoder.deliver(data)
            if not answers_at_once:
                hesitating.say(ALLOWED)
            server.pump()
            assert [one.counters.messages for one in server.registry] == [len(frames)]

    def test_refused_encoder_that_sends_at_once_can_read_the_reason(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        encoder.send(keyframe(0, 300_000))
        hesitating.say(NO)
        server.pump()
        assert encoder.codes == ["NetStream.Publish.Denied"]
        assert not encoder.transport.aborted
        encoder.send(keyframe(100, 300_000))
        server.advance(1.2, 0.1)
        assert encoder.connection.lost
        assert not encoder.transport.aborted
        assert server.factory.strangers_memory.used == 0

    def test_early_media_counts_for_the_bitrate(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating, settings=ServerSettings(max_publisher_kbps=100))
        encoder = server.connect()
        encoder.publish("test")
        encoder.send(keyframe(0, 200_000))
        hesitating.say(ALLOWED)
        server.pump()
        (closed,) = server.events_of(events.ConnectionClosed)
        assert closed.limit == "max_publisher_kbps"

    def test_question_is_cancelled_when_the_client_goes(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")
        encoder.disconnect()
        assert hesitating.cancelled == 1
        server.clock.advance(60)
        assert not server.clock.getDelayedCalls()
        assert not server.events_of(events.PublishRefused)

    def test_question_is_cancelled_when_the_request_is_taken_back(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        client = server.connect()
        client.play("test")
        client.end()
        assert hesitating.cancelled == 1
        assert not server.events_of(events.PlayRefused)

    def test_player_that_changes_its_request_gets_the_last_one(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        for name in ("first", "second"):
            encoder.publish(name)
            hesitating.say(ALLOWED)
            server.pump()
        player = server.connect()
        player.play("first")
        stream_id = player.session.stream_id
        player.session.channel.send(call("play", 9.0, "second", stream_id=stream_id))
        server.pump()
        assert hesitating.cancelled == 1
        assert [request.stream for request in hesitating.asked[2:]] == ["live/first", "live/second"]
        # The first answer has been cancelled; the second one is what counts.
        hesitating.answers.pop(0)
        hesitating.say(ALLOWED)
        server.pump()
        (started,) = server.events_of(events.PlayStarted)
        assert started.stream == "live/second"

    def test_shutdown_cancels_open_questions(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        server.connect().publish("test")
        drained = server.factory.shut_down()
        server.pump()
        self.successResultOf(drained)
        assert hesitating.cancelled == 1

    def test_failure_after_the_answer_closes_only_that_connection(self) -> None:
        hesitating = Hesitating()
        server = self.server(hesitating)
        encoder = server.connect()
        encoder.publish("test")

        def broken(*_: object) -> Any:
            raise RuntimeError("a bug")

        registry: Any = server.registry
        registry.publish = broken
        hesitating.say(ALLOWED)
        server.pump()
        assert encoder.connection.lost
        assert len(self.flushLoggedErrors(RuntimeError)) == 1

    # -- those who were refused ------------------------------------------------------------------------------

    def test_refused_client_that_does_nothing_else_is_closed(self) -> None:
        server = self.server(Answering(NO))
        encoder = server.connect()
        encoder.publish("test")
        server.advance(0.9, 0.1)
        assert not encoder.transport.closing
        server.advance(0.3, 0.1)
        assert encoder.connection.lost
        assert not encoder.transport.aborted
        (closed,) = server.events_of(events.ConnectionClosed)
        assert closed.reason == "not you"
        assert not server.clock.getDelayedCalls()

    def test_refused_client_that_goes_on_sending_is_closed(self) -> None:
        server = self.server(Answering(NO))
        encoder = server.connect()
        encoder.publish("test")
        for time in range(0, 1500, 100):
            encoder.send(keyframe(time))
            server.clock.advance(0.1)
        server.pump()
        assert encoder.connection.lost

    def test_refused_client_that_does_something_else_stays(self) -> None:
        answering = Answering()
        server = self.server(answering)
        client = server.connect()
        client.publish("allowed")
        answering.answer = NO
        client.play("other")
        server.advance(3)
        assert not client.connection.lost
        answering.answer = Deferred()
        second = server.connect()
        answering.answer = NO
        second.play("other")
        answering.answer = Deferred()
        second.play("another")
        server.advance(3)
        assert not second.connection.lost

    def test_client_that_tries_many_keys_is_closed(self) -> None:
        answering = Answering(NO)
        server = self.server(answering)
        client = server.connect()
        client.play("test")
        for number in range(20):
            stream_id = client.session.stream_id
            client.session.channel.send(call("play", 9.0, f"test?key={number}", stream_id=stream_id))
            server.pump()
        assert client.connection.lost
        assert len(answering.asked) < 12
        (closed,) = server.events_of(events.ConnectionClosed)
        assert closed.reason == "it was refused 11 times"

    def test_asking_for_streams_that_are_not_there_is_counted_as_being_refused(self) -> None:
        server = self.server()
        client = server.connect()
        client.play("gone")
        for number in range(20):
            stream_id = client.session.stream_id
            client.session.channel.send(call("play", 9.0, f"gone-{number}", stream_id=stream_id))
            server.pump()
        assert client.connection.lost
        server.clock.advance(1)
        assert [event.others for event in server.events_of(events.PlayRefused)] == [0, 9]

    def test_wrong_key_is_answered_late_and_a_right_one_beside_it_at_once(self) -> None:
        def answer() -> Verdict:
            parameters = answering.asked[-1].credentials.parameters()
            return ALLOWED if parameters["key"].reveal() == "right" else NO

        answering = Answering(answer)
        server = MemoryServer(authorizers=[answering], guess_limits=GuessLimits())
        wrong = server.connect()
        wrong.publish("test?key=wrong")
        assert wrong.codes == []
        self.assertFalse(wrong.transport.is_read)
        right = server.connect()
        right.publish("test?key=right")
        assert accepted(right)
        server.advance(1.1, 0.1)
        assert wrong.codes == ["NetStream.Publish.Denied"]
        server.advance(1.1, 0.1)
        assert wrong.connection.lost

    def test_guesser_that_closes_leaves_no_timer(self) -> None:
        server = MemoryServer(authorizers=[Answering(NO)], guess_limits=GuessLimits())
        wrong = server.connect()
        wrong.publish("test?key=wrong")
        wrong.disconnect()
        assert not server.clock.getDelayedCalls()

    def test_connection_from_a_banned_address_is_refused(self) -> None:
        server = MemoryServer(authorizers=[Answering(NO)], ban=Ban(3, 60))
        for _ in range(3):
            server.connect().publish("test?key=wrong")
            server.advance(5)
        assert server.open("192.0.2.1") is None
        assert server.open("192.0.2.2") is not None
        (refusal,) = server.events_of(events.ConnectionRefused)
        assert "--ban" in refusal.reason
        server.advance(60)
        assert server.open("192.0.2.1") is not None

    def test_keys_are_in_no_event(self) -> None:
        for verdict in (ALLOWED, NO):
            server = self.server(Answering(verdict))
            client = server.connect("live?token=MARKED1")
            client.publish("test?key=MARKED2")
            client.play("test?key=MARKED3")
            assert "MARKED" not in repr(server.events)
