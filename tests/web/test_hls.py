"""HLS over HTTP, on a clock in memory: playlists, waiting, media."""

from __future__ import annotations

import gzip
from urllib.parse import urljoin

import pytest

from rtmprelay.media import MediaFrame
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from tests.hls.playlist import Playlist
from tests.hls.test_cutter import pictures
from tests.web.hls import INDEX, PLAYLIST, HlsWeb, Waiting, watched


@pytest.fixture
def web() -> HlsWeb:
    return watched()


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
    msn, _ = web.playlist(PLAYLIST).end
    web.end(clean=False)
    waiting = web.ask(f"{PLAYLIST}?_HLS_msn={msn}")
    web.pass_time(5.9)
    assert waiting.is_blocked
    web.pass_time(0.2)
    assert waiting.response is not None
    assert waiting.response.status == 200
    # No cache keeps it as if it had what was asked for.
    assert waiting.response.headers["cache-control"] == "no-store"


def test_request_for_a_part_is_answered_before_players_lose_their_patience(web: HlsWeb) -> None:
    """hls.js counts a part that takes 0.8 target durations as an error of the network."""
    msn, part = web.playlist(PLAYLIST).end
    web.end(clean=False)
    waiting = web.ask(f"{PLAYLIST}?_HLS_msn={msn}&_HLS_part={part}")
    web.pass_time(1.2)
    assert waiting.is_blocked
    web.pass_time(0.2)
    assert waiting.response is not None
    assert waiting.response.status == 200
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
