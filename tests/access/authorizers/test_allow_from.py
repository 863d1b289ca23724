"""Clients are allowed by their address."""

from __future__ import annotations

import pytest

from rtmprelay.access.authorizers.allow_from import make_allow_from
from rtmprelay.access.request import Action
from rtmprelay.errors import ConfigError
from tests.access.helpers import access_request

PUBLISH, PLAY = Action.PUBLISH, Action.PLAY


@pytest.mark.parametrize(
    ("argument", "action", "host", "allowed"),
    [
        ("192.0.2.0/24", PUBLISH, "192.0.2.77", True),
        ("192.0.2.0/24", PLAY, "192.0.2.77", True),
        ("192.0.2.0/24", PUBLISH, "192.0.3.1", False),
        ("192.0.2.7", PLAY, "192.0.2.7", True),
        ("192.0.2.7", PLAY, "192.0.2.8", False),
        ("192.0.2.0/24,198.51.100.0/24", PLAY, "198.51.100.1", True),
        ("192.0.2.0/24, 198.51.100.0/24", PLAY, "198.51.100.1", True),
        ("publish=10.0.0.0/8,play=0.0.0.0/0", PUBLISH, "192.0.2.1", False),
        ("publish=10.0.0.0/8,play=0.0.0.0/0", PUBLISH, "10.1.2.3", True),
        ("publish=10.0.0.0/8,play=0.0.0.0/0", PLAY, "192.0.2.1", True),
        # A network without an action belongs to the action before it.
        ("publish=10.0.0.0/8,192.0.2.0/24,play=any", PUBLISH, "192.0.2.1", True),
        ("play=10.0.0.0/8,192.0.2.0/24,publish=none", PUBLISH, "192.0.2.1", False),
        ("127.0.0.1,publish=192.0.2.0/24", PUBLISH, "192.0.2.1", True),
        ("127.0.0.1,publish=192.0.2.0/24", PLAY, "192.0.2.1", False),
        ("127.0.0.1,publish=192.0.2.0/24", PLAY, "127.0.0.1", True),
        ("publish=none,play=any", PUBLISH, "127.0.0.1", False),
        ("publish=none,play=ANY", PLAY, "", True),
        # A unix socket belongs to no network, not even to 0.0.0.0/0.
        ("0.0.0.0/0,::/0", PUBLISH, "", False),
        ("0.0.0.0/0,unix", PUBLISH, "", True),
        ("unix", PUBLISH, "127.0.0.1", False),
        ("any", PUBLISH, "", True),
        # IPv6, and IPv4 clients of a socket that listens for both.
        ("2001:db8::/32", PUBLISH, "2001:db8::1", True),
        ("2001:db8::/32", PUBLISH, "2001:db9::1", False),
        ("192.0.2.0/24", PUBLISH, "::ffff:192.0.2.9", True),
        ("192.0.2.0/24", PUBLISH, "::ffff:192.0.3.9", False),
        ("::ffff:192.0.2.0/120", PUBLISH, "192.0.2.9", True),
        ("::ffff:192.0.2.0/120", PUBLISH, "192.0.3.9", False),
        ("::/0", PUBLISH, "192.0.2.9", False),
        ("0.0.0.0/0", PUBLISH, "2001:db8::1", False),
        ("fe80::/10", PUBLISH, "fe80::1%eth0", True),
        ("any", PUBLISH, "something else", True),
        ("0.0.0.0/0", PUBLISH, "something else", False),
        ("0.0.0.0/0", PUBLISH, "192.0.2.1:1935", False),
    ],
)
def test_client_is_allowed_by_its_address(argument: str, action: Action, host: str, allowed: bool) -> None:
    verdict = make_allow_from(argument).authorize(access_request(action, host=host))
    assert verdict.allowed is allowed
    assert allowed or verdict.reason == "it is not allowed from this address"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "'' is not a network"),
        ("192.0.2.0/33", "is not a network"),
        ("example.org", "'example.org' is not a network"),
        ("192.0.2.0/24,", "'' is not a network"),
        ("192.0.2.5/24", "write 192.0.2.0/24, or 192.0.2.5 alone"),
        ("2001:db8::1/32", "write 2001:db8::/32, or 2001:db8::1 alone"),
        ("publish=10.0.0.0/8", "nothing is said about play: add play=any, play=none, or networks"),
        ("play=any", "nothing is said about publish"),
        ("watch=any", "'watch' is not an action: write publish or play before the ="),
        ("publish=none,10.0.0.0/8,play=any", "none must stand alone"),
    ],
)
def test_bad_argument_is_refused_with_its_reason(argument: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        make_allow_from(argument)
