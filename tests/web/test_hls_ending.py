"""HLS viewers who are sent away by the operator, or are not allowed any more: their session is over for good."""

from __future__ import annotations

from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.access.gate import Gate
from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.interfaces import IStreamAuthorizer
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.rtmp.recheck import Recheck
from rtmprelay.secret import Secret
from tests.web.helpers import Response
from tests.web.hls import INDEX, HlsWeb

BY_OPERATOR = "ended by the operator of this server"


@implementer(IStreamAuthorizer)
class _Keys:
    """Lets viewers in who have one of some keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.asked = 0

    def authorize(self, request: AccessRequest) -> Verdict:
        self.asked += 1
        key = request.credentials.parameter("key")
        return ALLOWED if key is not None and key.reveal() in self.keys else refused("the key is wrong")


@pytest.fixture
def keys() -> _Keys:
    return _Keys("anna", "bert")


def begun(keys: _Keys | None, settings: HlsSettings | None = None, limits: HlsLimits | None = None) -> HlsWeb:
    web = HlsWeb(settings, limits, authorizers=[] if keys is None else [keys])
    web.begin(seconds=600)
    web.pass_time(7)
    return web


def permitted(web: HlsWeb, key: str) -> str:
    response = web.get(f"{INDEX}?key={key}")
    assert response.status == 200
    return urljoin(INDEX, response.body.decode().splitlines()[-1])


def names(web: HlsWeb) -> list[str]:
    """The connections of those who watch."""
    opened = [event.connection for event in web.told.events if isinstance(event, events.PlayStarted)]
    ended = [event.connection for event in web.told.events if isinstance(event, events.PlayStopped)]
    return [name for name in opened if name not in ended]


def reasons(web: HlsWeb) -> list[str]:
    return [event.reason for event in web.told.events if isinstance(event, events.PlayStopped)]


def test_operator_ends_a_session_for_good_and_no_other_one(keys: _Keys) -> None:
    web = begun(keys)
    web.service.control.player_enders.append(web.hls.viewers.end)
    first, second = permitted(web, "anna"), permitted(web, "bert")
    web.playlist(first)
    web.playlist(second)
    gone, stays = names(web)
    web.service.control.end_play(gone)
    assert names(web) == [stays]
    assert reasons(web) == [BY_OPERATOR]
    for _ in range(3):
        assert web.get(first).status == 403
        web.pass_time(2, step=1)
        assert web.get(second).status == 200
    assert names(web) == [stays]


def test_session_that_was_ended_stays_so_for_as_long_as_its_address_is_good(keys: _Keys) -> None:
    web = begun(keys)
    path = permitted(web, "anna")
    web.playlist(path)
    assert web.hls.viewers.end(names(web)[0], BY_OPERATOR)
    for _ in range(140):
        web.pass_time(10, step=5)
        assert web.get(path).status == 403
    # The viewer may ask at index.m3u8 again, where it is the authorizers who decide.
    assert web.get(permitted(web, "anna")).status == 200


def test_without_authorizers_the_session_is_told_why_it_is_over() -> None:
    web = begun(None)
    path = web.index()
    web.playlist(path)
    web.hls.viewers.end(names(web)[0], BY_OPERATOR)
    response = web.get(path)
    assert (response.status, BY_OPERATOR.encode() in response.body) == (403, True)
    assert web.get(web.index()).status == 200


def test_request_that_waits_is_refused_when_its_session_is_ended() -> None:
    web = begun(None)
    path = web.index()
    playlist = web.playlist(path)
    waiting = web.ask(f"{path}&_HLS_msn={playlist.complete_segments[-1].msn + 2}")
    assert web.hls.viewers.end(names(web)[0], BY_OPERATOR)
    web.pass_time(4)
    assert waiting.response is not None
    assert waiting.response.status == 403
    assert names(web) == []


def test_authorizers_are_asked_again_about_those_who_watch(keys: _Keys) -> None:
    web = begun(keys)
    recheck = Recheck(Gate([keys], web.clock), 60.0, web.clock, [web.hls.viewers.granted])
    recheck.start()
    first, second = permitted(web, "anna"), permitted(web, "bert")
    asked = keys.asked
    for _ in range(50):
        web.playlist(first)
        web.playlist(second)
        web.pass_time(2, step=1)
    assert keys.asked == asked + 2
    keys.keys.remove("anna")
    statuses: list[int] = []
    for _ in range(40):
        statuses.append(web.get(first).status)
        web.playlist(second)
        web.pass_time(2, step=1)
    assert (statuses[0], statuses[-1]) == (200, 403)
    assert reasons(web) == ["not allowed any more: the key is wrong"]
    assert len(names(web)) == 1


def signature_of(uri: str) -> str:
    return parse_qs(urlsplit(uri).query)["sig"][0]


def ways_round(web: HlsWeb, path: str) -> list[Response]:
    """What a viewer may try who is to be asked about again: other sessions, and the signature of media."""
    playlist = web.playlist(path)
    media = signature_of(urljoin(path, playlist.complete_segments[-1].uri or ""))
    session = parse_qs(urlsplit(path).query)["session"][0]
    bare = path.partition("?")[0]
    return [
        web.get(f"{bare}?{query}")
        for query in (
            f"sig={media}",
            f"session=AAAAAAAAAAAA&sig={media}",
            f"session=AAAAAAAAAAAA&sig={signature_of(path)}",
            f"sig={signature_of(path)}",
            f"session={session}A&sig={signature_of(path)}",
        )
    ]


@pytest.mark.parametrize("sign_key", [None, Secret("a key that several relays share")])
def test_viewer_gets_no_session_that_nobody_is_asked_about_again(
    keys: _Keys, sign_key: Secret | None
) -> None:
    web = begun(keys, HlsSettings(match=("*",), sign_key=sign_key))
    assert [response.status for response in ways_round(web, permitted(web, "anna"))] == [403] * 5


def test_viewer_that_pauses_goes_on_with_its_address(keys: _Keys) -> None:
    web = begun(keys)
    path = permitted(web, "anna")
    web.playlist(path)
    web.pass_time(60, step=1)
    assert names(web) == []
    web.playlist(path)
    assert len(web.hls.viewers.granted()) == 1


def test_sessions_of_one_address_leave_room_for_others(keys: _Keys) -> None:
    web = begun(None, limits=HlsLimits(hls_viewers=10, hls_viewers_per_address=3))
    noted: list[tuple[str, str]] = []
    web.hls.viewers.note_refused = lambda host, limit: noted.append((host, limit))
    bare = web.index().partition("?")[0]
    answers = [web.get(f"{bare}?session=session-{number}") for number in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 503, 503]
    assert b"hls_viewers_per_address" in answers[-1].body
    assert noted == [("192.0.2.9", "hls_viewers_per_address")] * 2
    web.pass_time(20, step=1)
    assert web.get(f"{bare}?session=session-9").status == 200


def test_what_is_kept_for_sessions_is_bounded(keys: _Keys) -> None:
    web = begun(keys, limits=HlsLimits(hls_viewers=10))
    paths = [permitted(web, "anna") for _ in range(30)]
    assert web.get(paths[0]).status == 403
    assert web.get(paths[-1]).status == 200
    assert web.get(f"{INDEX}?key=anna&x={'y' * 5000}").status == 414
