"""Another reader of playlists, `m3u8` from PyPI, finds in ours what was written."""

from __future__ import annotations

import m3u8

from rtmprelay.hls.playlist import multivariant_text
from tests.hls.rendition import URL, Rendition
from tests.hls.test_cutter import BOTH, interleaved, packets, pictures
from tests.web.hls import INDEX, HlsWeb


def test_media_playlist_says_the_same_to_another_reader() -> None:
    world = Rendition()
    world.send([*BOTH, *interleaved(pictures(9.5), packets(9.5))])
    ours = world.read()
    theirs = m3u8.loads(world.playlist.text(), uri=URL)
    assert theirs.target_duration == 2
    assert [segment.duration for segment in theirs.segments if segment.uri] == [
        segment.duration for segment in ours.complete_segments
    ]
    assert [part.uri for segment in theirs.segments for part in segment.parts] == [
        part.uri for segment in ours.segments for part in segment.parts
    ]
    assert theirs.part_inf.part_target == world.targets.part_target
    assert theirs.server_control.can_block_reload == "YES"
    assert theirs.preload_hint.uri == f"p-test-0-{world.window.next_part}.m4s"
    dates = [segment.program_date_time for segment in theirs.segments if segment.uri]
    assert dates == [segment.date for segment in ours.complete_segments]


def test_multivariant_playlist_says_the_same_to_another_reader() -> None:
    web = HlsWeb()
    web.begin()
    web.pass_time(7)
    theirs = m3u8.loads(web.get(INDEX).body.decode())
    (variant,) = theirs.playlists
    information = variant.stream_info
    assert information.codecs == "avc1.64000d,mp4a.40.2"
    assert information.resolution == (318, 238)
    assert information.frame_rate == 30.0
    assert information.bandwidth >= information.average_bandwidth > 0
    assert multivariant_text([]).startswith("#EXTM3U\n")
