"""Over a limit: that connection is closed, one event names the limit, and nobody else notices."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.amf import amf0
from rtmprelay.rtmp.server_factory import ServerSettings
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

    def test_connection_without_a_handshake_is_closed_in_time(self) -> None:
        connection = self.open()
        self.tick(4.9)
        assert not connection.transport.aborted
        self.tick(0.2)
        self.assert_closed(connection, "handshake_timeout", "within 5 s")

    def test_single_bytes_do_not_extend_the_handshake_timeout(self) -> None:
        connection = self.open()
        connection.protocol.dataReceived(b"\x03")
        for _ in range(5):
            self.tick(1)
            connection.protocol.dataReceived(b"x")
        self.tick(0.2)
        self.assert_closed(connection, "handshake_timeout")

    def test_connection_without_connect_is_closed_in_time(self) -> None:
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

    def test_publisher_that_sends_nothing_for_a_minute_is_closed(self) -> None:
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

    def test_client_that_sends_requests_and_reads_no_answers_is_cut_off(self) -> None:
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

    def test_client_that_reads_its_answers_may_go_on_sending_requests(self) -> None:
        client = self.publisher()
        for _ in range(200):
            self.flood(client)
        assert not client.transport.aborted

    def test_client_that_asks_too_often_is_cut_off(self) -> None:
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

    def test_flood_of_empty_messages_is_cut_off(self) -> None:
        """One byte can be a whole message; ten thousand a second are accepted, not more."""
        client = self.server.connect()
        client.publish("flood")
        header = b"\x0b\x00\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00"
        client.deliver(header + b"\xcb" * 60_000)
        assert not client.transport.aborted
        client.deliver(b"\xcb" * 60_000)
        self.server.pump()
        self.assert_client_closed(client, "chunk_rate")

    def test_large_message_before_connect_is_cut_off(self) -> None:
        """Nobody needs 64 KiB to say hello."""
        connection = self.open()
        handshake = ClientHandshake()
        connection.protocol.dataReceived(handshake.bytes_to_send())
        handshake.feed(connection.transport.take())
        connection.protocol.dataReceived(handshake.bytes_to_send())
        connection.protocol.dataReceived(b"\x03\x00\x00\x00\x01\x00\x01\x14\x00\x00\x00\x00")
        self.assert_closed(connection, "message_size_before_connect", "65537")

    def test_a_play_that_is_taken_back_in_the_same_read_is_not_begun(self) -> None:
        """Only the last of many requests is carried out, so that a loop of them costs little."""
        client = self.server.connect()
        client.session.play("bystander")
        self.server.pump()
        started = len(self.server.events_of(events.PlayStarted))
        for _ in range(50):
            client.session.channel.send(call("play", 0.0, "bystander", stream_id=client.session.stream_id))
        self.server.pump()
        assert len(self.server.events_of(events.PlayStarted)) == started + 1

    def test_client_that_reads_its_answers_in_time_is_not_cut_off(self) -> None:
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

    def test_message_above_the_size_limit_is_cut_off(self) -> None:
        self.start(ServerSettings(limits=ConnectionLimits(message_size=1000)))
        client = self.server.connect()
        client.publish("large")
        client.send(keyframe(0, 2000))
        self.assert_client_closed(client, "message_size", "over 1000")

    def test_too_many_bytes_of_unfinished_messages_are_cut_off(self) -> None:
        self.start(ServerSettings(limits=ConnectionLimits(assembly_size=10_000)))
        client = self.server.connect(chunk_size=4096)
        client.publish("large")
        for chunk_stream in (10, 11, 12):
            message = RawMessage(MessageType.VIDEO, 0, 1, bytes(9000))
            client.deliver(encode_standalone(message, chunk_stream, 4096)[: 12 + 4096])
        self.server.pump()
        self.assert_client_closed(client, "assembly_size")

    def test_too_many_chunk_streams_are_cut_off(self) -> None:
        client = self.server.connect()
        for chunk_stream in range(2, 100):
            client.deliver(encode_standalone(RawMessage(MessageType.AUDIO, 0, 1, b""), chunk_stream, 128))
        self.server.pump()
        self.assert_client_closed(client, "chunk_streams")

    def test_too_many_message_streams_are_cut_off(self) -> None:
        client = self.server.connect()
        for _ in range(9):
            client.session.channel.send(call("createStream", 1.0))
        self.server.pump()
        self.assert_client_closed(client, "message_streams")

    def test_deeply_nested_command_is_cut_off(self) -> None:
        client = self.server.connect()
        client.deliver(depth_bomb())
        self.server.pump()
        self.assert_client_closed(client, "amf_depth")

    def test_stranger_with_too_many_values_in_one_command_is_cut_off(self) -> None:
        client = self.server.connect()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 1_000
        client.deliver(encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536))
        self.server.pump()
        self.assert_client_closed(client, "amf_values_before_publish")

    def test_stranger_with_too_many_values_in_all_commands_is_cut_off(self) -> None:
        client = self.server.connect()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 900
        bomb = encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536)
        client.deliver(bomb * 20)
        self.server.pump()
        self.assert_client_closed(client, "amf_value_rate_before_publish")

    def test_command_with_too_many_amf_values_closes_the_connection(self) -> None:
        client = self.publisher()
        payload = amf0.encode("bomb", 1.0) + b"\x05" * 100_001
        client.deliver(encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, payload), 3, 65536))
        self.server.pump()
        self.assert_client_closed(client, "amf_values")

    def test_garbage_instead_of_a_handshake_is_cut_off(self) -> None:
        for garbage in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\xff" * 5000):
            self.start(ServerSettings())
            connection = self.open()
            connection.protocol.dataReceived(garbage)
            self.assert_closed(connection, None)

    def test_an_encrypted_handshake_is_refused_by_name(self) -> None:
        connection = self.open()
        connection.protocol.dataReceived(b"\x06")
        self.assert_closed(connection, None, "6")

    def test_garbage_after_a_handshake_is_cut_off(self) -> None:
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
