"""A client that plays, with our own server in memory."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from rtmprelay.errors import (
    DestinationRefusedError,
)
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.client import (
    MAX_EARLY_BYTES,
    MAX_EARLY_FRAMES,
    ClientSettings,
    RtmpClientProtocol,
    RtmpPlayClientProtocol,
)
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.testing import MemoryEndpoint, MemoryServer
from rtmprelay.wire.url import RtmpUrl
from tests.helpers import audio, group, keyframe, start_frames, video_header


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

    def test_frames_before_the_receiver_are_kept_for_it(self) -> None:
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

    def test_receiver_that_is_early_gets_frames_as_they_come(self) -> None:
        player = self.successResultOf(self.ask())
        player.deliver_to(self.frames.extend)
        self.assertEqual(self.frames, [])
        self.encoder.send(keyframe(0))
        self.assertEqual(self.frames, [keyframe(0)])

    def test_frames_without_a_receiver_are_bounded_in_count(self) -> None:
        player = self.successResultOf(self.ask())
        for begin in range(0, 100_000, 1000):
            self.encoder.send(*[audio(begin + number) for number in range(100)])
        player.deliver_to(self.frames.extend)
        self.assertLess(len(self.frames), MAX_EARLY_FRAMES + 100)
        self.assertGreaterEqual(len(self.frames), MAX_EARLY_FRAMES)

    def test_frames_without_a_receiver_are_bounded_in_bytes(self) -> None:
        player = self.successResultOf(self.ask())
        size = 1024 * 1024
        for number in range(60):
            self.encoder.send(keyframe(number, size))
        player.deliver_to(self.frames.extend)
        kept = sum(len(frame.payload) for frame in self.frames)
        self.assertLess(kept, MAX_EARLY_BYTES + 2 * size)
        self.assertGreaterEqual(kept, MAX_EARLY_BYTES)
        self.assertEqual([frame.timestamp_ms for frame in self.frames], list(range(len(self.frames))))

    def test_end_and_return_of_the_stream_are_reported(self) -> None:
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

    def test_server_that_shuts_down_ends_the_play(self) -> None:
        player = self.successResultOf(self.ask())
        self.server.factory.shut_down()
        self.server.pump()
        self.successResultOf(player.when_lost)
        self.assertEqual(player.loss.type, ConnectionDone)
        self.assertEqual(self.server.factory.connections, ())

    def test_missing_stream_is_a_refusal(self) -> None:
        failure = self.failureResultOf(self.ask("rtmp://host/app/other"), DestinationRefusedError)
        self.assertIn("StreamNotFound", str(failure.value))

    def test_end_leaves_the_stream(self) -> None:
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
        self.server.pump()
        self.assertNoResult(protocol.when_lost)
        protocol.end()
        self.server.pump()
        self.successResultOf(protocol.when_lost)
        self.assertEqual(protocol.loss.type, ConnectionDone)
        # Nothing was published or played by it.
        self.assertEqual([stream.key for stream in self.server.registry], ["app/cam"])
