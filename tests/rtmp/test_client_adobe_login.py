"""Adobe's authentication, against a server that computes the answer for itself."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import base64
import hashlib

from twisted.internet.defer import CancelledError
from typing_extensions import override

from rtmprelay.session.adobe import AuthenticationRefusedError
from rtmprelay.wire.messages import (
    Command,
)
from tests.rtmp.client_harness import ClientTests


class AdobeTests(ClientTests):
    """A server that wants Adobe's authentication, and computes the answer for itself."""

    url = "rtmp://anna:PASSWORDMARK@host/app/KEYMARK"
    password = "PASSWORDMARK"

    @override
    def setUp(self) -> None:
        super().setUp()
        self.server.refuse_connect = self.check
        self.apps: list[str] = []

    def check(self, command: Command) -> str | None:
        assert isinstance(command.command_object, dict)
        app = str(command.command_object["app"])
        self.assertEqual(command.command_object["tcUrl"], f"rtmp://host/{app}")
        self.apps.append(app)
        query = dict(part.split("=", 1) for part in app.partition("?")[2].split("&") if part)
        rejected = "[ AccessManager.Reject ] : [ "
        if query.get("authmod") != "adobe":
            return f"{rejected}code=403 need auth; authmod=adobe ] : "
        salt, opaque = "a+b/c==", "o+p/q=="
        if "response" not in query:
            return (
                f"{rejected}authmod=adobe ] : ?reason=needauth&user={query['user']}"
                f"&salt={salt}&challenge={opaque}&opaque={opaque}"
            )

        def hashed(text: str) -> str:
            return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()

        expected = hashed(hashed("anna" + salt + self.password) + opaque + query["challenge"])
        if query["response"] == expected and query["opaque"] == opaque:
            return None
        return f"{rejected}authmod=adobe ] : ?reason=authfailed&opaque={opaque}"

    def test_right_password_is_accepted_on_the_third_connection(self) -> None:
        self.publish(self.url)
        self.assertEqual(len(self.server.connections), 3)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, True, False])
        self.assertEqual(self.apps[0], "app")
        self.assertEqual(self.apps[1], "app?authmod=adobe&user=anna")

    def test_query_of_the_application_stays_before_the_login(self) -> None:
        self.publish("rtmp://anna:PASSWORDMARK@host/app?x=y")
        self.assertEqual(self.apps[1], "app?x=y&authmod=adobe&user=anna")

    def test_wrong_password_is_refused_with_the_reason(self) -> None:
        self.password = "another"
        asking = self.ask(self.url)
        self.assertIn("does not accept", self.reason(asking, AuthenticationRefusedError))
        self.assertEqual(len(self.server.connections), 3)

    def test_login_without_a_user_says_how_to_give_one(self) -> None:
        self.assertIn("user:password@", self.reason(self.ask(), AuthenticationRefusedError))
        self.assertEqual(len(self.server.connections), 1)

    def test_password_is_never_sent(self) -> None:
        self.publish(self.url)
        for connection in self.server.connections:
            self.assertNotIn("PASSWORDMARK", repr(connection.messages))

    def test_cancelling_between_two_connections_closes_both(self) -> None:
        self.server.refuse_connect = lambda command: (
            self.check(command) if len(self.server.connections) == 1 else None
        )
        self.server.silent_about = {"publish"}
        asking = self.ask(self.url)
        asking.cancel()
        self.pump()
        self.failureResultOf(asking, CancelledError)
        self.assertEqual([connection.lost for connection in self.server.connections], [True, True])
