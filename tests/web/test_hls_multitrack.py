"""Several video tracks of Enhanced RTMP become variants of one playlist."""

from __future__ import annotations

from urllib.parse import urljoin

from rtmprelay.hls.variant_groups import VariantGroup
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.outputs.hls.settings import HlsSettings
from tests.hls.playlist import read_playlist
from tests.hls.test_cutter import BOTH, interleaved, packets, pictures
from tests.mp4.box_reader import fragments
from tests.mp4.media import AVC_CONFIGURATION, aac_header, metadata
from tests.web.hls import INDEX, HlsWeb

#: One track of several, in a message of its own: the type of the frame, multitrack, one track, FourCC, number.
_MULTITRACK = 6


def on_track(frame: MediaFrame, track: int) -> MediaFrame:
    """A picture of H.264 as OBS sends those of further tracks."""
    payload = frame.payload
    frame_type, is_header = payload[0] >> 4, payload[1] == 0
    first = bytes([0x80 | frame_type << 4 | _MULTITRACK, 0 if is_header else 1])
    data = payload[5:] if is_header else payload[2:]
    return MediaFrame(frame.kind, frame.timestamp_ms, first + b"avc1" + bytes([track]) + data)


def header(track: int) -> MediaFrame:
    plain = MediaFrame(MediaKind.VIDEO, 0, b"\x17\0\0\0\0" + AVC_CONFIGURATION)
    return plain if track == 0 else on_track(plain, track)


def test_each_video_track_is_a_variant() -> None:
    web = HlsWeb()
    small = [
        on_track(MediaFrame(one.kind, one.timestamp_ms, one.payload + b"small"), 1) for one in pictures(20)
    ]
    large = [MediaFrame(one.kind, one.timestamp_ms, one.payload + bytes(900)) for one in pictures(20)]
    both = [frame for pair in zip(large, small, strict=True) for frame in pair]
    frames = sorted([*both, *packets(20)], key=lambda frame: frame.timestamp_ms)
    start = [metadata(videocodecid=7.0, audiocodecid=10.0), header(0), header(1), aac_header()]
    web.begin(frames=[*start, *frames])
    web.pass_time(9)
    text = web.get(INDEX).body.decode()
    web.checker.add(f"http://relay{INDEX}", text)
    variants = read_playlist(text).variants
    assert len(variants) == 2
    bandwidths = [tag.number("BANDWIDTH") or 0 for tag, _ in variants]
    assert bandwidths[0] > 3 * bandwidths[1]
    for number, (_, uri) in enumerate(variants):
        path = urljoin(INDEX, uri)
        playlist = web.playlist(path)
        media = web.get(urljoin(path, playlist.complete_segments[0].uri or "")).body
        samples = [sample.data for one in fragments(media) for sample in one.of(1)]
        assert len(samples) == 60
        assert all(data.endswith(b"small") == (number == 1) for data in samples)
        assert any(one.of(2) for one in fragments(media))
    web.pass_time(3)
    for _, uri in variants:
        path = urljoin(INDEX, uri)
        playlist = web.playlist(path)
        report = playlist.first("EXT-X-RENDITION-REPORT")
        assert report is not None
    web.checker.assert_clean()


def large(frames: list[MediaFrame]) -> list[MediaFrame]:
    return [MediaFrame(one.kind, one.timestamp_ms, one.payload + bytes(2000)) for one in frames]


def web_with_variants(frames: dict[str, list[MediaFrame]]) -> HlsWeb:
    """A presentation of two streams, each of which has sent its frames of eight seconds."""
    web = HlsWeb(HlsSettings(match=("*",), variants=(VariantGroup.read("live/*_{low,high}"),)))
    streams = {key: web.publish(f"live/film_{key}", BOTH) for key in frames}
    for _ in range(80):
        web.clock.advance(0.1)
        now = web.clock.seconds()
        for key, stream in streams.items():
            due = [one for one in frames[key] if one.timestamp_ms / 1000 <= now]
            if due:
                del frames[key][: len(due)]
                stream.publish_frames(due, now)
    return web


def test_streams_under_several_names_are_variants_of_one() -> None:
    web = web_with_variants({"low": interleaved(pictures(12), packets(12)), "high": large(pictures(12))})
    text = web.get("/live/film/index.m3u8").body.decode()
    web.checker.add("http://relay/live/film/index.m3u8", text)
    variants = read_playlist(text).variants
    paths = [urljoin("/live/film/index.m3u8", uri) for _, uri in variants]
    assert [path.partition("?")[0] for path in paths] == [
        "/live/film_low/video0.m3u8",
        "/live/film_high/video0.m3u8",
    ]
    for path in paths:
        report = web.playlist(path).first("EXT-X-RENDITION-REPORT")
        assert report is not None
        assert urljoin(path, report.get("URI") or "") in [
            one.partition("?")[0] for one in paths if one != path
        ]
    web.checker.assert_clean()
    assert web.get("/live/film_low/index.m3u8").status == 200
    assert web.get("/live/other/index.m3u8").status == 404


def test_variant_with_keyframes_at_another_distance_is_left_out_and_the_log_says_so_once(
    caught_log: list[str],
) -> None:
    web = web_with_variants({"low": pictures(12), "high": pictures(12, gop=4.0)})
    for _ in range(3):
        text = web.get("/live/film/index.m3u8").body.decode()
        uris = [uri.partition("?")[0] for _, uri in read_playlist(text).variants]
        assert uris == ["../film_low/video0.m3u8"]
    (line,) = [line for line in caught_log if "is no variant of" in line]
    assert "live/film_high" in line
    # It can be watched by its own name.
    assert web.get("/live/film_high/index.m3u8").status == 200
