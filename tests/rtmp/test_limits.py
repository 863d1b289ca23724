"""Over a limit: that connection is closed, one event names the limit, and nobody else notices."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.amf import amf0
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.session.reports import StatusReceived
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.testing import MemoryClient, MemoryServer, RawConnection
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.handshake import ClientHandshake
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command, MessageType, UserControl, UserControlType
from tests.helpers import audio, keyframe
from tests.session.helpers import call


def depth_bomb() -> bytes:
    """A command whose argument is nested a thousand times."""
    payload = amf0.encode("bomb", 1.0) + b"\x03\x00\x01a" * 1000
    return encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536)


def torn_control_message() -> bytes:
    """A control message that nobody can read."""
    return encode_standalone(RawMessage(MessageType.USER_CONTROL, 0, 0, b"\x00"), 2, 65536)


class LimitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.start(ServerSettings())

    def start(self, settings: ServerSettings) -> None:
        self.server = MemoryServer(settings)
        self.encoder = self.server.connect()
        self.encoder.publish("bystander")
        self.player = self.server.connect()
        self.player.play("bystander")
        self.time = 0

    def open(self) -> RawConnection:
        connection = self.server.open("198.51.100.7")
        assert connection is not None
        return connection

    def tick(self, seconds: float) -> None:
        """Let time pass while the bystanders go on."""
        for _ in range(int(seconds * 10)):
            self.server.clock.advance(0.1)
            self.time += 100
            self.encoder.send(keyframe(self.time))

    def assert_closed(self, connection: RawConnection, limit: str | None, reason: str = "") -> None:
        """It was cut off, one event says why, and the bystanders are as before."""
        assert connection.transport.aborted
        connection.lose()
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert closed.connection == connection.protocol.connection_id
        assert closed.limit == limit
        assert reason in closed.reason
        if limit is not None:
            assert f"(limit: {limit})" in closed.reason
        before = len(self.player.frames)
        self.encoder.send(audio(self.time + 1))
        assert self.player.frames[before:] == [audio(self.time + 1)]
        assert len(self.server.factory.connections) == 2
        connection.protocol.dataReceived(b"more")
        self.tick(1)
        assert len(self.server.events_of(events.ConnectionClosed)) == 1

    def assert_client_closed(self, client: MemoryClient, limit: str | None, reason: str = "") -> None:
        self.assert_closed(client.connection, limit, reason)

    def test_no_handshake_in_time(self) -> None:
        connection = self.open()
        self.tick(4.9)
        assert not connection.transport.aborted
        self.tick(0.2)
        self.assert_closed(connection, "handshake_timeout", "within 5 s")

    def test_single_bytes_do_not_buy_time(self) -> None:
        connection = self.open()
        connection.protocol.dataReceived(b"\x03")
        for _ in range(5):
            self.tick(1)
            connection.protocol.dataReceived(b"x")
        self.tick(0.2)
        self.assert_closed(connection, "handshake_timeout")

    def test_no_connect_in_time(self) -> None:
        connection = self.open()
        handshake = ClientHandshake()
        connection.protocol.dataReceived(handshake.bytes_to_send())
        handshake.feed(connection.transport.take())
        self.tick(3)
        connection.protocol.dataReceived(handshake.bytes_to_send())
        self.tick(9.8)
        assert not connection.transport.aborted
        self.tick(0.4)
        self.assert_closed(connection, "connect_timeout", "within 10 s")

    def test_a_publisher_that_sends_nothing_for_a_minute(self) -> None:
        idle = self.server.connect()
        idle.publish("idle")
        self.tick(59.5)
        self.assertFalse(idle.transport.aborted)
        self.tick(1)
        assert idle.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert (closed.connection, closed.limit) == ("c000003", "idle_timeout")
        assert closed.duration >= 60
        (stopped,) = self.server.events_of(events.PublishStopped)
        assert not stopped.clean

    def test_a_player_may_be_silent_for_ever(self) -> None:
        self.encoder.disconnect()
        self.server.advance(500)
        assert not self.player.connection.lost

    def flood(self, client: MemoryClient) -> None:
        for _ in range(400):
            client.session.channel.send(UserControl(UserControlType.PING_REQUEST, 5))
        self.server.pump()

    def test_stranger_that_asks_and_does_not_read_is_cut_off_early(self) -> None:
        client = self.server.connect()
        client.transport.stalled = True
        largest = 0
        while not client.transport.aborted:
            self.flood(client)
            self.server.clock.advance(1)
            largest = max(largest, client.transport.unread_size)
        assert 65536 < largest < 65536 + 16 * 1024 + 3000
        self.assert_client_closed(client, "unread_replies_before_publish")

    def test_stranger_that_asks_without_end_is_cut_off(self) -> None:
        client = self.server.connect()
        for _ in range(20):
            self.flood(client)
        self.assert_client_closed(client, "chunk_rate_before_publish")

    def test_unfinished_message_is_not_kept_alive_by_small_ones(self) -> None:
        client = self.server.connect(chunk_size=128)
        half = encode_standalone(RawMessage(MessageType.VIDEO, 0, 1, bytes(60_000)), 10, 128)[: 12 + 128]
        client.deliver(half)
        for _ in range(12):
            self.tick(1)
            client.session.channel.send(UserControl(UserControlType.PING_REQUEST, 5))
            self.server.pump()
        self.assert_client_closed(client, "message_timeout", "within 10 s")

    def test_message_over_64_kib_needs_an_accepted_publish(self) -> None:
        client = self.server.connect()
        client.session.publish("film")
        client.deliver(client.session.bytes_to_send())
        client.deliver(b"\x04\0\0\0\x01\0\x01\x09\x01\0\0\0" + bytes(70_000))
        self.server.pump()
        self.assert_client_closed(client, "message_size_before_publish", "65537")

    def test_all_strangers_together_have_bounded_memory_and_a_connect_always_fits(self) -> None:
        self.start(ServerSettings(limits=ConnectionLimits(memory_before_publish=100_000)))
        greedy = [self.server.connect() for _ in range(10)]
        for client in greedy:
            half = encode_standalone(RawMessage(MessageType.VIDEO, 0, 1, bytes(60_000)), 10, 65536)
            client.deliver(half[:30_000])
        self.server.pump()
        memory = self.server.factory.strangers_memory
        assert memory.used <= 100_000
        closed = self.server.events_of(events.ConnectionClosed)
        assert {event.limit for event in closed} == {"memory_before_publish"}
        assert len(closed) == 7
        modest = self.server.connect()
        modest.deliver(encode_standalone(RawMessage(20, 0, 0, bytes(5_000)), 3, 65536)[:3_000])
        assert not modest.transport.aborted
        for client in (*greedy, modest):
            client.disconnect()
        assert memory.used == 0

    def test_who_asks_and_does_not_read_is_cut_off(self) -> None:
        client = self.publisher()
        client.transport.stalled = True
        largest = 0
        for _ in range(1000):
            self.flood(client)
            largest = max(largest, client.transport.unread_size)
            if client.connection.lost:
                break
        assert 256 * 1024 < largest < 65536 + 256 * 1024 + 10_000
        self.assert_client_closed(client, "unread_replies")

    def publisher(self) -> MemoryClient:
        client = self.server.connect()
        client.publish("asking")
        return client

    def test_who_asks_and_reads_may_ask_for_ever(self) -> None:
        client = self.publisher()
        for _ in range(200):
            self.flood(client)
        assert not client.transport.aborted

    def test_who_asks_too_often_is_cut_off(self) -> None:
        """Twenty commands a second, ten seconds' worth at once: enough for any client, too few for a flood."""
        client = self.server.connect()
        for _ in range(180):
            client.session.channel.send(call("_checkbw", 5.0))
        self.server.pump()
        assert not client.transport.aborted
        for _ in range(100):
            client.session.channel.send(Command("rubbish"))
        self.server.pump()
        self.assert_client_closed(client, "command_rate")

    def test_empty_messages_are_not_for_nothing(self) -> None:
        """One byte can be a whole message; ten thousand a second are borne, not more."""
        client = self.server.connect()
        client.publish("flood")
        header = b"\x0b\x00\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00"
        client.deliver(header + b"\xcb" * 60_000)
        assert not client.transport.aborted
        client.deliver(b"\xcb" * 60_000)
        self.server.pump()
        self.assert_client_closed(client, "chunk_rate")

    def test_a_large_message_before_connect(self) -> None:
        """Nobody needs 64 KiB to say hello."""
        connection = self.open()
        handshake = ClientHandshake()
        connection.protocol.dataReceived(handshake.bytes_to_send())
        handshake.feed(connection.transport.take())
        connection.protocol.dataReceived(handshake.bytes_to_send())
        connection.protocol.dataReceived(b"\x03\x00\x00\x00\x01\x00\x01\x14\x00\x00\x00\x00")
        self.assert_closed(connection, "message_size_before_connect", "65537")

    def test_a_play_that_is_taken_back_in_the_same_read_is_not_begun(self) -> None:
        """Only the last of many wishes is carried out, so that a loop of them costs little."""
        client = self.server.connect()
        client.session.play("bystander")
        self.server.pump()
        started = len(self.server.events_of(events.PlayStarted))
        for _ in range(50):
            client.session.channel.send(call("play", 0.0, "bystander", stream_id=client.session.stream_id))
        self.server.pump()
        assert len(self.server.events_of(events.PlayStarted)) == started + 1

    def test_questions_with_pauses_for_reading_are_fine(self) -> None:
        client = self.publisher()
        for _ in range(5):
            client.transport.stalled = True
            for _ in range(60):
                self.flood(client)
            assert client.transport.unread_size > 65536
            client.transport.stalled = False
            self.server.pump()
            self.tick(3)
        assert not client.connection.lost

    def test_a_message_that_is_too_large(self) -> None:
        self.start(ServerSettings(limits=ConnectionLimits(message_size=1000)))
        client = self.server.connect()
        client.publish("large")
        client.send(keyframe(0, 2000))
        self.assert_client_closed(client, "message_size", "over 1000")

    def test_too_much_in_assembly(self) -> None:
        self.start(ServerSettings(limits=ConnectionLimits(assembly_size=10_000)))
        client = self.server.connect(chunk_size=4096)
        client.publish("large")
        for chunk_stream in (10, 11, 12):
            message = RawMessage(MessageType.VIDEO, 0, 1, bytes(9000))
            client.deliver(encode_standalone(message, chunk_stream, 4096)[: 12 + 4096])
        self.server.pump()
        self.assert_client_closed(client, "assembly_size")

    def test_too_many_chunk_streams(self) -> None:
        client = self.server.connect()
        for chunk_stream in range(2, 100):
            client.deliver(encode_standalone(RawMessage(MessageType.AUDIO, 0, 1, b""), chunk_stream, 128))
        self.server.pump()
        self.assert_client_closed(client, "chunk_streams")

    def test_too_many_message_streams(self) -> None:
        client = self.server.connect()
        for _ in range(9):
            client.session.channel.send(call("createStream", 1.0))
        self.server.pump()
        self.assert_client_closed(client, "message_streams")

    def test_a_depth_bomb(self) -> None:
        client = self.server.connect()
        client.deliver(depth_bomb())
        self.server.pump()
        self.assert_client_closed(client, "amf_depth")

    def test_too_many_values_in_a_command_of_a_stranger(self) -> None:
        client = self.server.connect()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 1_000
        client.deliver(encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536))
        self.server.pump()
        self.assert_client_closed(client, "amf_values_before_publish")

    def test_too_many_values_in_all_commands_of_a_stranger(self) -> None:
        client = self.server.connect()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 900
        bomb = encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536)
        client.deliver(bomb * 20)
        self.server.pump()
        self.assert_client_closed(client, "amf_value_rate_before_publish")

    def test_too_many_values(self) -> None:
        client = self.publisher()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 100_001
        client.deliver(encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536))
        self.server.pump()
        self.assert_client_closed(client, "amf_values")

    def test_garbage_instead_of_a_handshake(self) -> None:
        for garbage in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\xff" * 5000):
            self.start(ServerSettings())
            connection = self.open()
            connection.protocol.dataReceived(garbage)
            self.assert_closed(connection, None)

    def test_an_encrypted_handshake_is_refused_by_name(self) -> None:
        connection = self.open()
        connection.protocol.dataReceived(b"\x06")
        self.assert_closed(connection, None, "6")

    def test_garbage_behind_a_handshake(self) -> None:
        client = self.server.connect()
        client.publish("odd")
        client.deliver(torn_control_message())
        self.server.pump()
        self.assert_client_closed(client, None, "User Control has 1 bytes")
        (stopped,) = self.server.events_of(events.PublishStopped)
        assert (stopped.stream, stopped.clean) == ("live/odd", False)

    def test_commands_before_connect_are_out_of_order(self) -> None:
        connection = self.open()
        handshake = ClientHandshake()
        connection.protocol.dataReceived(handshake.bytes_to_send())
        handshake.feed(connection.transport.take())
        payload = amf0.encode("createStream", 1.0, None)
        message = encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 128)
        connection.protocol.dataReceived(handshake.bytes_to_send() + message)
        self.assert_closed(connection, None, "'createStream' came while connect has not been sent")

    def test_a_second_connect_is_out_of_order(self) -> None:
        client = self.server.connect()
        client.session.channel.send(Command("connect", 1.0, {"app": "live"}))
        self.server.pump()
        self.assert_client_closed(client, None, "'connect' came while")


class ConnectionCountTests(SynchronousTestCase):
    """How many may be connected."""

    def refusals(self, server: MemoryServer) -> list[str]:
        return [event.reason for event in server.events_of(events.ConnectionRefused)]

    def test_connections_are_counted(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_connections=2)))
        first, second = server.open(), server.open()
        assert first is not None
        assert second is not None
        assert server.open("203.0.113.9") is None
        (refused,) = server.events_of(events.ConnectionRefused)
        assert refused.peer == "203.0.113.9:50000"
        assert refused.reason == "there are 2 connections already (limit: max_connections)"
        first.lose()
        assert server.open() is not None
        assert server.open() is None

    def test_refusals_do_not_fill_the_log(self) -> None:
        """One event a second, with the number of those between."""
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_connections=0)))
        for _ in range(50):
            server.open()
        server.clock.advance(1)
        server.open()
        server.clock.advance(1)
        refusals = server.events_of(events.ConnectionRefused)
        assert [event.others for event in refusals] == [0, 48, 0]
        assert sum(1 + event.others for event in refusals) == server.factory.connections_refused == 51

    def test_those_that_have_not_sent_connect_are_counted_by_address(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_unconnected_per_address=2)))
        waiting = [server.open("198.51.100.7"), server.open("198.51.100.7")]
        assert server.open("198.51.100.7") is None
        assert self.refusals(server) == [
            "there are 2 connections from there that have not sent connect already"
            " (limit: max_unconnected_per_address)"
        ]
        assert server.open("198.51.100.8") is not None
        assert waiting[0] is not None
        waiting[0].lose()
        assert server.open("198.51.100.7") is not None
        assert server.open("198.51.100.7") is None

    def test_those_that_have_sent_connect_do_not_count(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_unconnected_per_address=1)))
        clients = [server.connect() for _ in range(5)]
        assert self.refusals(server) == []
        for client in clients:
            client.disconnect()
        assert server.factory._admission._unconnected == {}
        assert server.factory.connections == ()

    def test_a_refused_connection_leaves_no_trace(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_connections=0)))
        for number in range(100):
            assert server.open(f"192.0.2.{number}") is None
        assert server.factory._admission._unconnected == {}

    def test_those_that_time_out_do_not_count_any_more(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_unconnected_per_address=3)))
        connections = [server.open() for _ in range(3)]
        server.advance(6)
        for connection in connections:
            assert connection is not None
            assert connection.transport.aborted
            connection.lose()
        assert server.open() is not None


class BugTests(SynchronousTestCase):
    """A bug of ours costs one connection, and is told with its traceback."""

    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect()
        self.encoder.publish("cam")

    def planted(self, *_arguments: object) -> None:
        raise ZeroDivisionError("planted")

    def breaks(self, act: Callable[[], None], times: int = 1) -> None:
        act()
        assert len(self.flushLoggedErrors(ZeroDivisionError)) == times

    def test_an_exception_in_a_handler_closes_only_that_connection(self) -> None:
        good = self.server.connect()
        good.play("cam")
        bad = self.server.connect()
        self.patch(self.server.registry, "live", self.planted)
        self.breaks(lambda: bad.play("cam"))
        assert bad.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert (closed.connection, closed.reason, closed.limit) == ("c000003", "an internal error", None)
        self.encoder.send(keyframe(0))
        assert good.frames == [keyframe(0)]

    def test_an_exception_in_one_player_does_not_reach_the_publisher(self) -> None:
        good, bad = self.server.connect(), self.server.connect()
        bad.play("cam")
        good.play("cam")
        (player,) = bad.connection.protocol.consumers()
        self.patch(player, "frames_arrived", self.planted)
        self.breaks(lambda: self.encoder.send(keyframe(0)))
        self.encoder.send(audio(40))
        assert good.frames == [keyframe(0), audio(40)]
        assert not self.encoder.connection.lost

    def test_a_sink_that_fails_is_told_on_and_others_hear(self) -> None:
        bus = self.server.factory.events
        sink = MemoryServer()
        self.patch(sink, "event_happened", self.planted)
        late = MemoryServer()
        bus.add_sink(sink)
        bus.add_sink(late)
        self.breaks(self.encoder.disconnect, times=2)
        assert [event.name for event in late.events] == ["publish_stopped", "connection_closed"]


class AmountTests(SynchronousTestCase):
    """How much one publisher may send, and how many may watch."""

    def test_a_publisher_that_sends_too_much_is_closed(self) -> None:
        server = MemoryServer(ServerSettings(max_publisher_kbps=800))
        encoder = server.connect()
        encoder.publish("cam")
        moderate = server.connect()
        moderate.publish("other")
        # Ten seconds' worth may come at once: 1,000,000 bytes.
        for number in range(9):
            encoder.send(MediaFrame(MediaKind.VIDEO, number, b"\x27\x01\0\0\0" + bytes(100_000)))
        assert not server.events_of(events.ConnectionClosed)
        moderate.send(MediaFrame(MediaKind.VIDEO, 0, b"\x27\x01\0\0\0" + bytes(100_000)))
        encoder.send(MediaFrame(MediaKind.VIDEO, 10, b"\x27\x01\0\0\0" + bytes(200_000)))
        (closed,) = server.events_of(events.ConnectionClosed)
        assert closed.limit == "max_publisher_kbps"

    def test_a_publisher_at_the_bound_goes_on(self) -> None:
        server = MemoryServer(ServerSettings(max_publisher_kbps=800))
        encoder = server.connect()
        encoder.publish("cam")
        for number in range(100):
            encoder.send(MediaFrame(MediaKind.VIDEO, number * 1000, b"\x27\x01\0\0\0" + bytes(99_000)))
            server.clock.advance(1)
        assert not server.events_of(events.ConnectionClosed)

    def test_a_stream_with_enough_players_takes_no_more(self) -> None:
        server = MemoryServer(stream_limits=StreamLimits(max_players=2))
        server.connect().publish("cam")
        server.connect().publish("other")
        players = [server.connect() for _ in range(3)]
        for player in players:
            player.play("cam")
        assert players[2].events[-1] == StatusReceived(
            "error", "NetStream.Play.Failed", "live/cam has 2 players already (limit: max_players)"
        )
        assert server.registry.players_refused == 1
        (refused,) = server.events_of(events.PlayRefused)
        assert "max_players" in refused.reason
        players[2].play("other")
        assert len(server.registry.live("live/other").subscribers) == 1
        players[0].disconnect()
        late = server.connect()
        late.play("cam")
        assert server.registry.live("live/cam").viewers == 2
