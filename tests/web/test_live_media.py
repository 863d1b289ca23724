"""Watching over HTTP, in either format: how it begins, what is counted, how it ends."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.outputs import http_flv, http_mp4
from rtmprelay.outputs.http_viewer import LiveMediaSettings
from rtmprelay.outputs.media_response import MediaResponse
from rtmprelay.web.settings import HttpSettings
from tests.mp4.media import picture, sound
from tests.web.live_media import START, MediaWeb, av_group, small_queue

BOTH = pytest.mark.parametrize("path", ["/live/test.flv", "/live/test.mp4"])


# -- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "content_type"), [("flv", "video/x-flv"), ("mp4", "video/mp4")])
def test_response_of_a_stream_has_no_length_and_is_not_cached(kind: str, content_type: str) -> None:
    """The body has no length, is not kept anywhere, and cannot be read from the middle."""
    web = MediaWeb()
    response = web.watch(f"/live/test.{kind}").response
    assert response.status == 200
    assert response.headers["content-type"] == content_type
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["accept-ranges"] == "none"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in response.headers
    assert "access-control-allow-origin" not in response.headers


@BOTH
def test_head_says_that_the_stream_is_there(path: str) -> None:
    """Nobody is counted as watching."""
    web = MediaWeb()
    response = web.request("HEAD", path)
    assert (response.status, response.body) == (200, b"")
    assert response.headers["content-type"].startswith("video/")
    assert "content-length" not in response.headers
    assert web.http.media.viewers == ()
    assert not web.told.of(events.PlayStarted)


@BOTH
def test_media_has_cors_headers_for_allowed_origins_only(path: str) -> None:
    web = MediaWeb(HttpSettings(cors=("https://tv.example",)))
    allowed = web.watch(path, origin="https://tv.example")
    assert allowed.response.headers["access-control-allow-origin"] == "https://tv.example"
    for origin in ("", "https://other.example"):
        assert "access-control-allow-origin" not in web.watch(path, origin=origin).response.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@BOTH
def test_a_stream_that_is_not_live(method: str, path: str) -> None:
    web = MediaWeb()
    web.end()
    response = web.request(method, path)
    assert response.status == 404
    if method == "GET":
        assert response.error == (404, "not_found")
        assert "/streams lists" in response.json["error"]["message"]


def test_stream_allows_get_head_and_options_only() -> None:
    web = MediaWeb()
    assert web.request("POST", "/live/test.flv").error == (405, "method_not_allowed")
    assert web.request("OPTIONS", "/live/test.mp4").headers["allow"] == "GET, HEAD, OPTIONS"


def test_viewer_over_max_viewers_is_refused_until_one_leaves() -> None:
    """A viewer that leaves makes room."""
    web = MediaWeb(media=LiveMediaSettings(max_viewers=2))
    first, _ = web.watch(), web.watch("/live/test.mp4")
    response = web.get("/live/test.flv")
    assert response.error == (503, "too_many_clients")
    assert "2 clients watch" in response.json["error"]["message"]
    assert int(response.headers["retry-after"]) > 0
    first.lose()
    assert web.watch().response.status == 200


# -- who watches -------------------------------------------------------------------------------------------------


@BOTH
def test_a_reader_counts_as_a_player(path: str) -> None:
    web = MediaWeb()
    watcher = web.watch(path)
    (viewer,) = web.http.media.viewers
    assert viewer.audience == path[-3:]
    assert list(web.stream.subscribers) == [viewer]
    assert web.get("/streams/live/test").json["players"] == 1
    assert [(event.connection, event.stream) for event in web.told.of(events.PlayStarted)] == [
        ("h000001", "live/test")
    ]
    assert [event.peer for event in web.told.of(events.ConnectionOpened)] == ["192.0.2.9:40000"]
    web.send(*av_group(200))
    web.advance(3)
    watcher.lose()
    assert web.stream.subscribers == ()
    assert web.get("/streams/live/test").json["players"] == 0
    (stopped,) = web.told.of(events.PlayStopped)
    assert (stopped.connection, stopped.stream, stopped.dropped) == ("h000001", "live/test", 0)
    assert stopped.messages == len(START) + 20
    assert stopped.duration == pytest.approx(3)
    (closed,) = web.told.of(events.ConnectionClosed)
    assert (closed.reason, closed.limit) == ("the client closed it", None)
    assert closed.bytes_out > stopped.bytes


@BOTH
def test_statistics_of_a_viewer_are_published_every_interval(path: str) -> None:
    web = MediaWeb(media=LiveMediaSettings(statistics_interval=5))
    web.watch(path)
    for second in range(11):
        web.send(*av_group(1000 * (second + 1)))
        web.advance(1, step=0.25)
    told = web.told.of(events.MediaStatistics)
    assert [(event.connection, event.role, event.seconds) for event in told] == [
        ("h000001", "player", 5.0)
    ] * 2
    assert [event.messages for event in told] == [len(START) + 10 + 50, 50]
    assert told[1].kbps == pytest.approx(told[1].bytes / 125 / 5)


@BOTH
def test_client_that_leaves_is_forgotten(path: str) -> None:
    web = MediaWeb()
    before = len(web.clock.getDelayedCalls())
    web.watch(path).lose()
    assert web.http.media.viewers == ()
    assert len(web.clock.getDelayedCalls()) == before


# -- the end -----------------------------------------------------------------------------------------------------


@BOTH
def test_response_ends_with_the_stream_and_the_connection_stays(path: str) -> None:
    """The connection stays, for the next request."""
    web = MediaWeb()
    watcher = web.watch(path)
    assert not watcher.is_over()
    web.end()
    assert watcher.is_over()
    assert not watcher.lost
    assert web.http.media.viewers == ()
    assert len(web.registry) == 0
    assert [event.reason for event in web.told.of(events.PlayStopped)] == ["the stream ended"]
    watcher.transport.clear()
    watcher.send(b"GET /health HTTP/1.1\r\nHost: relay\r\n\r\n")
    assert watcher.responses()[0].status == 200


@BOTH
def test_connection_of_an_http_1_0_client_is_closed_at_the_end(path: str) -> None:
    web = MediaWeb()
    watcher = web.watch(path, "1.0")
    response = watcher.response
    assert "transfer-encoding" not in response.headers
    assert response.body[:4] in (b"FLV\x01", b"\0\0\0\x1c")
    web.end()
    assert watcher.transport.disconnecting


@BOTH
def test_waiting_frames_are_delivered_before_the_end(path: str) -> None:
    web = MediaWeb()
    watcher = web.watch(path)
    watcher.transport.stalled = True
    web.send(*av_group(200, size=40_000))
    web.send(*av_group(400, pictures=2, size=50))
    (viewer,) = web.http.media.viewers
    assert viewer.messages_queued
    web.end()
    assert web.http.media.viewers == (viewer,)
    watcher.transport.stalled = False
    assert watcher.is_over()
    if path.endswith("flv"):
        assert watcher.flv[-1] == av_group(400, 2, 50)[-1]
    else:
        assert watcher.samples(1)[-1] == (440, av_group(400, 2, 50)[-2].payload[5:])
    (stopped,) = web.told.of(events.PlayStopped)
    assert (stopped.messages, stopped.dropped) == (len(START) + 10 + 10 + 4, 0)


@BOTH
def test_a_publisher_that_returns_is_another_broadcast(path: str) -> None:
    """Also for a viewer that still has something to get of the old one."""
    web = MediaWeb()
    slow, fast = web.watch(path), web.watch(path)
    slow.transport.stalled = True
    web.send(*av_group(200, size=40_000))
    web.send(*av_group(400))
    web.end()
    assert fast.is_over()
    assert len(web.http.media.viewers) == 1
    web.stream = web.publish(frames=[*START, *av_group(7000)])
    web.send(*av_group(7200))
    late = web.watch(path)
    slow.transport.stalled = False
    assert slow.is_over()
    web.end()
    assert late.is_over()
    if path.endswith("flv"):
        assert slow.flv[-1].timestamp_ms == av_group(400)[-1].timestamp_ms
        assert [frame.payload for frame in late.flv[-10:]] == [frame.payload for frame in av_group(7200)]
    else:
        assert slow.samples(1)[-1][0] == 560
        assert [time for time, _ in late.samples(1)] == [0, 40, 80, 120, 160]


@BOTH
def test_stopping_server_ends_the_response(path: str) -> None:
    web = MediaWeb()
    watcher = web.watch(path)
    web.http.stop()
    assert watcher.is_over()
    assert [event.reason for event in web.told.of(events.PlayStopped)] == ["the server stops"]
    assert web.http.media.viewers == ()


# -- slow ones ---------------------------------------------------------------------------------------------------


@BOTH
def test_a_slow_viewer_loses_whole_groups_and_nobody_else_notices(path: str) -> None:
    web = MediaWeb(media=small_queue(max_ms=1000))
    slow, _ = web.watch(path), web.watch(path)
    slow.transport.stalled = True
    sent = av_group(0)
    for number in range(1, 40):
        frames = av_group(200 * number, size=3_000)
        sent += frames
        web.send(*frames)
    slow_viewer, fast_viewer = web.http.media.viewers
    assert slow_viewer.is_balanced
    assert slow_viewer.account.reasons().keys() <= {"queue_full", "waiting_for_keyframe"}
    assert slow_viewer.account.messages_dropped > 100
    assert fast_viewer.account.messages_dropped == 0
    slow.transport.stalled = False
    slow.received  # noqa: B018
    sent += av_group(8000)
    web.send(*av_group(8000))
    assert slow_viewer.messages_queued == 0
    pictures = [frame.payload[5:] for frame in sent if frame.kind is MediaKind.VIDEO]
    got = (
        [frame.payload[5:] for frame in slow.flv if frame.kind is MediaKind.VIDEO and frame.payload[1] == 1]
        if path.endswith("flv")
        else [data for _, data in slow.samples(1)]
    )
    assert got[-5:] == pictures[-5:]
    assert len(got) < len(pictures)
    for before, payload in itertools.pairwise(got):
        index = pictures.index(payload)
        assert index % 5 == 0 or pictures[index - 1] == before, "a picture lacks its predecessor"


@BOTH
def test_a_reader_that_takes_nothing_is_cut_off(path: str) -> None:
    web = MediaWeb(media=LiveMediaSettings(stall_timeout=30))
    watcher = web.watch(path)
    watcher.transport.stalled = True
    web.send(*av_group(200, size=40_000))
    web.advance(29)
    assert not watcher.was_cut_off()
    web.advance(2)
    assert watcher.was_cut_off()
    assert web.http.media.viewers == ()
    (closed,) = web.told.of(events.ConnectionClosed)
    assert closed.limit == "stall_timeout"
    assert "took no byte for 30 s" in closed.reason
    (stopped,) = web.told.of(events.PlayStopped)
    assert (stopped.stalls, round(stopped.stalled_seconds)) == (1, 30)
    watcher.lose()
    assert len(web.told.of(events.PlayStopped)) == 1


@BOTH
def test_a_reader_that_takes_something_now_and_then_stays(path: str) -> None:
    web = MediaWeb()
    watcher = web.watch(path)
    for second in range(90):
        watcher.transport.stalled = second % 20 != 0
        web.send(*av_group(1000 * (second + 1), size=20_000))
        watcher.received  # noqa: B018
        web.advance(1)
    assert not watcher.was_cut_off()
    assert web.http.media.viewers


# -- cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "encoder"),
    [("/live/test.flv", http_flv.FlvFrameEncoder), ("/live/test.mp4", http_mp4.Mp4FrameEncoder)],
)
def test_all_viewers_share_the_encoded_bytes(
    path: str, encoder: type[http_flv.FlvFrameEncoder | http_mp4.Mp4FrameEncoder]
) -> None:
    web = MediaWeb()
    watchers = [web.watch(path) for _ in range(5)]
    with mock.patch.object(encoder, "encode", autospec=True, side_effect=encoder.encode) as encode:
        web.send(*av_group(200))
    assert encode.call_count == 1
    assert len({watcher.response.body for watcher in watchers}) == 1


class BugTests(SynchronousTestCase):
    """A bug in one viewer's format must not hang its client, nor reach anybody else."""

    def test_a_bug_ends_one_reader(self) -> None:
        """It is logged, and the client is cut off."""
        for encoder, kind in ((http_flv.FlvFrameEncoder, "flv"), (http_mp4.Mp4FrameEncoder, "mp4")):
            web = MediaWeb()
            broken = web.watch(f"/live/test.{kind}")
            other = web.watch("/live/test.mp4" if kind == "flv" else "/live/test.flv")
            with mock.patch.object(encoder, "encode", side_effect=ValueError("a bug")):
                web.send(picture(200, key=True), sound(200))
            self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
            self.assertTrue(broken.transport.aborted)
            self.assertEqual(len(web.http.media.viewers), 1)
            before = len(other.response.body)
            web.send(picture(240), sound(240))
            self.assertGreater(len(other.response.body), before)
            reasons = [event.reason for event in web.told.of(events.PlayStopped)]
            self.assertEqual(reasons, ["an internal error"])

    def test_a_bug_in_writing_ends_one_reader_too(self) -> None:
        """Writing comes after everybody was asked: it is guarded as well."""
        web = MediaWeb()
        broken, other = web.watch("/live/test.mp4"), web.watch("/live/test.flv")
        with mock.patch.object(MediaResponse, "write_parts", side_effect=ValueError("a bug")):
            web.send(picture(200, key=True), sound(200))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertTrue(broken.transport.aborted)
        self.assertEqual(len(web.http.media.viewers), 1)
        self.assertFalse(other.transport.aborted)


def test_a_frame_that_is_nothing() -> None:
    """Empty and broken payloads end nothing."""
    web = MediaWeb()
    watchers = [web.watch(f"/live/test.{kind}") for kind in ("flv", "mp4")]
    for kind in MediaKind:
        web.send(MediaFrame(kind, 300, b""))
        web.send(MediaFrame(kind, 300, b"\x97\xff"))
    web.send(*av_group(400))
    assert len(web.http.media.viewers) == 2
    assert watchers[0].flv[-1] == av_group(400)[-1]
    assert watchers[1].samples(1)[-1][0] == 560
