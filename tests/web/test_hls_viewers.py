"""Viewers of HLS over HTTP, on a clock in memory: sessions, what their players tell, permissions."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.events import ConnectionOpened, MediaStatistics, PlayStarted, PlayStopped
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from tests.web.hls import INDEX, PLAYLIST, HlsWeb, watched


@pytest.fixture
def web() -> HlsWeb:
    return watched()


# -- viewers ---------------------------------------------------------------------------------------------------


def test_viewer_is_counted_from_the_first_playlist_until_none_is_asked_for(web: HlsWeb) -> None:
    path = web.index()
    assert web.stream.viewers == 0
    playlist = web.playlist(path)
    assert web.stream.viewers == 1
    assert web.get("/streams/live/film").json["players"] == 1
    assert 'rtmprelay_players{kind="hls"} 1.0' in web.get("/metrics").body.decode()
    media = web.get(urljoin(path, playlist.complete_segments[0].uri or ""))
    web.pass_time(2)
    web.playlist(path)
    web.pass_time(5)
    assert web.stream.viewers == 1
    web.pass_time(3)
    assert web.stream.viewers == 0
    started, stopped = web.told.of(PlayStarted), web.told.of(PlayStopped)
    assert [event.protocol for event in started] == ["hls"]
    assert [event.protocol for event in stopped] == ["hls"]
    assert stopped[0].duration == pytest.approx(2.0, abs=0.1)
    assert stopped[0].bytes > len(media.body)
    opened = web.told.of(ConnectionOpened)
    assert opened[0].peer.startswith("192.0.2.9")


def test_blocked_viewer_has_not_left(web: HlsWeb) -> None:
    path = web.index()
    msn, part = web.playlist(path).end
    web.end(clean=False)
    for _ in range(3):
        waiting = web.ask(f"{path}&_HLS_msn={msn}&_HLS_part={part}")
        web.pass_time(6.1)
        assert waiting.response is not None
    assert web.stream.viewers == 1


def test_viewer_over_max_players_is_told_to_come_later(web: HlsWeb) -> None:
    web.registry._limits = type(web.registry._limits)(max_players=1)
    first, second = web.index(), web.index()
    web.playlist(first)
    for path in (second, INDEX):
        response = web.get(path)
        assert response.status == 503
        assert "retry-after" in response.headers
    web.playlist(first)


def test_sessions_are_bounded() -> None:
    web = HlsWeb(limits=HlsLimits(hls_viewers=3))
    web.begin()
    web.pass_time(7)
    answers = [web.get(f"{PLAYLIST}?session=session-{number}").status for number in range(10)]
    assert answers == [200] * 3 + [503] * 7
    assert len(web.hls.viewers) == 3


def test_anonymous_viewers_share_one_address_and_are_not_counted() -> None:
    web = HlsWeb(HlsSettings(match=("*",), anonymous=True))
    web.begin()
    web.pass_time(7)
    assert web.index() == web.index() == PLAYLIST
    web.playlist(PLAYLIST)
    assert web.stream.viewers == 0
    assert "s-maxage=1" in web.get(INDEX).headers["cache-control"]


def test_what_players_tell_is_in_the_events(web: HlsWeb) -> None:
    path = web.index()
    web.playlist(f"{path}&CMCD=su%2Cmtp%3D4000")
    segment = web.playlist(path).complete_segments[0].uri or ""
    web.pass_time(1)
    web.get(urljoin(path, segment) + "?CMCD=bs%2Cmtp%3D2500%2Csid%3D%22abc%22%2Cx%3D1")
    web.get(urljoin(path, segment), CMCD_Status="bs", CMCD_Request="mtp=2600")
    for _ in range(16):
        web.playlist(path)
        web.pass_time(4, step=0.1)
    told = web.told.of(MediaStatistics)
    assert told[0].throughput_kbps == 2600
    assert told[0].stalls == 2
    web.pass_time(10, step=0.1)
    stopped = web.told.of(PlayStopped)[0]
    assert stopped.stalls == 2
    assert stopped.throughput_kbps == 2600
    assert stopped.startup == pytest.approx(1.0, abs=0.1)


# -- who may ---------------------------------------------------------------------------------------------------


class _KeyNeeded:
    """Lets viewers in whose query has the key."""

    def authorize(self, request: AccessRequest) -> Verdict:
        key = request.credentials.parameter("key")
        return ALLOWED if key is not None and key.reveal() == "open" else refused("the key is wrong")


@pytest.fixture
def closed() -> HlsWeb:
    world = HlsWeb(authorizers=[_KeyNeeded()])  # type: ignore[list-item]
    world.begin()
    world.pass_time(7)
    return world


def permitted(web: HlsWeb) -> str:
    response = web.get(f"{INDEX}?key=open")
    assert response.status == 200
    return urljoin(INDEX, response.body.decode().splitlines()[-1])


def test_index_asks_the_gate(closed: HlsWeb) -> None:
    assert closed.get(INDEX).status == 401
    assert closed.get(f"{INDEX}?key=wrong").status == 403
    assert closed.get("/live/none/index.m3u8").status == 401
    assert permitted(closed)


def test_everything_below_needs_the_signature(closed: HlsWeb) -> None:
    path = permitted(closed)
    playlist = closed.playlist(path)
    segment = urljoin(path, playlist.complete_segments[0].uri or "")
    assert closed.get(segment).status == 200
    assert closed.get(segment.partition("?")[0]).status == 401
    assert closed.get(segment[:-1] + ("A" if segment[-1] != "A" else "B")).status == 403
    assert closed.get(PLAYLIST).status == 401
    other = segment.replace("/live/film/", "/live/other/")
    assert closed.get(other).status == 403
    closed.checker.assert_clean()


def test_signature_is_the_same_for_all_and_renewed(closed: HlsWeb) -> None:
    first, second = (closed.playlist(permitted(closed)) for _ in range(2))
    assert [one.uri for one in first.complete_segments] == [one.uri for one in second.complete_segments]


def test_viewer_that_goes_on_needs_no_new_signature(closed: HlsWeb) -> None:
    path = permitted(closed)
    old = closed.playlist(path)
    for _ in range(140):
        closed.pass_time(5, step=2.5)
        closed.playlist(path)
    new = closed.playlist(path)
    signature = (new.complete_segments[-1].uri or "").partition("?")[2]
    assert signature != (old.complete_segments[0].uri or "").partition("?")[2]
    assert closed.get(urljoin(path, new.complete_segments[-1].uri or "")).status == 200
    init = new.first("EXT-X-MAP")
    assert init is not None
    assert (
        closed.get(urljoin(path, (init.get("URI") or "").partition("?")[0] + "?" + signature)).status == 200
    )
    old_init = old.first("EXT-X-MAP")
    assert old_init is not None
    # What was signed eleven minutes ago is good no more.
    assert closed.get(urljoin(path, old_init.get("URI") or "")).status == 403
    # Whoever stopped asking has to begin at index.m3u8 again.
    closed.pass_time(20, step=1)
    assert closed.get(path).status == 403
