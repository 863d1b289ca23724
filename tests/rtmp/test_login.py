"""Users and passwords over RTMP: the server's side with our own client at the other end."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.rtmp.client import ClientSettings, RtmpPlayClientProtocol, RtmpPublisherProtocol
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.session.adobe import AuthenticationRefusedError
from rtmprelay.session.reports import ConnectAccepted, StatusReceived
from rtmprelay.testing import MemoryClient, MemoryEndpoint, MemoryServer
from rtmprelay.wire.url import RtmpUrl
from tests.access.helpers import Answering, Users


def connected(client: MemoryClient) -> bool:
    return any(isinstance(event, ConnectAccepted) for event in client.events)


class LoginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.users = Users(anna="geheim")
        self.other = Answering()
        self.server = MemoryServer(authorizers=[self.users, self.other])

    def reach(self, address: str, make: type[Any] = RtmpPublisherProtocol) -> Deferred[Any]:
        url = RtmpUrl.parse(address)
        endpoint = MemoryEndpoint(self.server)
        reached = Deferred.fromCoroutine(negotiate(make, url, endpoint, self.server.clock, ClientSettings()))
        self.server.pump()
        return reached

    def test_publisher_with_the_right_password_is_accepted_by_name(self) -> None:
        self.successResultOf(self.reach("rtmp://anna:geheim@host/studio/film"))
        assert self.server.registry.get("studio/film") is not None
        (request,) = self.users.asked
        assert request.credentials.user == "anna"

    def test_other_authorizers_do_not_get_the_parameters_of_the_login(self) -> None:
        self.successResultOf(self.reach("rtmp://anna:geheim@host/studio/film?token=t"))
        (request,) = self.other.asked
        assert request.credentials.as_query().reveal() == "token=t"

    def test_player_with_the_right_password_is_accepted(self) -> None:
        self.successResultOf(self.reach("rtmp://anna:geheim@host/studio/film"))
        self.successResultOf(self.reach("rtmp://anna:geheim@host/studio/film", RtmpPlayClientProtocol))
        assert self.server.registry.live("studio/film").viewers == 1
        assert [request.action.value for request in self.users.asked] == ["publish", "play"]
        assert {request.credentials.user for request in self.users.asked} == {"anna"}

    def test_wrong_password_is_refused_and_reported(self) -> None:
        reached = self.reach("rtmp://anna:falsch@host/studio/film")
        self.failureResultOf(reached, AuthenticationRefusedError)
        assert self.users.asked == []
        (told,) = self.server.events_of(events.ConnectRefused)
        assert (told.app, told.reason) == ("studio", "the user or the password is wrong")

    def test_client_without_a_user_is_refused(self) -> None:
        failure = self.failureResultOf(self.reach("rtmp://host/studio/film"), AuthenticationRefusedError)
        assert "user:password@" in str(failure.value)
        assert not self.server.events_of(events.ConnectRefused)

    def test_other_applications_need_no_login(self) -> None:
        assert connected(self.server.connect("live"))

    def test_client_with_a_key_is_not_asked_for_a_login(self) -> None:
        for query in ("key=k", "token=t", "jwt=j"):
            assert connected(self.server.connect(f"studio?{query}"))
        assert not connected(self.server.connect("studio?other=x"))

    def test_server_without_users_never_asks_for_a_login(self) -> None:
        server = MemoryServer(authorizers=[Answering()])
        client = server.connect("studio?authmod=adobe&user=anna")
        assert connected(client)

    def test_client_that_is_asked_and_stays_is_closed(self) -> None:
        client = self.server.connect("studio")
        (status,) = [event for event in client.events if isinstance(event, StatusReceived)]
        assert status.code == "NetConnection.Connect.Rejected"
        assert "code=403 need auth; authmod=adobe" in status.description
        self.server.advance(2, 0.1)
        assert client.connection.lost
        assert not client.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert closed.reason == "it was asked for a user"
        assert not self.server.clock.getDelayedCalls()

    def test_client_that_asks_on_after_a_refusal_gets_nothing(self) -> None:
        client = self.server.connect("studio")
        client.publish("film")
        client.play("film")
        assert self.users.asked == []

    def test_many_unanswered_challenges_take_no_memory(self) -> None:
        for _ in range(100):
            client = self.server.connect("studio?authmod=adobe&user=anna")
            client.disconnect()
        assert self.server.factory.connection_count == 0
        assert not self.server.clock.getDelayedCalls()

    def test_no_event_has_the_password_or_what_is_computed_from_it(self) -> None:
        for password in ("geheim", "MARKED"):
            reached = self.reach(f"rtmp://anna:{password}@host/studio/film")
            reached.addErrback(lambda _: None)
        text = repr(self.server.events)
        assert not any(word in text for word in ("geheim", "MARKED", "response", "opaque", "authmod"))
