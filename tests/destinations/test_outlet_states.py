"""An outlet connects, fails, waits, gives up and is reconnected."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from unittest import mock

from twisted.internet.error import ConnectionRefusedError, DNSLookupError

from rtmprelay import events
from rtmprelay.destinations.delivery import Delivery
from rtmprelay.destinations.status import DestinationState as State
from tests.destinations.harness import OutletTestCase
from tests.helpers import group, keyframe, start_frames


class StateTests(OutletTestCase):
    def test_destination_is_idle_without_a_publisher(self) -> None:
        self.relay.add_destination()
        status = self.relay.status()
        assert status.state is State.IDLE
        assert status.outlets == ()
        assert self.server.attempts == 0
        assert (status.messages_sent, status.connect_time, status.last_error) == (0, None, None)
        assert (status.name, status.url) == ("one", "rtmp://one:1935/live/***")

    def test_outlet_is_connecting_until_the_server_accepts(self) -> None:
        self.server.silent_about = {"publish"}
        self.start()
        outlet = self.relay.outlet()
        assert outlet.state is State.CONNECTING
        assert self.relay.status().state is State.CONNECTING
        assert (outlet.connect_time, outlet.next_attempt_time, outlet.last_error) == (None, None, None)
        assert outlet.messages_sent == 0
        assert self.last.media == []
        self.relay.assert_balanced()

    def test_connected_outlet_shows_what_it_sent_and_when(self) -> None:
        self.relay.advance(3)
        encoder = self.start()
        self.relay.advance(2)
        self.relay.send(encoder, keyframe(500))
        outlet, status = self.relay.outlet(), self.relay.status()
        assert outlet.state is State.CONNECTED
        assert status.state is State.CONNECTED
        assert (outlet.connect_time, outlet.last_sent_time) == (3.0, 5.0)
        assert (status.connect_time, status.last_sent_time) == (3.0, 5.0)
        assert (outlet.messages_in, outlet.messages_sent, outlet.reconnect_count) == (14, 14, 0)
        assert outlet.bytes_sent == sum(len(frame.payload) for frame in self.last.frames)
        assert (status.messages_sent, status.bytes_sent) == (14, outlet.bytes_sent)
        assert (outlet.stream, outlet.address) == ("live/cam", "rtmp://one:1935/live/***")

    def test_unknown_name_is_retried_with_growing_delays(self) -> None:
        self.server.failure = DNSLookupError("one")
        self.start()
        now = 0.0
        for attempt, delay in enumerate([1, 2, 4, 8, 16, 32, 60, 60], 1):
            outlet = self.relay.outlet()
            assert outlet.state is State.ERROR
            assert outlet.error_class == "network"
            assert outlet.last_error == "the name of the server is not known (DNS)"
            assert outlet.next_attempt_time == now + delay
            assert self.relay.status().next_attempt_time == now + delay
            assert not outlet.given_up
            assert self.server.attempts == attempt
            self.relay.advance(delay)
            now += delay
        retries = self.relay.events_of(events.DestinationReconnecting)
        assert [event.delay for event in retries[:4]] == [1, 2, 4, 8]
        assert [event.attempt for event in retries[:4]] == [2, 3, 4, 5]
        self.relay.assert_balanced()

    def test_last_error_is_kept_during_the_next_attempt_and_cleared_by_success(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start()
        self.server.failure = None
        self.server.silent_about = {"publish"}
        self.relay.advance(1)
        outlet = self.relay.outlet()
        assert outlet.state is State.CONNECTING
        assert outlet.last_error == "nothing listens there (connection refused)"
        assert outlet.next_attempt_time is None
        self.server.silent_about = set()
        self.relay.advance(12)
        outlet = self.relay.outlet()
        assert outlet.state is State.CONNECTED
        assert (outlet.last_error, outlet.error_class) == (None, None)
        assert self.relay.status().last_error is None

    def test_server_that_never_answers_times_out(self) -> None:
        self.server.silent_about = {"connect"}
        self.start()
        self.relay.advance(10)
        assert self.relay.outlet().last_error == "the server does not answer (timed out)"
        assert self.relay.outlet().error_class == "network"

    def test_refused_publish_is_retried_after_ten_seconds(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "taken")
        self.start()
        outlet = self.relay.outlet()
        assert outlet.error_class == "refused"
        assert "BadName" in (outlet.last_error or "")
        assert outlet.next_attempt_time == 10.0
        self.relay.advance(9.5)
        assert self.server.attempts == 1
        self.relay.advance(0.5)
        assert self.server.attempts == 2

    def test_server_that_speaks_http_is_a_protocol_failure(self) -> None:
        self.server.greets_with = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        self.start()
        assert self.relay.outlet().error_class == "protocol"

    def test_third_quick_close_counts_as_a_refusal(self) -> None:
        self.start()
        for expected, delay in (("network", 1), ("network", 2), ("refused", 10)):
            self.relay.advance(4.5)
            self.last.close()
            outlet = self.relay.outlet()
            assert outlet.error_class == expected
            assert outlet.next_attempt_time == self.relay.clock.seconds() + delay
            self.relay.advance(delay - 0.5)
            assert self.relay.outlet().state is State.ERROR
            assert "closed the connection" in (self.relay.outlet().last_error or "")
            if expected == "network":
                self.relay.advance(0.5)
        assert "is the key right?" in (self.relay.outlet().last_error or "")

    def test_lost_connection_is_made_again_after_a_second(self) -> None:
        encoder = self.start()
        self.relay.advance(40)
        self.server.lose_all()
        outlet = self.relay.outlet()
        assert outlet.state is State.ERROR
        assert (outlet.error_class, outlet.last_error) == ("network", "the connection was lost")
        assert outlet.connect_time is None
        assert outlet.next_attempt_time == 41.0
        self.relay.advance(1)
        outlet = self.relay.outlet()
        assert (outlet.state, outlet.reconnect_count, outlet.connect_time) == (State.CONNECTED, 1, 41.0)
        assert self.relay.status().reconnect_count == 1
        self.relay.send(encoder, keyframe(50_000))
        self.relay.assert_balanced()

    def test_missing_certificate_file_fails_one_destination_alone(self) -> None:
        """A certificate file that is not there any more must not be anybody else's trouble."""
        other = self.relay.add_stub("two")
        self.relay.endpoint_error = FileNotFoundError(2, "No such file", "ca.pem")
        self.relay.add_destination()
        encoder = self.relay.publish()
        outlet = self.relay.outlet()
        assert (outlet.state, outlet.error_class) == (State.ERROR, "network")
        assert "No such file" in (outlet.last_error or "")
        self.relay.endpoint_error = None
        self.relay.add_destination("two", "rtmp://two/live/key")
        self.relay.advance(1)
        assert self.relay.status().state is State.CONNECTED
        self.relay.send(encoder, *start_frames(), *group(0))
        assert other.last.frames == self.last.frames

    def test_outlet_gives_up_after_max_retries_until_the_operator_reconnects(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.start(max_retries=2)
        self.relay.advance(500)
        outlet = self.relay.outlet()
        assert self.server.attempts == 3
        assert outlet.given_up
        assert outlet.state is State.ERROR
        assert outlet.next_attempt_time is None
        assert outlet.last_error == "nothing listens there (connection refused)"
        (event,) = self.relay.events_of(events.DestinationGivenUp)
        assert (event.destination, event.stream, event.failures) == ("one", "live/cam", 3)
        assert len(self.relay.events_of(events.DestinationReconnecting)) == 2
        # The operator revives it.
        self.server.failure = None
        self.relay.destinations.reconnect("one")
        self.relay.pump()
        assert not self.relay.outlet().given_up
        self.relay.send(encoder, *group(1000))
        assert self.relay.outlet().messages_sent > 0
        self.relay.assert_balanced()

    def test_reconnect_in_the_instant_of_giving_up_connects(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start(max_retries=1)
        self.relay.clock.advance(1.0)
        self.server.failure = None
        self.relay.destinations.reconnect("one")
        self.relay.advance(1)
        assert self.relay.outlet().state is State.CONNECTED

    def test_next_publisher_is_tried_after_giving_up(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.start(max_retries=1)
        self.relay.advance(10)
        encoder.end()
        assert self.relay.status().state is State.IDLE
        self.server.failure = None
        encoder.publish("cam")
        self.relay.pump()
        assert self.relay.status().state is State.CONNECTED

    def test_attempt_cancelled_by_the_end_is_not_an_error(self) -> None:
        self.server.black_hole = True
        encoder = self.start()
        encoder.end()
        assert self.server.cancelled == 1
        status = self.relay.status()
        assert (status.state, status.last_error) == (State.IDLE, None)

    def test_attempt_cancelled_by_a_reconnect_is_not_an_error(self) -> None:
        self.server.black_hole = True
        self.start()
        self.server.black_hole = False
        self.server.silent_about = {"publish"}
        self.relay.destinations.reconnect("one")
        self.relay.pump()
        outlet = self.relay.outlet()
        assert (self.server.cancelled, self.server.attempts) == (1, 2)
        assert (outlet.state, outlet.last_error) == (State.CONNECTING, None)

    def test_last_error_stays_when_the_publisher_ends(self) -> None:
        self.server.failure = ConnectionRefusedError()
        encoder = self.start()
        encoder.end()
        status = self.relay.status()
        assert (status.state, status.error_class) == (State.IDLE, "network")


class ReconnectTests(OutletTestCase):
    def test_nothing_is_sent_after_the_goodbye_of_a_reconnect(self) -> None:
        encoder = self.start()
        first = self.last
        first.transport.stalled = True
        self.relay.destinations.reconnect("one")
        outlet = self.relay.outlet()
        assert (outlet.state, outlet.connect_time) == (State.CONNECTING, None)
        self.relay.send(encoder, *group(200))
        self.relay.assert_balanced()
        self.relay.advance(2)
        assert len(self.server.connections) == 2
        assert self.last.frames[3:] == group(200)
        assert self.relay.outlet().dropped_by_reason == {}
        assert self.relay.outlet().last_error is None
        assert self.relay.outlet().reconnect_count == 1
        self.assert_time_goes_on()
        self.relay.assert_balanced()

    def test_reconnect_says_goodbye_on_the_old_connection(self) -> None:
        encoder = self.start()
        self.relay.destinations.reconnect("one")
        self.relay.send(encoder, *group(200))
        assert self.server.connections[0].order[-2:] == ["FCUnpublish", "deleteStream"]
        assert len(self.server.connections[0].media) == 13

    def test_reconnect_tries_at_once_instead_of_waiting(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start()
        self.relay.advance(20)
        attempts = self.server.attempts
        self.relay.destinations.reconnect("one")
        assert self.server.attempts == attempts + 1
        assert self.relay.outlet().next_attempt_time == self.relay.clock.seconds() + 1

    def test_reconnect_during_negotiation_cancels_the_attempt(self) -> None:
        self.server.silent_about = {"publish"}
        self.start()
        self.server.silent_about = set()
        self.relay.destinations.reconnect("one")
        self.relay.pump()
        assert [connection.lost for connection in self.server.connections] == [True, False]
        assert self.relay.outlet().state is State.CONNECTED

    def test_two_reconnects_make_one_new_connection(self) -> None:
        self.start()
        self.relay.destinations.reconnect("one")
        self.relay.destinations.reconnect("one")
        self.relay.advance(5)
        assert [connection.lost for connection in self.server.connections] == [True, False]
        assert self.relay.outlet().state is State.CONNECTED

    def test_bug_in_opening_the_gate_is_logged(self) -> None:
        with mock.patch.object(Delivery, "open_gate", side_effect=ValueError("odd")):
            self.start()
        assert len(self.flushLoggedErrors(ValueError)) == 1
        self.relay.destinations.reconnect("one")
        self.relay.pump()
        assert self.relay.outlet().state is State.CONNECTED

    def test_end_during_a_reconnect_makes_no_new_connection(self) -> None:
        encoder = self.start()
        self.relay.destinations.reconnect("one")
        encoder.end()
        self.relay.advance(5)
        assert len(self.server.connections) == 1
        assert self.relay.status().state is State.IDLE
        assert len(self.relay.events_of(events.DestinationClosed)) == 1

    def test_reconnect_during_the_end_makes_no_new_connection(self) -> None:
        encoder = self.start()
        self.last.transport.stalled = True
        encoder.end()
        self.relay.destinations.reconnect("one")
        self.relay.advance(5)
        assert len(self.server.connections) == 1
        assert self.relay.status().state is State.IDLE
