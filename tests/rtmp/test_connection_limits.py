"""How many connections there may be, how much one publisher may send, and how many may watch."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.rtmp.admission import AdmissionLimits
from rtmprelay.rtmp.server_factory import ServerSettings
from rtmprelay.session.reports import StatusReceived
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.testing import MemoryServer


class ConnectionCountTests(SynchronousTestCase):
    """How many may be connected."""

    def refusals(self, server: MemoryServer) -> list[str]:
        return [event.reason for event in server.events_of(events.ConnectionRefused)]

    def test_connection_above_the_limit_is_refused_until_one_ends(self) -> None:
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

    def test_refusals_of_one_second_are_one_event_with_their_count(self) -> None:
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

    def test_connections_before_connect_are_counted_by_address(self) -> None:
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

    def test_connections_after_connect_are_not_counted_by_address(self) -> None:
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

    def test_connections_that_timed_out_are_not_counted(self) -> None:
        server = MemoryServer(ServerSettings(admission=AdmissionLimits(max_unconnected_per_address=3)))
        connections = [server.open() for _ in range(3)]
        server.advance(6)
        for connection in connections:
            assert connection is not None
            assert connection.transport.aborted
            connection.lose()
        assert server.open() is not None


class AmountTests(SynchronousTestCase):
    """How much one publisher may send, and how many may watch."""

    def test_publisher_above_the_rate_limit_is_closed(self) -> None:
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

    def test_publisher_just_below_the_rate_limit_goes_on(self) -> None:
        server = MemoryServer(ServerSettings(max_publisher_kbps=800))
        encoder = server.connect()
        encoder.publish("cam")
        for number in range(100):
            encoder.send(MediaFrame(MediaKind.VIDEO, number * 1000, b"\x27\x01\0\0\0" + bytes(99_000)))
            server.clock.advance(1)
        assert not server.events_of(events.ConnectionClosed)

    def test_player_above_the_limit_of_a_stream_is_refused(self) -> None:
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
