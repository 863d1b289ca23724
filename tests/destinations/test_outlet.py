"""One stream on its way to one destination: states, order, time, accounts, and a source that comes and goes."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.error import ConnectionRefusedError, DNSLookupError
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay import events
from rtmprelay.destinations.delivery import Delivery
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from rtmprelay.session.client import ClientSession
from rtmprelay.testing import MemoryClient
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.helpers import RelayWorld, StubConnection, destination
from tests.helpers import audio, audio_header, group, inter, keyframe, metadata, start_frames, video_header


def coded(messages: Sequence[RawMessage]) -> list[RawMessage]:
    """Audio and video without their headers."""
    return [raw for raw in messages if raw.type_id != 18 and raw.payload[1] != 0]


def wrapped(frames: Sequence[MediaFrame]) -> list[MediaFrame]:
    """The frames, with timestamps that fit into 32 bits."""
    return [MediaFrame(frame.kind, frame.timestamp_ms % TIMESTAMP_MODULUS, frame.payload) for frame in frames]


class OutletTests(SynchronousTestCase):
    """Has a relay with one destination, and its server."""

    @override
    def setUp(self) -> None:
        self.world = RelayWorld()
        self.server = self.world.stub()

    @property
    def last(self) -> StubConnection:
        return self.server.last

    def begin(self, **settings: Any) -> MemoryClient:
        """Add the destination, publish, and send the first frames."""
        self.world.add(**settings)
        encoder = self.world.encoder()
        self.world.send(encoder, *start_frames(), *group(0))
        return encoder

    def assert_begins_properly(self, connection: StubConnection) -> None:
        """Metadata in its envelope, headers, a keyframe."""
        self.assertTrue(
            connection.media[0].payload.startswith(b"\x02\x00\x0d@setDataFrame\x02\x00\x0aonMetaData")
        )
        self.assertEqual(
            [raw.payload[:2] for raw in connection.media[1:4]], [b"\x17\x00", b"\xaf\x00", b"\x17\x01"]
        )

    def assert_time_goes_on(self) -> None:
        """Over all connections, coded frames never go back in time, and none comes twice."""
        messages = [raw for connection in self.server.connections for raw in coded(connection.media)]
        for before, after in pairwise(messages):
            self.assertGreaterEqual(milliseconds_between(before.timestamp, after.timestamp), 0)
        self.assertEqual(len({raw.payload for raw in messages}), len(messages), "a frame was sent twice")


# -- states --------------------------------------------------------------------------------------------------


class StateTests(OutletTests):
    def test_idle_without_a_source(self) -> None:
        self.world.add()
        status = self.world.status()
        self.assertIs(status.state, State.IDLE)
        self.assertEqual(status.outlets, ())
        self.assertEqual(self.server.attempts, 0)
        self.assertEqual((status.messages_sent, status.connect_time, status.last_error), (0, None, None))
        self.assertEqual((status.name, status.url), ("one", "rtmp://one:1935/live/***"))

    def test_connecting(self) -> None:
        self.server.silent_about = {"publish"}
        self.begin()
        outlet = self.world.outlet()
        self.assertIs(outlet.state, State.CONNECTING)
        self.assertIs(self.world.status().state, State.CONNECTING)
        self.assertEqual(
            (outlet.connect_time, outlet.next_attempt_time, outlet.last_error), (None, None, None)
        )
        self.assertEqual(outlet.messages_sent, 0)
        self.assertEqual(self.last.media, [])
        self.world.assert_balanced()

    def test_connected(self) -> None:
        self.world.advance(3)
        encoder = self.begin()
        self.world.advance(2)
        self.world.send(encoder, keyframe(500))
        outlet, status = self.world.outlet(), self.world.status()
        self.assertIs(outlet.state, State.CONNECTED)
        self.assertIs(status.state, State.CONNECTED)
        self.assertEqual((outlet.connect_time, outlet.last_sent_time), (3.0, 5.0))
        self.assertEqual((status.connect_time, status.last_sent_time), (3.0, 5.0))
        self.assertEqual((outlet.messages_in, outlet.messages_sent, outlet.reconnect_count), (14, 14, 0))
        self.assertEqual(outlet.bytes_sent, sum(len(frame.payload) for frame in self.last.frames))
        self.assertEqual((status.messages_sent, status.bytes_sent), (14, outlet.bytes_sent))
        self.assertEqual((outlet.stream, outlet.address), ("live/cam", "rtmp://one:1935/live/***"))

    def test_error_and_every_delay(self) -> None:
        self.server.failure = DNSLookupError("one")
        self.begin()
        now = 0.0
        for attempt, delay in enumerate([1, 2, 4, 8, 16, 32, 60, 60], 1):
            outlet = self.world.outlet()
            self.assertIs(outlet.state, State.ERROR)
            self.assertEqual(outlet.error_class, "network")
            self.assertEqual(outlet.last_error, "the name of the server is not known (DNS)")
            self.assertEqual(outlet.next_attempt_time, now + delay)
            self.assertEqual(self.world.status().next_attempt_time, now + delay)
            self.assertFalse(outlet.given_up)
            self.assertEqual(self.server.attempts, attempt)
            self.world.advance(delay)
            now += delay
        told = self.world.told(events.DestinationReconnecting)
        self.assertEqual([event.delay for event in told[:4]], [1, 2, 4, 8])
        self.assertEqual([event.attempt for event in told[:4]], [2, 3, 4, 5])
        self.world.assert_balanced()

    def test_the_error_is_kept_while_it_is_tried_again_and_cleared_by_success(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin()
        self.server.failure = None
        self.server.silent_about = {"publish"}
        self.world.advance(1)
        outlet = self.world.outlet()
        self.assertIs(outlet.state, State.CONNECTING)
        self.assertEqual(outlet.last_error, "nothing listens there (connection refused)")
        self.assertIsNone(outlet.next_attempt_time)
        self.server.silent_about = set()
        self.world.advance(12)
        outlet = self.world.outlet()
        self.assertIs(outlet.state, State.CONNECTED)
        self.assertEqual((outlet.last_error, outlet.error_class), (None, None))
        self.assertIsNone(self.world.status().last_error)

    def test_a_server_that_never_answers(self) -> None:
        self.server.silent_about = {"connect"}
        self.begin()
        self.world.advance(10)
        self.assertEqual(self.world.outlet().last_error, "the server does not answer (timed out)")
        self.assertEqual(self.world.outlet().error_class, "network")

    def test_a_refusal_is_asked_about_less_eagerly(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "taken")
        self.begin()
        outlet = self.world.outlet()
        self.assertEqual(outlet.error_class, "refused")
        self.assertIn("BadName", outlet.last_error or "")
        self.assertEqual(outlet.next_attempt_time, 10.0)
        self.world.advance(9.5)
        self.assertEqual(self.server.attempts, 1)
        self.world.advance(0.5)
        self.assertEqual(self.server.attempts, 2)

    def test_garbage(self) -> None:
        self.server.greets_with = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        self.begin()
        self.assertEqual(self.world.outlet().error_class, "protocol")

    def test_three_quick_closes(self) -> None:
        self.begin()
        for expected, delay in (("network", 1), ("network", 2), ("refused", 10)):
            self.world.advance(4.5)
            self.last.close()
            outlet = self.world.outlet()
            self.assertEqual(outlet.error_class, expected)
            self.assertEqual(outlet.next_attempt_time, self.world.clock.seconds() + delay)
            self.world.advance(delay - 0.5)
            self.assertIs(self.world.outlet().state, State.ERROR)
            self.assertIn("closed the connection", self.world.outlet().last_error or "")
            if expected == "network":
                self.world.advance(0.5)
        self.assertIn("is the key right?", self.world.outlet().last_error or "")

    def test_a_lost_connection(self) -> None:
        encoder = self.begin()
        self.world.advance(40)
        self.server.lose_all()
        outlet = self.world.outlet()
        self.assertIs(outlet.state, State.ERROR)
        self.assertEqual((outlet.error_class, outlet.last_error), ("network", "the connection was lost"))
        self.assertIsNone(outlet.connect_time)
        self.assertEqual(outlet.next_attempt_time, 41.0)
        self.world.advance(1)
        outlet = self.world.outlet()
        self.assertEqual(
            (outlet.state, outlet.reconnect_count, outlet.connect_time), (State.CONNECTED, 1, 41.0)
        )
        self.assertEqual(self.world.status().reconnect_count, 1)
        self.world.send(encoder, keyframe(50_000))
        self.world.assert_balanced()

    def test_an_error_while_the_way_is_made(self) -> None:
        """A certificate file that is not there any more must not be anybody else's trouble."""
        other = self.world.stub("two")
        self.world.endpoint_error = FileNotFoundError(2, "No such file", "ca.pem")
        self.world.add()
        encoder = self.world.encoder()
        outlet = self.world.outlet()
        self.assertEqual((outlet.state, outlet.error_class), (State.ERROR, "network"))
        self.assertIn("No such file", outlet.last_error or "")
        self.world.endpoint_error = None
        self.world.add("two", "rtmp://two/live/key")
        self.world.advance(1)
        self.assertIs(self.world.status().state, State.CONNECTED)
        self.world.send(encoder, *start_frames(), *group(0))
        self.assertEqual(other.last.frames, self.last.frames)

    def test_given_up(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.begin(max_retries=2)
        self.world.advance(500)
        outlet = self.world.outlet()
        self.assertEqual(self.server.attempts, 3)
        self.assertTrue(outlet.given_up)
        self.assertIs(outlet.state, State.ERROR)
        self.assertIsNone(outlet.next_attempt_time)
        self.assertEqual(outlet.last_error, "nothing listens there (connection refused)")
        (told,) = self.world.told(events.DestinationGivenUp)
        self.assertEqual((told.destination, told.stream, told.failures), ("one", "live/cam", 3))
        self.assertEqual(len(self.world.told(events.DestinationReconnecting)), 2)
        # The operator revives it.
        self.server.failure = None
        self.world.manager.reconnect("one")
        self.world.pump()
        self.assertFalse(self.world.outlet().given_up)
        self.world.send(encoder, *group(1000))
        self.assertGreater(self.world.outlet().messages_sent, 0)
        self.world.assert_balanced()

    def test_given_up_and_revived_in_one_breath(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin(max_retries=1)
        self.world.clock.advance(1.0)
        self.server.failure = None
        self.world.manager.reconnect("one")
        self.world.advance(1)
        self.assertIs(self.world.outlet().state, State.CONNECTED)

    def test_the_next_source_is_tried_after_giving_up(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.begin(max_retries=1)
        self.world.advance(10)
        encoder.end()
        self.assertIs(self.world.status().state, State.IDLE)
        self.server.failure = None
        encoder.publish("cam")
        self.world.pump()
        self.assertIs(self.world.status().state, State.CONNECTED)

    def test_an_attempt_that_we_cancel_is_no_error(self) -> None:
        self.server.black_hole = True
        encoder = self.begin()
        encoder.end()
        self.assertEqual(self.server.cancelled, 1)
        status = self.world.status()
        self.assertEqual((status.state, status.last_error), (State.IDLE, None))

    def test_nor_is_one_that_we_make_anew(self) -> None:
        self.server.black_hole = True
        self.begin()
        self.server.black_hole = False
        self.server.silent_about = {"publish"}
        self.world.manager.reconnect("one")
        self.world.pump()
        outlet = self.world.outlet()
        self.assertEqual((self.server.cancelled, self.server.attempts), (1, 2))
        self.assertEqual((outlet.state, outlet.last_error), (State.CONNECTING, None))

    def test_the_last_error_stays_when_the_source_ends(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.begin()
        encoder.end()
        status = self.world.status()
        self.assertEqual((status.state, status.error_class), (State.IDLE, "network"))


# -- what is sent --------------------------------------------------------------------------------------------


class OrderTests(OutletTests):
    def test_the_first_connection_gets_everything(self) -> None:
        self.begin()
        self.assert_begins_properly(self.last)
        self.assertEqual(self.last.frames, [*start_frames(), *group(0)])
        self.assertEqual(self.last.order[-2:], ["publish", "media"])

    def test_a_destination_added_later_begins_with_the_cached_pictures(self) -> None:
        encoder = self.world.encoder()
        self.world.send(encoder, *start_frames(), *group(0), *group(200))
        self.world.add()
        self.assert_begins_properly(self.last)
        self.assertEqual(self.last.frames[3:], group(200))
        self.assertEqual([raw.timestamp for raw in self.last.media[:4]], [0, 200, 200, 200])

    def test_every_connection_begins_properly(self) -> None:
        encoder = self.begin()
        for round_ in range(1, 5):
            self.server.lose_all()
            self.world.send(encoder, inter(1000 * round_), audio(1000 * round_))
            self.world.advance(40)
            self.world.send(encoder, *group(1000 * round_ + 100))
            # Sound goes on at once, pictures with the next keyframe.
            self.assertEqual(self.last.media[0].type_id, 18)
            self.assertEqual([raw.payload[1] for raw in self.last.media[1:3]], [0, 0])
            first = next(raw for raw in coded(self.last.media) if raw.type_id == 9)
            self.assertEqual(first.payload[0] >> 4, 1)
            self.world.assert_balanced()
        self.assertEqual(len(self.server.connections), 5)
        self.assert_time_goes_on()

    def test_pictures_that_were_sent_are_not_sent_again(self) -> None:
        encoder = self.begin()
        self.server.lose_all()
        self.world.advance(1)
        self.assertEqual(coded(self.last.media), [])
        self.world.send(encoder, inter(300), audio(300), *group(400))
        self.assertEqual([raw.timestamp for raw in coded(self.last.media)][:3], [300, 400, 400])
        self.assertEqual(self.world.outlet().dropped_by_reason, {"waiting_for_keyframe": 1})
        self.assert_time_goes_on()

    def test_headers_do_not_go_back_in_time_either(self) -> None:
        self.begin()
        self.server.lose_all()
        self.world.advance(1)
        self.assertEqual([raw.timestamp for raw in self.last.media], [0, 160, 160])

    def test_pictures_that_were_missed_are_sent_if_they_are_still_there(self) -> None:
        encoder = self.begin()
        self.server.lose_all()
        self.world.send(encoder, *group(200), *group(400))
        self.assertEqual(self.world.outlet().dropped_by_reason, {"not_connected": 20})
        self.world.advance(1)
        self.assert_begins_properly(self.last)
        self.assertEqual(self.last.frames[3:], group(400))
        self.assertEqual(self.world.outlet().dropped_by_reason, {"not_connected": 10})
        self.world.assert_balanced()
        self.assert_time_goes_on()

    def test_sound_that_runs_behind_does_not_bring_a_picture_twice(self) -> None:
        """What was sent last is not always what is newest."""
        encoder = self.begin()
        self.world.send(encoder, keyframe(1000), audio(990))
        self.server.lose_all()
        self.world.advance(1)
        self.assertEqual(coded(self.last.media), [])
        self.world.send(encoder, keyframe(1040))
        self.assertEqual([raw.timestamp for raw in coded(self.last.media)], [1040])

    def test_time_goes_on_over_the_end_of_32_bits(self) -> None:
        self.world.add()
        encoder = self.world.encoder()
        begin = TIMESTAMP_MODULUS - 300
        self.world.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        self.server.lose_all()
        self.world.send(encoder, *wrapped(group_around(begin + 200)))
        self.world.advance(1)
        self.world.send(encoder, *wrapped(group_around(begin + 400)))
        self.server.lose_all()
        self.world.send(encoder, *wrapped(group_around(begin + 600)))
        self.world.advance(2)
        times = [[raw.timestamp for raw in coded(connection.media)] for connection in self.server.connections]
        self.assertEqual(times[0][0], begin)
        self.assertEqual(times[1][0], begin + 200)
        self.assertEqual(times[1][-1], begin + 560 - TIMESTAMP_MODULUS)
        self.assertEqual(times[2][0], begin + 600 - TIMESTAMP_MODULUS)
        self.assert_time_goes_on()
        self.world.assert_balanced()

    def test_pictures_behind_the_end_of_32_bits_are_newer_than_those_before(self) -> None:
        self.world.add()
        encoder = self.world.encoder()
        begin = TIMESTAMP_MODULUS - 300
        self.world.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        self.server.lose_all()
        self.world.send(encoder, *wrapped(group_around(begin + 400)))
        self.world.advance(1)
        self.assertEqual(coded(self.last.media)[0].timestamp, 100)
        self.server.lose_all()
        self.world.advance(2)
        self.assertEqual(coded(self.last.media), [])
        self.assert_time_goes_on()

    def test_the_message_stream_is_the_one_that_the_server_gave(self) -> None:
        encoder = self.begin()
        self.server.stream_id = 9
        self.server.lose_all()
        self.world.advance(1)
        self.world.send(encoder, *group(400))
        self.assertEqual({raw.stream_id for raw in self.server.connections[0].media}, {1})
        self.assertEqual({raw.stream_id for raw in self.last.media}, {9})
        self.assertEqual(self.last.command("publish").stream_id, 9)

    def test_data_goes_through_live(self) -> None:
        encoder = self.begin()
        cue = MediaFrame(MediaKind.DATA, 170, b"\x02\x00\x05onCue\x05")
        self.world.send(encoder, cue)
        self.assertEqual(self.last.media[-1], RawMessage(18, 170, 1, cue.payload))

    def test_new_metadata_while_live(self) -> None:
        encoder = self.begin()
        self.world.send(encoder, metadata(width=640.0))
        self.assertIn(b"@setDataFrame", self.last.media[-1].payload)
        self.assertEqual(self.last.frames[-1], metadata(width=640.0))

    def test_sound_alone(self) -> None:
        self.world.add()
        encoder = self.world.encoder()
        self.world.send(encoder, audio_header(), audio(0), audio(20))
        self.server.lose_all()
        self.world.send(encoder, audio(40))
        self.world.advance(1)
        self.world.send(encoder, audio(60))
        self.assertEqual([raw.payload[1] for raw in self.last.media], [0, 1])
        self.assertEqual(self.world.outlet().dropped_by_reason, {"not_connected": 1})
        self.assert_time_goes_on()
        self.world.assert_balanced()

    def test_a_new_configuration_in_the_middle_goes_through(self) -> None:
        encoder = self.begin()
        self.world.send(encoder, video_header(b"other"), *group(400))
        self.assertEqual(len(self.server.connections), 1)
        self.assertIn(video_header(b"other").payload, [raw.payload for raw in self.last.media])


def group_around(begin: int) -> list[MediaFrame]:
    """A group of pictures whose timestamps may be over 32 bits; the payloads tell them apart."""
    frames = []
    for number in range(5):
        time = begin + 40 * number
        maker = inter if number else keyframe
        frames.append(MediaFrame(MediaKind.VIDEO, time, maker(time % TIMESTAMP_MODULUS).payload))
        frames.append(MediaFrame(MediaKind.AUDIO, time, audio(time % TIMESTAMP_MODULUS).payload))
    return frames


# -- slow servers --------------------------------------------------------------------------------------------


class StallTests(OutletTests):
    def test_a_server_that_reads_again_gets_everything_in_order(self) -> None:
        encoder = self.begin()
        self.last.transport.stalled = True
        sent = [frame for begin in range(200, 2200, 200) for frame in group(begin, size=10_000)]
        self.world.send(encoder, *sent[:50])
        self.world.send(encoder, *sent[50:])
        self.assertGreater(self.world.outlet().messages_queued, 0)
        self.world.assert_balanced()
        self.world.advance(5)
        self.last.transport.stalled = False
        self.world.pump()
        self.assertEqual(self.world.outlet().messages_queued, 0)
        self.assertEqual(self.last.frames[13:], sent)
        self.world.assert_balanced()

    def test_one_that_does_not_is_cut_off_and_tried_again(self) -> None:
        encoder = self.begin()
        stalled = self.last
        stalled.transport.stalled = True
        for begin in range(200, 20_000, 200):
            self.world.send(encoder, *group(begin, size=10_000))
            self.world.assert_balanced()
            if stalled.lost:
                break
            self.world.advance(0.2)
        self.assertTrue(stalled.transport.aborted)
        outlet = self.world.outlet()
        self.assertEqual((outlet.state, outlet.error_class), (State.ERROR, "network"))
        self.assertIn("took no byte for 10 s", outlet.last_error or "")
        self.world.advance(2)
        self.assertIs(self.world.outlet().state, State.CONNECTED)
        self.assert_time_goes_on()
        self.world.assert_balanced()

    def test_a_stalled_one_that_ends(self) -> None:
        encoder = self.begin()
        self.last.transport.stalled = True
        self.world.send(
            encoder, *[frame for begin in range(200, 2200, 200) for frame in group(begin, size=10_000)]
        )
        queued = self.world.outlet().messages_queued
        encoder.end()
        self.world.advance(2)
        self.assertTrue(self.last.transport.aborted)
        status = self.world.status()
        self.assertIs(status.state, State.IDLE)
        self.assertEqual(sum(status.dropped_by_reason.values()), queued)
        self.assertEqual(status.messages_dropped, queued)


# -- a source that comes and goes ----------------------------------------------------------------------------


class SourceTests(OutletTests):
    def come_back(self, *frames: MediaFrame) -> MemoryClient:
        encoder = self.world.encoder()
        self.world.send(encoder, *frames)
        return encoder

    def test_an_end_on_purpose(self) -> None:
        encoder = self.begin()
        encoder.end()
        self.world.pump()
        self.assertEqual(self.last.order[-3:], ["media", "FCUnpublish", "deleteStream"])
        self.assertEqual(self.last.command("FCUnpublish").arguments[0], "key")
        self.assertEqual(self.last.command("deleteStream").arguments[0], 1.0)
        self.assertTrue(self.last.lost)
        self.assertFalse(self.last.transport.aborted)
        status = self.world.status()
        self.assertIs(status.state, State.IDLE)
        self.assertEqual((status.messages_sent, status.messages_dropped, status.last_error), (13, 0, None))
        (told,) = self.world.told(events.DestinationClosed)
        self.assertEqual((told.reason, told.messages), ("the publisher ended the stream", 13))
        self.assertEqual(len(self.world.relay.registry), 0)

    def test_a_lost_source_that_comes_back(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.assertTrue(self.world.outlet().lingering)
        self.assertIs(self.world.outlet().state, State.CONNECTED)
        (held,) = self.world.told(events.DestinationHeld)
        self.assertEqual((held.destination, held.stream, held.linger), ("one", "live/cam", 10.0))
        self.world.advance(9.5)
        self.come_back(*start_frames(), *group(7000))
        self.assertFalse(self.world.outlet().lingering)
        self.world.advance(30)
        self.assertEqual(len(self.server.connections), 1)
        self.assertNotIn("FCUnpublish", self.last.commands)
        before, after = coded(self.last.media)[:10], coded(self.last.media)[10:]
        # One offset for sound and pictures, as long a gap as there was.
        self.assertEqual(
            {raw.timestamp - frame.timestamp_ms for raw, frame in zip(after, group(7000), strict=True)},
            {9660 - 7000},
        )
        self.assertEqual(before[-1].timestamp, 160)
        self.assert_time_goes_on()
        self.world.assert_balanced()

    def test_again_and_again(self) -> None:
        encoder = self.begin()
        for _ in range(4):
            encoder.disconnect(clean=False)
            self.world.advance(8)
            encoder = self.come_back(*start_frames(), *group(0))
        self.assertEqual(len(self.server.connections), 1)
        times = [raw.timestamp for raw in coded(self.last.media)]
        self.assertEqual(times, sorted(times))

    def test_one_that_comes_back_over_the_end_of_32_bits(self) -> None:
        self.world.add()
        encoder = self.world.encoder()
        begin = TIMESTAMP_MODULUS - 1000
        self.world.send(encoder, *start_frames(), *wrapped(group_around(begin)))
        encoder.disconnect(clean=False)
        self.world.advance(2)
        self.come_back(*start_frames(), *group(50))
        self.assertEqual(len(self.server.connections), 1)
        self.assertEqual(coded(self.last.media)[10].timestamp, (begin + 160 + 2000) % TIMESTAMP_MODULUS)

    def test_one_that_comes_back_otherwise_encoded(self) -> None:
        for headers in (
            [metadata(width=1280.0), video_header(b"other"), audio_header()],
            [video_header(), audio_header(b"\x13\x13")],
            [audio_header(b"\x13\x13"), video_header()],
        ):
            self.setUp()
            encoder = self.begin()
            encoder.disconnect(clean=False)
            self.world.advance(1)
            self.come_back(*headers, *group(0))
            self.world.advance(1)
            first, second = self.server.connections
            self.assertEqual(first.order[-3:], ["media", "FCUnpublish", "deleteStream"])
            self.assertEqual(len(first.media), 13, "nothing of the new one goes to the old connection")
            self.assertEqual(second.order[-2:], ["publish", "media"])
            self.assertEqual(second.frames[-10].payload, group(0)[0].payload)
            self.assertIs(self.world.outlet().state, State.CONNECTED)
            self.assertIsNone(self.world.outlet().last_error)
            self.world.assert_balanced()

    def test_another_configuration_behind_the_first_sound(self) -> None:
        """Sound may come before the first picture's configuration, in a read of its own."""
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.advance(1)
        encoder = self.come_back(audio_header(), audio(0), audio(20))
        self.assertEqual(len(self.server.connections), 1)
        self.world.send(encoder, video_header(b"other"), keyframe(40))
        self.world.advance(1)
        self.assertEqual(len(self.server.connections), 2)
        self.assertNotIn(
            video_header(b"other").payload, [raw.payload for raw in self.server.connections[0].media]
        )

    def test_another_kind_of_media_than_before(self) -> None:
        self.world.add()
        encoder = self.world.encoder()
        self.world.send(encoder, audio_header(), audio(0))
        encoder.disconnect(clean=False)
        self.world.advance(1)
        self.come_back(audio_header(), video_header(), *group(0))
        self.world.advance(1)
        self.assertEqual(len(self.server.connections), 2)

    def test_one_that_only_looked_in_does_not_hide_the_difference(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.advance(1)
        self.come_back().disconnect(clean=False)
        self.world.advance(1)
        self.come_back(video_header(b"other"), audio_header(), *group(0))
        self.world.advance(1)
        self.assertEqual(len(self.server.connections), 2)

    def test_after_the_return_the_encoder_may_change_its_configuration(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.advance(1)
        encoder = self.come_back(*start_frames(), *group(0))
        self.world.send(encoder, video_header(b"other"), *group(400))
        self.assertEqual(len(self.server.connections), 1)

    def test_one_that_does_not_come_back(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.advance(9.5)
        self.assertFalse(self.last.lost)
        self.world.advance(0.5)
        self.assertEqual(self.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertTrue(self.last.lost)
        self.assertIs(self.world.status().state, State.IDLE)
        (told,) = self.world.told(events.DestinationClosed)
        self.assertEqual(told.reason, "the publisher was lost and did not return")
        self.assertEqual(len(self.world.relay.registry), 0)

    def test_no_linger_at_all(self) -> None:
        encoder = self.begin(linger=0.0)
        encoder.disconnect(clean=False)
        self.world.pump()
        self.assertEqual(self.last.order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(self.world.told(events.DestinationHeld), [])
        self.come_back(*start_frames(), *group(0))
        self.assertEqual(len(self.server.connections), 2)
        self.assertEqual(coded(self.last.media)[0].timestamp, 0, "a new broadcast has its own time")

    def test_the_server_is_lost_while_the_source_is(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.advance(1)
        self.server.lose_all()
        self.world.advance(60)
        self.assertIs(self.world.status().state, State.IDLE)
        self.assertEqual(self.server.attempts, 1)
        self.come_back(*start_frames(), *group(0))
        self.assertEqual(self.server.attempts, 2)
        self.assertIs(self.world.status().state, State.CONNECTED)

    def test_the_source_is_lost_while_the_server_is(self) -> None:
        encoder = self.begin()
        self.server.failure = ConnectionRefusedError()
        self.server.lose_all()
        encoder.disconnect(clean=False)
        self.assertIs(self.world.status().state, State.IDLE)
        self.world.advance(100)
        self.assertEqual(self.server.attempts, 1)

    def test_a_silent_source_gives_way(self) -> None:
        self.begin()
        self.world.advance(6)
        self.come_back(*start_frames(), *group(7000))
        self.world.advance(20)
        self.assertEqual(len(self.server.connections), 1)
        self.assertFalse(self.world.outlet().lingering)
        self.assert_time_goes_on()

    def test_a_clean_end_and_a_new_begin_at_once(self) -> None:
        encoder = self.begin()
        encoder.end()
        encoder.publish("cam")
        encoder.send(*start_frames(), *group(0))
        self.world.pump()
        self.assertEqual(len(self.server.connections), 2)
        self.assertEqual(self.server.connections[0].order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(self.last.frames, [*start_frames(), *group(0)])
        self.assertEqual(self.world.status().messages_sent, 26)

    def test_reconnect_while_held_ends_it(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.world.manager.reconnect("one")
        self.world.advance(20)
        self.assertIs(self.world.status().state, State.IDLE)
        self.assertEqual(len(self.server.connections), 1)
        (closed,) = self.world.told(events.DestinationClosed)
        self.assertEqual(closed.reason, "reconnected while the publisher was away")

    def test_publisher_that_returns_during_the_goodbye_begins_a_new_broadcast(self) -> None:
        encoder = self.begin()
        encoder.disconnect(clean=False)
        self.last.transport.stalled = True
        self.world.manager.reconnect("one")
        self.come_back(*start_frames(), *group(0))
        self.world.advance(2)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, False])
        self.assertEqual(self.last.frames, [*start_frames(), *group(0)])

    def test_publisher_lost_during_the_goodbye_is_not_waited_for(self) -> None:
        encoder = self.begin()
        self.last.transport.stalled = True
        self.world.manager.disable("one")
        encoder.disconnect(clean=False)
        self.world.advance(2)
        self.assertEqual(self.world.told(events.DestinationHeld), [])
        (closed,) = self.world.told(events.DestinationClosed)
        self.assertEqual(closed.reason, "the destination was disabled")


# -- reconnect -----------------------------------------------------------------------------------------------


class ReconnectTests(OutletTests):
    def test_nothing_goes_to_a_connection_that_has_said_goodbye(self) -> None:
        encoder = self.begin()
        first = self.last
        first.transport.stalled = True
        self.world.manager.reconnect("one")
        outlet = self.world.outlet()
        self.assertEqual((outlet.state, outlet.connect_time), (State.CONNECTING, None))
        self.world.send(encoder, *group(200))
        self.world.assert_balanced()
        self.world.advance(2)
        self.assertEqual(len(self.server.connections), 2)
        self.assertEqual(self.last.frames[3:], group(200))
        self.assertEqual(self.world.outlet().dropped_by_reason, {})
        self.assertIsNone(self.world.outlet().last_error)
        self.assertEqual(self.world.outlet().reconnect_count, 1)
        self.assert_time_goes_on()
        self.world.assert_balanced()

    def test_the_goodbye_is_said(self) -> None:
        encoder = self.begin()
        self.world.manager.reconnect("one")
        self.world.send(encoder, *group(200))
        self.assertEqual(self.server.connections[0].order[-2:], ["FCUnpublish", "deleteStream"])
        self.assertEqual(len(self.server.connections[0].media), 13)

    def test_it_does_not_wait_any_longer(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin()
        self.world.advance(20)
        attempts = self.server.attempts
        self.world.manager.reconnect("one")
        self.assertEqual(self.server.attempts, attempts + 1)
        self.assertEqual(self.world.outlet().next_attempt_time, self.world.clock.seconds() + 1)

    def test_while_it_negotiates(self) -> None:
        self.server.silent_about = {"publish"}
        self.begin()
        self.server.silent_about = set()
        self.world.manager.reconnect("one")
        self.world.pump()
        self.assertEqual([connection.lost for connection in self.server.connections], [True, False])
        self.assertIs(self.world.outlet().state, State.CONNECTED)

    def test_twice(self) -> None:
        self.begin()
        self.world.manager.reconnect("one")
        self.world.manager.reconnect("one")
        self.world.advance(5)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, False])
        self.assertIs(self.world.outlet().state, State.CONNECTED)

    def test_a_bug_in_opening_the_gate_is_logged(self) -> None:
        with mock.patch.object(Delivery, "open_gate", side_effect=ValueError("odd")):
            self.begin()
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.world.manager.reconnect("one")
        self.world.pump()
        self.assertIs(self.world.outlet().state, State.CONNECTED)

    def test_and_then_the_end(self) -> None:
        encoder = self.begin()
        self.world.manager.reconnect("one")
        encoder.end()
        self.world.advance(5)
        self.assertEqual(len(self.server.connections), 1)
        self.assertIs(self.world.status().state, State.IDLE)
        self.assertEqual(len(self.world.told(events.DestinationClosed)), 1)

    def test_the_end_and_then_that(self) -> None:
        encoder = self.begin()
        self.last.transport.stalled = True
        encoder.end()
        self.world.manager.reconnect("one")
        self.world.advance(5)
        self.assertEqual(len(self.server.connections), 1)
        self.assertIs(self.world.status().state, State.IDLE)


# -- failover ------------------------------------------------------------------------------------------------


class FailoverTests(OutletTests):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.backup = self.world.stub("backup")
        self.third = self.world.stub("third")
        self.addresses = {
            "backup": (RtmpUrl.parse("rtmp://backup/live/key"), RtmpUrl.parse("rtmp://third/live/key"))
        }

    def attempts(self) -> tuple[int, int, int]:
        return self.server.attempts, self.backup.attempts, self.third.attempts

    def test_after_so_many_failures_the_next_address_is_tried(self) -> None:
        self.server.failure = self.backup.failure = ConnectionRefusedError()
        encoder = self.begin(failures_before_backup=2, **self.addresses)
        self.assertEqual(self.world.outlet().address, "rtmp://one:1935/live/***")
        self.world.advance(1)
        self.assertEqual(self.world.outlet().address, "rtmp://backup:1935/live/***")
        self.world.advance(2 + 4)
        self.assertEqual(self.attempts(), (2, 2, 0))
        self.world.advance(8)
        self.assertEqual(self.attempts(), (2, 2, 1))
        self.assertIs(self.world.outlet().state, State.CONNECTED)
        self.world.send(encoder, *group(20_000))
        self.assertGreater(len(self.third.last.media), 0)
        addresses = [event.address for event in self.world.told(events.DestinationReconnecting)]
        self.assertEqual(
            [address.split("/")[2].split(":")[0] for address in addresses],
            ["one", "backup", "backup", "third"],
        )

    def test_it_stays_with_what_works(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin(failures_before_backup=1, **self.addresses)
        self.world.advance(1)
        self.server.failure = None
        self.world.advance(40)
        self.assertEqual(self.attempts(), (1, 1, 0))
        self.backup.lose_all()
        self.world.advance(0.5)
        # With one failure allowed, the first one moves it on, and around.
        self.world.advance(1)
        self.assertEqual(self.attempts(), (1, 1, 1))

    def test_a_good_connection_that_is_lost_comes_back_to_the_same_address(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin(failures_before_backup=2, **self.addresses)
        self.world.advance(3)
        self.assertEqual(self.attempts(), (2, 1, 0))
        self.server.failure = None
        self.world.advance(40)
        self.backup.lose_all()
        self.world.advance(1)
        self.assertEqual(self.attempts(), (2, 2, 0))

    def test_around_and_around(self) -> None:
        for stub in (self.server, self.backup, self.third):
            stub.failure = ConnectionRefusedError()
        self.begin(failures_before_backup=1, **self.addresses)
        self.world.advance(1 + 2 + 4)
        self.assertEqual(self.attempts(), (2, 1, 1))

    def test_without_a_backup_it_stays(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.begin(failures_before_backup=1)
        self.world.advance(7)
        self.assertEqual(self.attempts(), (4, 0, 0))


# -- reports -------------------------------------------------------------------------------------------------


class ReportTests(OutletTests):
    def test_each_event_has_the_destination_s_name(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.begin(max_retries=3)
        self.server.failure = None
        self.world.advance(40)
        self.server.lose_all()
        self.world.advance(1)
        encoder.end()
        self.world.pump()
        told = [event for event in self.world.relay.events if type(event).__name__.startswith("Destination")]
        self.assertEqual(
            [
                event.name.removeprefix("destination_")
                for event in told
                if event.name != "destination_statistics"
            ],
            [
                "connecting",
                "failed",
                "reconnecting",
                "connecting",
                "connected",
                "failed",
                "reconnecting",
                "connecting",
                "connected",
                "closed",
            ],
        )
        for event in told:
            self.assertEqual(event.fields()["destination"], "one")
            self.assertEqual(event.fields()["stream"], "live/cam")
        failed = self.world.told(events.DestinationFailed)
        self.assertEqual(
            [(event.error_class, event.reason) for event in failed],
            [
                ("network", "nothing listens there (connection refused)"),
                ("network", "the connection was lost"),
            ],
        )
        addresses = {event.fields()["address"] for event in told if "address" in event.fields()}
        self.assertEqual(addresses, {"rtmp://one:1935/live/***"})

    def test_throughput_every_thirty_seconds(self) -> None:
        encoder = self.begin()
        self.world.advance(29.5)
        self.assertEqual(self.world.told(events.DestinationStatistics), [])
        self.world.advance(0.5)
        (told,) = self.world.told(events.DestinationStatistics)
        self.assertEqual((told.seconds, told.messages, told.dropped, told.queued), (30.0, 13, 0, 0))
        self.assertEqual(told.bytes, self.world.outlet().bytes_sent)
        self.assertAlmostEqual(told.kbps, told.bytes * 8 / 1000 / 30)
        self.world.send(encoder, *group(400))
        self.world.advance(30)
        self.assertEqual(self.world.told(events.DestinationStatistics)[1].messages, 10)
        encoder.end()
        self.world.advance(100)
        self.assertEqual(len(self.world.told(events.DestinationStatistics)), 2)

    def test_what_was_dropped_is_told_with_its_reason(self) -> None:
        encoder = self.begin()
        self.server.lose_all()
        self.world.send(encoder, inter(200), audio(200))
        self.world.advance(1)
        (told,) = self.world.told(events.DestinationDropped)
        self.assertEqual((told.destination, told.reason, told.count), ("one", "not_connected", 2))
        self.world.send(encoder, inter(240), inter(280))
        self.world.advance(5)
        told = self.world.told(events.DestinationDropped)[-1]
        self.assertEqual((told.reason, told.count), ("waiting_for_keyframe", 2))
        self.world.advance(60)
        self.assertEqual(len(self.world.told(events.DestinationDropped)), 2)

    def test_a_full_queue_is_told(self) -> None:
        encoder = self.begin()
        self.last.transport.stalled = True
        for begin in range(200, 15_000, 200):
            self.world.send(encoder, *group(begin, size=9000))
        self.world.advance(5)
        told = self.world.told(events.DestinationDropped)
        self.assertEqual({event.reason for event in told}, {"queue_full"})
        self.assertEqual(sum(event.count for event in told), self.world.outlet().messages_dropped)

    def test_what_is_never_delivered_is_told_at_the_end(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.begin()
        encoder.end()
        (told,) = self.world.told(events.DestinationDropped)
        self.assertEqual((told.reason, told.count), ("not_connected", 10))
        (closed,) = self.world.told(events.DestinationClosed)
        self.assertEqual((closed.messages, closed.dropped), (0, 10))
        self.assertEqual(self.world.status().messages_dropped, 10)

    def test_nothing_is_left_behind(self) -> None:
        encoder = self.begin()
        encoder.end()
        self.world.pump()
        encoder.disconnect()
        self.world.pump()
        self.assertEqual(self.world.clock.getDelayedCalls(), [])


# -- chains --------------------------------------------------------------------------------------------------


class ChainTests(SynchronousTestCase):
    def test_two_hops_deliver_the_same_bytes(self) -> None:
        world = RelayWorld()
        second = world.server("second")
        third = world.stub("third")
        onward = world.new_manager(second)
        onward.add(destination("onward", "rtmp://third/live"))
        world.add("second", "rtmp://second/live")
        encoder = world.encoder()
        sent = [*start_frames()]
        for begin in range(0, 4000, 200):
            sent += group(begin, size=begin + 1)
        for number in range(0, len(sent), 7):
            world.send(encoder, *sent[number : number + 7])
            world.advance(0.1)
        first, (last,) = world.outlet("second"), onward.statuses()
        (last_outlet,) = last.outlets
        self.assertEqual(third.last.frames, sent)
        self.assertEqual(first.digest, last_outlet.digest)
        self.assertEqual(first.messages_sent, last_outlet.messages_sent)
        self.assertEqual(first.bytes_sent, last_outlet.bytes_sent)
        self.assertEqual(third.last.command("publish").arguments[0], "cam")
        before = last_outlet.digest
        world.send(encoder, audio(5000))
        self.assertNotEqual(onward.statuses()[0].outlets[0].digest, before)
        self.assertEqual(onward.statuses()[0].outlets[0].digest, world.outlet("second").digest)
        encoder.end()
        world.pump()
        self.assertEqual(third.last.order[-2:], ["FCUnpublish", "deleteStream"])

    def test_the_digest_is_of_what_was_sent_in_order(self) -> None:
        digests = []
        for frames in ([audio(0), audio(20)], [audio(20), audio(0)], [audio(0), audio(20)], [audio(0)]):
            world = RelayWorld()
            world.stub()
            world.add()
            world.send(world.encoder(), *frames)
            digests.append(world.outlet().digest)
        self.assertEqual(digests[0], digests[2])
        self.assertEqual(len(set(digests)), 3)


# -- accounts ------------------------------------------------------------------------------------------------


class Walker:
    """Does anything that can happen, in any order, and looks at the accounts after each step."""

    def __init__(self, world: RelayWorld | None = None) -> None:
        self.world = world or RelayWorld()
        self.server = self.world.stub()
        self.other = self.world.stub("two")
        self.world.add(linger=2.0)
        self.world.add("two", "rtmp://two/live/key")
        self.encoder: MemoryClient | None = None
        self.time = 0
        self.publish()

    def publish(self) -> None:
        if self.encoder is None:
            self.encoder = self.world.encoder()
            self.headers()
            self.group()

    def headers(self) -> None:
        self._send([*start_frames()])

    def other_headers(self) -> None:
        self._send([video_header(b"%d" % self.time)])

    def group(self) -> None:
        self._send(group(self.time, size=3000))
        self.time += 200

    def single(self) -> None:
        self._send([inter(self.time, 9000), audio(self.time)])
        self.time += 40

    def _send(self, frames: list[MediaFrame]) -> None:
        if self.encoder is not None:
            self.world.send(self.encoder, *frames)

    def lose(self) -> None:
        self.server.lose_all()

    def refuse(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")

    def hide(self) -> None:
        self.server.failure = ConnectionRefusedError()

    def show(self) -> None:
        self.server.failure = self.server.refuse_publish = None
        self.server.silent_about = set()

    def be_silent(self) -> None:
        self.server.silent_about = {"publish"}

    def stall(self) -> None:
        if self.server.connections:
            self.server.last.transport.stalled = True

    def go_on(self) -> None:
        for connection in self.server.connections:
            connection.transport.stalled = False

    def lose_source(self) -> None:
        if self.encoder is not None:
            self.encoder.disconnect(clean=False)
            self.encoder = None

    def end_source(self) -> None:
        if self.encoder is not None:
            self.encoder.end()
            self.encoder.disconnect()
            self.encoder = None

    def reconnect(self) -> None:
        self.world.manager.reconnect("one")

    def disable(self) -> None:
        self.world.manager.disable("one")

    def enable(self) -> None:
        self.world.manager.enable("one")

    def wait(self) -> None:
        self.world.advance(0.7, step=0.35)

    def wait_long(self) -> None:
        self.world.advance(12, step=1)

    def check(self) -> None:
        self.world.pump()
        self.world.assert_balanced()
        for stub in (self.server, self.other):
            for connection in stub.connections:
                assert [name for name in connection.order if name == "publish"] in ([], ["publish"])
                if "FCUnpublish" in connection.order:
                    assert "media" not in connection.order[connection.order.index("FCUnpublish") :]
                pictures = [raw for raw in coded(connection.media) if raw.type_id == 9]
                assert not pictures or pictures[0].payload[0] >> 4 == 1, "it begins without a keyframe"
                times = [raw.timestamp for raw in coded(connection.media)]
                assert times == sorted(times)
        status = self.world.status("one")
        arrived = sum(len(connection.media) for connection in self.server.connections)
        assert arrived <= status.messages_sent
        # The other destination is never disturbed.
        assert self.world.status("two").messages_dropped == 0
        assert self.world.status("two").messages_sent == sum(
            len(connection.media) for connection in self.other.connections
        )
        assert not any(
            isinstance(event, events.DestinationFailed) and event.destination == "two"
            for event in self.world.relay.events
        )


STEPS = [name for name in vars(Walker) if not name.startswith("_") and name != "check"]


class AccountTests(SynchronousTestCase):
    @settings(max_examples=100)
    @given(st.lists(st.sampled_from(STEPS), max_size=25))
    def test_every_message_is_accounted_for_at_every_step(self, steps: list[str]) -> None:
        walker = Walker()
        for step in steps:
            getattr(walker, step)()
            walker.check()
        walker.go_on()
        walker.end_source()
        walker.world.advance(15)
        walker.check()
        for name in ("one", "two"):
            assert walker.world.status(name).outlets == ()
        stopped = walker.world.manager.stop()
        walker.world.pump()
        self.successResultOf(stopped)


def test_the_session_of_a_publisher_is_the_client_s() -> None:
    """`stream_id` is what the outlet encodes for; it is 0 before the server gave one."""
    assert ClientSession("app", "rtmp://host/app").stream_id == 0
