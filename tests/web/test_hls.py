"""HLS over HTTP, on a clock in memory: playlists, waiting, media, sessions, permissions."""

from __future__ import annotations

import gzip
from urllib.parse import urljoin

import pytest

from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.events import ConnectionOpened, MediaStatistics, PlayStarted, PlayStopped
from rtmprelay.media import MediaFrame
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from tests.hls.playlist import Playlist
from tests.hls.test_cutter import pictures
from tests.web.hls import INDEX, HlsWeb, Waiting

PLAYLIST = "/live/film/video0.m3u8"


@pytest.fixture
def web() -> HlsWeb:
    world = HlsWeb()
    world.begin()
    world.pass_time(7)
    return world


def newest(playlist: Playlist) -> tuple[int, int]:
    """The number of the last part that is there, with that of its segment."""
    msn, parts = playlist.end
    return (msn, parts - 1) if parts else (msn - 1, len(playlist.segments[-1].parts) - 1)


def test_index_names_a_playlist_that_names_media(web: HlsWeb) -> None:
    path = web.index()
    playlist = web.playlist(path)
    assert playlist.complete_segments
    for segment in playlist.complete_segments[-2:]:
        whole = web.get(urljoin(path, segment.uri or ""))
        assert whole.status == 200
        parts = [web.get(urljoin(path, part.uri)).body for part in segment.parts]
        assert b"".join(parts) == whole.body
    init = playlist.first("EXT-X-MAP")
    assert init is not None
    assert web.get(urljoin(path, init.get("URI") or "")).body[4:8] == b"ftyp"
    web.checker.assert_clean()


def test_index_says_what_the_stream_is(web: HlsWeb) -> None:
    text = web.get(INDEX).body.decode()
    assert 'CODECS="avc1.64000d,mp4a.40.2"' in text
    assert "RESOLUTION=318x238" in text
    assert "FRAME-RATE=30.000" in text
    assert "EXT-X-STREAM-INF:BANDWIDTH=" in text


def test_first_viewer_waits_for_the_first_segment() -> None:
    web = HlsWeb()
    web.begin()
    waiting = web.ask(INDEX)
    web.pass_time(1)
    assert waiting.is_blocked
    web.pass_time(1.2)
    assert waiting.response is not None
    assert waiting.response.status == 200


def test_stream_that_sends_nothing_is_answered_after_a_bounded_time() -> None:
    web = HlsWeb()
    web.publish("live/film", [])
    waiting = web.ask(INDEX)
    web.pass_time(11)
    assert waiting.response is not None
    assert waiting.response.status == 503
    assert "retry-after" in waiting.response.headers


# -- blocking reload -----------------------------------------------------------------------------------------


def test_request_for_the_next_part_waits_for_it(web: HlsWeb) -> None:
    playlist = web.playlist(PLAYLIST)
    msn, part = playlist.end
    path = f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part={part}"
    waiting = web.ask(path)
    assert waiting.is_blocked
    web.pass_time(0.36)
    assert waiting.response is not None
    assert newest(web.check(path, waiting.response)) == (msn, part)
    web.checker.assert_clean()


def test_every_part_is_got_by_a_player_that_follows(web: HlsWeb) -> None:
    path = web.index()
    playlist = web.playlist(path)
    for _ in range(60):
        msn, part = newest(playlist)
        asked = f"{path}&_HLS_msn={msn}&_HLS_part={part + 1}&_HLS_skip=YES"
        waiting = web.ask(asked)
        web.pass_time(0.36)
        assert waiting.response is not None
        playlist = web.check(asked, waiting.response)
        hint = playlist.first("EXT-X-PRELOAD-HINT")
        assert hint is not None
        hinted = web.ask(urljoin(path, hint.get("URI") or ""))
        web.pass_time(0.34)
        assert hinted.response is not None
        assert hinted.response.status == 200
    web.checker.assert_clean()


def test_blocked_request_is_answered_within_three_target_durations(web: HlsWeb) -> None:
    msn, part = web.playlist(PLAYLIST).end
    web.end(clean=False)
    waiting = web.ask(f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part={part}")
    web.pass_time(5.9)
    assert waiting.is_blocked
    web.pass_time(0.2)
    assert waiting.response is not None
    assert waiting.response.status == 200
    # No cache keeps it as if it had what was asked for.
    assert waiting.response.headers["cache-control"] == "no-store"


def test_blocked_requests_of_clients_that_go_are_forgotten(web: HlsWeb) -> None:
    msn, _ = web.playlist(PLAYLIST).end
    waiting = web.ask(f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part=3")
    waiting.client.lose()
    web.pass_time(8)


@pytest.mark.parametrize(
    "query",
    [
        "_HLS_msn=5000",
        "_HLS_msn=4&_HLS_part=900",
        "_HLS_msn=-1",
        "_HLS_msn=x",
        "_HLS_msn=",
        "_HLS_part=1",
        "_HLS_msn=1&_HLS_part=1e3",
        "_HLS_skip=NO",
        "session=a",
        "session=%00%00%00%00%00%00%00%00%00",
        "&".join(["a=b"] * 40),
        "session=%ff%ff%ff%ff%ff",
    ],
)
def test_nonsense_in_the_query_is_refused(web: HlsWeb, query: str) -> None:
    web.playlist(PLAYLIST)
    assert web.get(f"{PLAYLIST}?{query}").status == 400


def test_too_many_waiting_requests_are_told_to_come_later() -> None:
    web = HlsWeb(limits=HlsLimits(hls_waiting=2))
    web.begin()
    web.pass_time(7)
    msn, part = web.playlist(PLAYLIST).end
    path = f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part={part}"
    first = [web.ask(path), web.ask(path)]
    third = web.ask(path)
    assert third.response is not None
    assert third.response.status == 503
    assert "retry-after" in third.response.headers
    web.pass_time(0.4)
    assert all(one.response is not None and one.response.status == 200 for one in first)


# -- media ---------------------------------------------------------------------------------------------------


def test_media_that_is_gone_and_media_that_never_was() -> None:
    web = HlsWeb(HlsSettings(match=("*",), window=4.0))
    web.begin()
    web.pass_time(7)
    playlist = web.playlist(PLAYLIST)
    first = playlist.complete_segments[0]
    broadcast = (first.uri or "").split("-")[1]
    web.pass_time(20, step=0.1)
    assert web.get(f"/live/film/s-{broadcast}-0-0.m4s").status == 410
    assert web.get(f"/live/film/p-{broadcast}-0-0.m4s").status == 410
    assert web.get(f"/live/film/s-{broadcast}-0-900.m4s").status == 404
    assert web.get(f"/live/film/p-{broadcast}-0-9000.m4s").status == 404
    assert web.get(f"/live/film/i-{broadcast}-0-7.m4s").status == 404
    assert web.get("/live/film/s-zzz-0-0.m4s").status == 404
    assert web.get(f"/live/film/s-{broadcast}-9-0.m4s").status == 404
    assert web.get("/live/film/video7.m3u8").status == 404
    assert web.get("/live/other/index.m3u8").status == 404
    assert web.get("/live/other/video0.m3u8").status == 404


def test_caches_may_keep_media_as_long_as_it_lives_and_playlists_for_a_part(web: HlsWeb) -> None:
    path = web.index()
    playlist = web.playlist(path)
    media = web.get(urljoin(path, playlist.complete_segments[0].uri or ""))
    assert media.headers["cache-control"] == "public, max-age=30, immutable"
    assert media.headers["content-type"] == "video/mp4"
    assert web.get(path).headers["cache-control"].startswith("max-age=0")
    assert web.get(INDEX).headers["cache-control"] == "no-store"


def test_playlists_are_compressed_for_those_who_can_read_that(web: HlsWeb) -> None:
    plain = web.get(PLAYLIST)
    packed = web.get(PLAYLIST, Accept_Encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["vary"]
    assert gzip.decompress(packed.body) == plain.body
    assert "content-encoding" not in plain.headers


def test_head_has_the_headers_alone(web: HlsWeb) -> None:
    response = web.request("HEAD", PLAYLIST)
    assert response.status == 200
    assert int(response.headers["content-length"]) > 100


def test_a_playlist_version_is_written_once_for_all() -> None:
    web = HlsWeb()
    web.begin()
    web.pass_time(7)
    broadcast = web.hls.get("live/film")
    assert broadcast is not None
    first = broadcast.media_playlist(0, False, "")
    assert broadcast.media_playlist(0, False, "") is first
    web.pass_time(0.4)
    assert broadcast.media_playlist(0, False, "") is not first


# -- the publisher goes and comes ------------------------------------------------------------------------------


def test_viewers_go_on_when_the_publisher_returns(web: HlsWeb) -> None:
    path = web.index()
    before = web.playlist(path)
    web.end(clean=False)
    web.pass_time(3)
    web.begin()
    web.pass_time(6)
    after = web.playlist(path)
    assert after.end > before.end
    assert not any(segment.discontinuity for segment in after.segments)
    web.checker.assert_clean()


def test_playlist_ends_a_window_after_the_publisher_and_is_gone_after_another() -> None:
    web = HlsWeb(HlsSettings(match=("*",), window=10.0))
    web.begin()
    web.pass_time(12)
    path = web.index()
    web.playlist(path)
    web.end()
    web.pass_time(9.5)
    assert not web.playlist(path).has_ended
    web.pass_time(1)
    ended = web.playlist(path)
    assert ended.has_ended
    assert web.get(urljoin(path, ended.complete_segments[-1].uri or "")).status == 200
    web.checker.assert_clean()
    web.pass_time(10.5)
    assert web.get(path).status == 404


def test_waiting_requests_are_let_go_at_the_end() -> None:
    web = HlsWeb(HlsSettings(match=("*",), window=4.0))
    web.begin()
    web.pass_time(7)
    msn, part = web.playlist(PLAYLIST).end
    web.end()
    web.pass_time(3.5)
    waiting = web.ask(f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part={part}")
    web.pass_time(0.6)
    assert waiting.response is not None
    assert b"#EXT-X-ENDLIST" in waiting.response.body


def test_next_broadcast_of_a_name_is_another_one() -> None:
    web = HlsWeb(HlsSettings(match=("*",), window=4.0))
    web.begin()
    web.pass_time(7)
    old = web.playlist(web.index())
    web.end()
    web.pass_time(5)
    web.begin()
    web.pass_time(5)
    new = web.playlist(web.index())
    assert not new.has_ended
    assert {one.uri for one in old.complete_segments}.isdisjoint(one.uri for one in new.complete_segments)


def test_only_streams_that_the_option_names_are_packaged() -> None:
    web = HlsWeb(HlsSettings(match=("live/*",)))
    web.begin("private/film")
    web.pass_time(5)
    assert web.get("/private/film/index.m3u8").status == 404
    assert web.get("/private/film/video0.m3u8").status == 404


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


# -- the port for viewers --------------------------------------------------------------------------------------


def test_port_for_viewers_has_media_and_nothing_else() -> None:
    web = HlsWeb(on_media_port=True)
    web.begin()
    web.pass_time(7)
    assert web.get(INDEX).status == 200
    assert web.get(PLAYLIST).status == 200
    for path in ("/", "/health", "/streams", "/destinations", "/metrics", "/events", "/control", "/assets/x"):
        assert web.get(path).status == 404
    assert web.request("DELETE", "/streams/live/film/publisher").status == 404
    assert web.request("POST", INDEX).status == 405


def test_client_that_does_not_read_a_large_segment_is_cut_off() -> None:
    web = HlsWeb()
    large = [
        MediaFrame(frame.kind, frame.timestamp_ms, frame.payload + bytes(20_000)) for frame in pictures(8)
    ]
    web.begin(frames=large)
    web.pass_time(7)
    path = web.index()
    uri = urljoin(path, web.playlist(path).complete_segments[0].uri or "")
    whole = web.get(uri)
    assert len(whole.body) > 1_000_000
    reader = Waiting(web, "/health")
    reader.client.transport.clear()
    reader.client.transport.stalled = True
    reader.client.send(f"GET {uri} HTTP/1.1\r\nHost: relay\r\n\r\n".encode())
    assert len(reader.client.transport.value()) < 300_000
    web.pass_time(31, step=1)
    assert reader.client.transport.aborted
