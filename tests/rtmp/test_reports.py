"""What is told of connections: statistics, codecs, and never a secret."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import cast

import attrs
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.event_bus import LogSink
from rtmprelay.logs import format_json, format_text
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import SessionReport
from rtmprelay.testing import MemoryClient, MemoryServer
from tests.helpers import audio, audio_header, group, keyframe, start_frames, video_header
from tests.rtmp.test_limits import torn_control_message


class StatisticsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect()
        self.encoder.publish("cam")
        self.player = self.server.connect()
        self.player.play("cam")

    def test_statistics_come_every_thirty_seconds_with_the_right_figures(self) -> None:
        frame = keyframe(0, 991)
        assert len(frame.payload) == 1000
        for second in range(60):
            if second == 30:
                reports = self.server.events_of(events.MediaStatistics)
                assert len(reports) == 2
            self.encoder.send(attrs.evolve(frame, timestamp_ms=second * 1000))
            self.server.advance(1)
        reports = self.server.events_of(events.MediaStatistics)
        assert [(report.role, report.connection) for report in reports] == [
            ("publisher", "c000001"),
            ("player", "c000002"),
        ] * 2
        for report in reports:
            assert report.stream == "live/cam"
            assert report.seconds == 30
            assert report.messages == 30
            assert report.bytes == 30_000
            assert report.kbps == 8.0
            assert report.dropped == report.queued == 0

    def test_statistics_of_a_quiet_time_are_zero(self) -> None:
        self.encoder.send(keyframe(0))
        self.server.advance(59)
        self.encoder.send(audio(59_000))
        self.server.advance(1)
        last = self.server.events_of(events.MediaStatistics)[-2:]
        assert [report.messages for report in last] == [1, 1]

    def test_interval_of_statistics_is_a_setting(self) -> None:
        server = MemoryServer(ServerSettings(statistics_interval=2.0))
        client = server.connect()
        client.publish("cam")
        server.advance(10, 0.5)
        assert len(server.events_of(events.MediaStatistics)) == 5

    def test_a_connection_that_does_nothing_has_no_statistics(self) -> None:
        server = MemoryServer()
        server.connect()
        server.advance(50)
        assert server.events_of(events.MediaStatistics) == []

    def test_end_of_a_connection_has_its_whole_account(self) -> None:
        sent = [*start_frames(), *group(0)]
        self.encoder.send(*sent)
        self.server.advance(7)
        self.encoder.disconnect()
        self.player.disconnect()
        (published,) = self.server.events_of(events.PublishStopped)
        (played,) = self.server.events_of(events.PlayStopped)
        size = sum(len(frame.payload) for frame in sent)
        assert (published.messages, published.bytes, published.duration) == (len(sent), size, 7)
        assert (played.messages, played.bytes, played.duration) == (len(sent), size, 7)
        closed = self.server.events_of(events.ConnectionClosed)
        assert [event.reason for event in closed] == ["the peer closed it", "the peer closed it"]
        assert closed[0].bytes_in > size
        assert closed[1].bytes_out > size


class CodecTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect()
        self.encoder.publish("cam")

    def detected(self) -> list[tuple[str | None, str | None]]:
        found = self.server.events_of(events.CodecDetected)
        assert all(event.stream_key == event.stream == "live/cam" for event in found)
        return [(event.video, event.audio) for event in found]

    def test_codecs_are_reported_once_when_both_are_known(self) -> None:
        self.encoder.send(video_header())
        assert self.detected() == []
        self.encoder.send(audio_header())
        for time in range(0, 4000, 200):
            self.encoder.send(*group(time))
            self.server.advance(0.2, 0.2)
        assert self.detected() == [("H.264 AVC", "AAC")]

    def test_sound_alone_is_reported_after_a_while(self) -> None:
        for time in range(0, 1900, 100):
            self.encoder.send(audio(time))
            self.server.advance(0.1, 0.1)
        assert self.detected() == []
        self.server.advance(0.2, 0.1)
        self.encoder.send(audio(2000))
        self.encoder.send(audio(2100))
        assert self.detected() == [(None, "AAC")]

    def test_video_that_comes_later_is_reported_as_well(self) -> None:
        self.server.advance(2)
        self.encoder.send(audio(0))
        self.encoder.send(keyframe(0))
        assert self.detected() == [(None, "AAC"), ("H.264 AVC", "AAC")]

    def test_changed_codec_is_reported(self) -> None:
        self.encoder.send(*start_frames(), *group(0))
        self.encoder.send(MediaFrame(MediaKind.VIDEO, 300, b"\x90hvc1config"))
        self.encoder.send(MediaFrame(MediaKind.VIDEO, 300, b"\x93hvc1picture"))
        assert self.detected() == [("H.264 AVC", "AAC"), ("H.265 HEVC", "AAC")]

    def test_a_publisher_that_returns_is_reported_anew(self) -> None:
        self.encoder.send(*start_frames())
        self.encoder.disconnect()
        again = self.server.connect()
        again.publish("cam")
        again.send(*start_frames())
        assert self.detected() == [("H.264 AVC", "AAC")] * 2

    def test_stream_without_media_reports_no_codec(self) -> None:
        self.server.advance(3)
        self.encoder.send(MediaFrame(MediaKind.DATA, 0, b"\x00"))
        self.encoder.disconnect()
        assert self.detected() == []


class SecretTests(SynchronousTestCase):
    """Query strings hold credentials: no event, log line or `repr` may show them."""

    def test_no_secret_is_shown(self) -> None:
        logged: list[LogEvent] = []
        observer = cast(ILogObserver, logged.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        collected: list[SessionReport] = []
        handle = RtmpServerProtocol.handle

        def listen(protocol: RtmpServerProtocol, event: SessionReport, now: float) -> None:
            collected.append(event)
            handle(protocol, event, now)

        self.patch(RtmpServerProtocol, "handle", listen)
        server = MemoryServer()
        server.factory.events.add_sink(LogSink())
        clients = [self.connect(server) for _ in range(3)]
        publisher, second, player = clients
        publisher.publish("cam?token=SECRET&x=1")
        second.publish("cam?token=SECRET")
        player.play("cam?token=SECRET")
        player.play("absent?token=SECRET")
        second.publish("bad\x07name?token=SECRET")
        publisher.send(*start_frames(), *group(0))
        assert player.frames
        server.advance(31)
        publisher.deliver(torn_control_message())
        server.pump()
        second.disconnect(clean=False)
        server.factory.shut_down()
        server.pump()

        kinds = {event.name for event in server.events}
        assert {"publish_started", "publish_refused", "play_started", "play_refused"} <= kinds
        assert {"publish_stopped", "play_stopped", "connection_closed", "media_statistics"} <= kinds
        stream_names = {
            event.stream
            for event in server.events
            if isinstance(event, events.PublishStarted | events.PlayRefused)
        }
        assert stream_names == {"live/cam", "live/absent"}
        shown = [repr(event) for event in server.events]
        shown += [repr(event.fields()) for event in server.events]
        shown += [repr(event) for event in collected]
        shown += [format_json(event) for event in logged]
        shown += [format_text(event) or "" for event in logged]
        assert any("publish of live/cam by c000001 started" in line for line in shown)
        assert [text for text in shown if "SECRET" in text] == []

    def connect(self, server: MemoryServer) -> MemoryClient:
        client = server.connect("live?token=SECRET")
        assert isinstance(client.session, ClientSession)
        return client

    def test_key_in_the_address_is_in_no_event(self) -> None:
        server = MemoryServer()
        connection = server.open()
        assert connection is not None
        session = ClientSession("", "rtmp://user:SECRET@host/live?token=SECRET")
        client = MemoryClient(server, connection, session)
        while client.pump():
            pass
        (connected,) = server.events_of(events.ClientConnected)
        assert connected.app == "live"
        assert [event for event in server.events if "SECRET" in repr(event)] == []
