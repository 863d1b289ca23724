"""The rule checker accepts playlists that keep the rules, and names each mistake that is planted in them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.hls.broadcast import MULTIVARIANT, MULTIVARIANT_URL, URL, Broadcast, versions
from tests.hls.checker import PlaylistChecker, without_query
from tests.hls.playlist import read_playlist

Change = Callable[[str], str]
GOOD = Broadcast().playlist(20, 2)


def replace(old: str, new: str, count: int = 1) -> Change:
    """A mistake: another text in the place of this one."""

    def change(text: str) -> str:
        assert old in text, f"{old!r} is not in the playlist"
        return text.replace(old, new, count)

    return change


def insert_before(line: str, new: str) -> Change:
    return replace(line, f"{new}\n{line}")


def append(line: str) -> Change:
    return lambda text: f"{text}{line}\n"


def rules_broken_by(url: str, text: str) -> set[str]:
    checker = PlaylistChecker()
    checker.add(url, text)
    return {broken.rule for broken in checker.broken}


def test_checker_accepts_a_broadcast_that_keeps_the_rules() -> None:
    checker = PlaylistChecker()
    checker.add(MULTIVARIANT_URL, MULTIVARIANT)
    for url, text in versions():
        checker.add(url, text)
    checker.assert_clean()
    assert checker.count == 34 * 4 - 2


MISTAKES_OF_ONE_PLAYLIST: list[tuple[str, Change]] = [
    ("extm3u", replace("#EXTM3U\n", "")),
    ("encoding", lambda text: "\ufeff" + text),
    ("encoding", replace("#EXTINF:2.000,", "#EXTINF:2.000,\a")),
    ("last-line", lambda text: text.rstrip("\n")),
    ("white-space", replace("#EXTINF:2.000,", "#EXTINF:2.000, ")),
    ("attribute-list", replace("PART-TARGET=0.5", "PART-TARGET=0.5,")),
    ("unknown-tag", append("#EXT-X-ALLOW-CACHE:YES")),
    ("unknown-tag", replace("#EXT-X-DISCONTINUITY\n", "#EXT-X-DISCONTINUTY\n")),
    ("once", insert_before("#EXT-X-TARGETDURATION:2", "#EXT-X-TARGETDURATION:2")),
    ("version", replace("#EXT-X-VERSION:9", "#EXT-X-VERSION:5")),
    ("version", replace("#EXT-X-VERSION:9\n", "")),
    ("lowest-version", replace("#EXT-X-VERSION:9", "#EXT-X-VERSION:10")),
    ("lowest-version", replace(",CAN-SKIP-UNTIL=12", "")),
    ("target-duration", replace("#EXT-X-TARGETDURATION:2\n", "")),
    ("target-duration", replace("#EXT-X-TARGETDURATION:2", "#EXT-X-TARGETDURATION:2.0")),
    ("target-duration", replace("#EXTINF:2.000", "#EXTINF:2.500")),
    ("extinf", replace("#EXTINF:2.000,\n", "")),
    ("extinf", replace("#EXTINF:2.000,", "#EXTINF:2.000")),
    ("extinf", replace("#EXTINF:2.000,", "#EXTINF:-2.000,")),
    ("extinf", insert_before("#EXTINF:2.000,", "#EXTINF:2.000,")),
    ("map", replace('#EXT-X-MAP:URI="init-0.mp4"\n', "")),
    ("map", replace('#EXT-X-MAP:URI="init-0.mp4"', '#EXT-X-MAP:BYTERANGE="1@2"')),
    ("map-change", insert_before("#EXTINF:2.000,\n14.m4s", '#EXT-X-MAP:URI="init-9.mp4"')),
    ("part-inf", replace("#EXT-X-PART-INF:PART-TARGET=0.5\n", "")),
    ("part", replace('DURATION=0.500,URI="20.1.m4s"', 'URI="20.1.m4s"')),
    ("part-duration", replace('0.500,URI="20.1.m4s"', '0.501,URI="20.1.m4s"')),
    ("part-duration", replace('0.500,URI="19.1.m4s"', '0.424,URI="19.1.m4s"')),
    ("parts-of-segment", replace("#EXTINF:2.000,\n19.m4s", "#EXTINF:1.990,\n19.m4s")),
    (
        "old-parts",
        insert_before(
            "#EXTINF:2.000,\n10.m4s",
            '#EXT-X-PART:DURATION=0.5,URI="a.m4s",INDEPENDENT=YES\n'
            + '#EXT-X-PART:DURATION=0.5,URI="a.m4s"\n' * 3,
        ),
    ),
    ("missing-parts", lambda text: re.sub(r"#EXT-X-PART:.*19\.\d.*\n", "", text)),
    ("independent", replace('URI="19.0.m4s",INDEPENDENT=YES', 'URI="19.0.m4s"')),
    ("part-hold-back", replace(",PART-HOLD-BACK=1.5", "")),
    ("part-hold-back", replace("PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.4")),
    ("hold-back", replace("CAN-BLOCK-RELOAD=YES", "CAN-BLOCK-RELOAD=YES,HOLD-BACK=5.9")),
    ("can-skip-until", replace("CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=11.9")),
    ("can-skip-until", replace("CAN-SKIP-UNTIL=12", "CAN-SKIP-DATERANGES=YES")),
    ("server-control", replace("CAN-BLOCK-RELOAD=YES", "CAN-BLOCK-RELOAD=NO")),
    ("preload-hint", replace("TYPE=PART", "TYPE=PARTS")),
    ("preload-hint", append('#EXT-X-PRELOAD-HINT:TYPE=PART,URI="other.m4s"')),
    ("preload-hint", replace('PART,URI="20.2.m4s"', 'PART,URI="20.1.m4s"')),
    ("preload-hint", append("#EXT-X-ENDLIST")),
    ("preload-hint", append('#EXT-X-PART:DURATION=0.500,URI="20.2.m4s"')),
    ("endlist", append("#EXT-X-ENDLIST")),
    ("rendition-report", replace("LAST-MSN=20,", "")),
    ("rendition-report", replace(",LAST-PART=1", "")),
    ("rendition-report", replace('URI="audio.m3u8"', 'URI="http://elsewhere.example/audio.m3u8"')),
    ("rendition-report", append('#EXT-X-RENDITION-REPORT:URI="audio.m3u8",LAST-MSN=20,LAST-PART=1')),
    ("rendition-report", append('#EXT-X-RENDITION-REPORT:URI="video.m3u8",LAST-MSN=20,LAST-PART=1')),
    ("program-date-time", replace("2026-05-17T20:15:30.000Z", "17 May 2026")),
    ("program-date-time", replace("2026-05-17T20:15:30.000Z", "2026-05-17T20:15:30.000")),
    ("program-date-time", replace("2026-05-17T20:15:30.000Z", "2026-05-17T20:15:20.000Z")),
    ("program-date-time", replace("2026-05-17T20:15:30.000Z", "2026-05-17T20:15:30.050Z")),
    ("program-date-time", replace("#EXT-X-PROGRAM-DATE-TIME:2026-05-17T20:15:32.000Z\n", "")),
    ("tag-order", insert_before("#EXTINF:2.000,\n19.m4s", "#EXT-X-DISCONTINUITY")),
    (
        "tag-order",
        lambda text: append("#EXT-X-MEDIA-SEQUENCE:8")(replace("#EXT-X-MEDIA-SEQUENCE:8\n", "")(text)),
    ),
    (
        "tag-order",
        lambda text: replace(
            "#EXT-X-DISCONTINUITY\n", "#EXT-X-DISCONTINUITY\n#EXT-X-DISCONTINUITY-SEQUENCE:0\n"
        )(replace("#EXT-X-DISCONTINUITY-SEQUENCE:0\n", "")(text)),
    ),
    ("skip", replace('#EXT-X-MAP:URI="init-0.mp4"', "#EXT-X-SKIP:SKIPPED-SEGMENTS=3")),
    ("playlist-type", insert_before("#EXT-X-PART-INF", "#EXT-X-PLAYLIST-TYPE:VOD")),
    ("playlist-type", insert_before("#EXT-X-PART-INF", "#EXT-X-PLAYLIST-TYPE:LIVE")),
]


@pytest.mark.parametrize(
    ("rule", "mistake"), MISTAKES_OF_ONE_PLAYLIST, ids=lambda value: value if isinstance(value, str) else ""
)
def test_checker_names_a_mistake_in_one_playlist(rule: str, mistake: Change) -> None:
    assert rules_broken_by(URL, GOOD) == set()
    assert rule in rules_broken_by(URL, mistake(GOOD))


MISTAKES_OF_MULTIVARIANT_PLAYLISTS: list[tuple[str, Change]] = [
    ("bandwidth", replace("BANDWIDTH=3000000,", "")),
    ("bandwidth", replace("AVERAGE-BANDWIDTH=2500000", "AVERAGE-BANDWIDTH=3500000")),
    ("codecs", replace('CODECS="avc1.64001f,mp4a.40.2",', "")),
    ("codecs", replace("avc1.64001f", "h264")),
    ("resolution", replace("RESOLUTION=1280x720,", "")),
    ("resolution", replace("1280x720", "1280x0")),
    ("frame-rate", replace("FRAME-RATE=30.000", "FRAME-RATE=0")),
    ("group", replace('AUDIO="sound"', 'AUDIO="music"')),
    ("media", replace(',NAME="Sound"', "")),
    ("media", replace("AUTOSELECT=YES", "AUTOSELECT=NO")),
    ("media", append('#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Sound",URI="audio2.m3u8"')),
    ("media", append('#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Other",DEFAULT=YES,URI="audio2.m3u8"')),
    ("stream-inf", replace("\nvideo.m3u8", "")),
    ("unknown-tag", append("#EXT-X-TARGETDURATION:2")),
    ("mixed", append("segment.m4s")),
    ("once", replace("#EXT-X-VERSION:6", "#EXT-X-VERSION:6\n#EXT-X-VERSION:6")),
]


@pytest.mark.parametrize(
    ("rule", "mistake"),
    MISTAKES_OF_MULTIVARIANT_PLAYLISTS,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_checker_names_a_mistake_in_a_multivariant_playlist(rule: str, mistake: Change) -> None:
    assert rules_broken_by(MULTIVARIANT_URL, MULTIVARIANT) == set()
    assert rule in rules_broken_by(MULTIVARIANT_URL, mistake(MULTIVARIANT))


#: A rule, and two versions of a playlist that break it together.
MISTAKES_OVER_TIME: list[tuple[str, str, str]] = [
    ("media-sequence", Broadcast().playlist(20, 0), Broadcast().playlist(19, 0)),
    ("went-back", Broadcast().playlist(20, 3), Broadcast().playlist(20, 2)),
    ("changed", GOOD, replace("TARGETDURATION:2", "TARGETDURATION:3")(GOOD)),
    ("changed", GOOD, replace("PART-TARGET=0.5", "PART-TARGET=0.52")(GOOD)),
    ("changed", GOOD, replace("\n15.m4s", "\nother.m4s")(GOOD)),
    ("changed", GOOD, replace("#EXTINF:2.000,\n15.m4s", "#EXTINF:1.999,\n15.m4s")(GOOD)),
    ("changed", GOOD, replace('"19.2.m4s"', '"other.m4s"')(GOOD)),
    ("changed", GOOD, replace('0.500,URI="20.0.m4s"', '0.499,URI="20.0.m4s"')(GOOD)),
    ("changed", GOOD, replace("init-1.mp4", "init-2.mp4")(GOOD)),
    ("changed", GOOD, replace("#EXT-X-DISCONTINUITY\n", "")(GOOD)),
    ("changed", GOOD, GOOD.replace("20:15:", "20:16:")),
    ("discontinuity-sequence", GOOD, replace("DISCONTINUITY-SEQUENCE:0", "DISCONTINUITY-SEQUENCE:1")(GOOD)),
    (
        "discontinuity-sequence",
        Broadcast().playlist(28, 0),
        replace("DISCONTINUITY-SEQUENCE:1", "DISCONTINUITY-SEQUENCE:0")(Broadcast().playlist(29, 0)),
    ),
    ("preload-hint", GOOD, Broadcast().playlist(20, 3).replace("20.2.m4s", "other.m4s")),
    (
        "preload-hint",
        Broadcast().playlist(20, 4),
        Broadcast().playlist(21, 1).replace("21.0.m4s", "other.m4s"),
    ),
    ("too-short", GOOD, Broadcast(window=2).playlist(20, 3)),
    ("endlist", Broadcast().playlist(20, 0, ended=True), Broadcast().playlist(20, 1)),
    ("endlist", Broadcast().playlist(20, 0, ended=True), Broadcast().playlist(21, 0, ended=True)),
    ("rendition-report", GOOD, replace("LAST-MSN=20", "LAST-MSN=19")(GOOD)),
]


@pytest.mark.parametrize(
    ("rule", "first", "second"), MISTAKES_OVER_TIME, ids=[one[0] for one in MISTAKES_OVER_TIME]
)
def test_checker_names_a_mistake_between_two_versions(rule: str, first: str, second: str) -> None:
    checker = PlaylistChecker()
    checker.add(URL, first)
    assert checker.broken == []
    assert rule in {broken.rule for broken in checker.add(URL, second)}


def test_program_date_time_may_jump_forward_where_the_publisher_was_away() -> None:
    later = re.sub(r"20:15:(3[89]|4\d)", lambda found: f"20:16:{found[1]}", GOOD)
    assert rules_broken_by(URL, later) == set()


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("_HLS_msn=20&_HLS_part=1", None),
        ("_HLS_msn=20&_HLS_part=2", "blocking"),
        ("_HLS_msn=19", None),
        ("_HLS_msn=20", "blocking"),
        # Segment 19 has four parts, so its part 4 is part 0 of segment 20.
        ("_HLS_msn=19&_HLS_part=4", None),
    ],
)
def test_checker_compares_a_playlist_with_what_was_asked_for(query: str, rule: str | None) -> None:
    assert rules_broken_by(f"{URL}?{query}", GOOD) == ({rule} if rule else set())


def test_checker_wants_the_next_segment_for_a_part_after_the_last_one() -> None:
    text = Broadcast().playlist(20, 0)
    assert rules_broken_by(f"{URL}?_HLS_msn=19&_HLS_part=3", text) == set()
    assert rules_broken_by(f"{URL}?_HLS_msn=19&_HLS_part=4", text) == {"blocking"}


def test_delta_update_is_only_for_players_that_ask_and_know_what_it_skips() -> None:
    delta = Broadcast().playlist(20, 2, skip=True)
    assert "skip" in rules_broken_by(URL, delta)
    checker = PlaylistChecker()
    checker.add(URL, Broadcast().playlist(20, 1))
    assert checker.add(f"{URL}?_HLS_skip=YES", delta) == []
    late = PlaylistChecker()
    late.add(URL, Broadcast().playlist(4, 1))
    assert "skip" in {broken.rule for broken in late.add(f"{URL}?_HLS_skip=YES", delta)}


def test_delta_update_keeps_count_of_the_discontinuities_that_it_skips() -> None:
    broadcast = Broadcast(discontinuity_at=10)
    checker = PlaylistChecker()
    checker.add(URL, broadcast.playlist(20, 1))
    checker.add(f"{URL}?_HLS_skip=YES", broadcast.playlist(20, 2, skip=True))
    checker.add(URL, broadcast.playlist(20, 3))
    checker.assert_clean()


def test_renditions_of_one_presentation_share_the_target_duration_and_report_of_each_other() -> None:
    checker = PlaylistChecker()
    checker.add(MULTIVARIANT_URL, MULTIVARIANT)
    checker.add(URL, GOOD)
    audio = GOOD.replace("audio.m3u8", "video.m3u8")
    audio_url = URL.replace("video", "audio")
    assert checker.add(audio_url, audio) == []
    without_report = re.sub("#EXT-X-RENDITION-REPORT.*\n", "", audio)
    assert "rendition-report" in {broken.rule for broken in checker.add(audio_url, without_report)}
    other_target = PlaylistChecker()
    other_target.add(MULTIVARIANT_URL, MULTIVARIANT)
    other_target.add(URL, GOOD)
    longer = replace("TARGETDURATION:2", "TARGETDURATION:3")(audio)
    assert "same-target" in {broken.rule for broken in other_target.add(audio_url, longer)}


def test_uris_that_are_signed_anew_name_the_same_media() -> None:
    def signed(text: str, signature: str) -> str:
        return text.replace(".m4s", f".m4s?sig={signature}")

    strict, lenient = PlaylistChecker(), PlaylistChecker(without_query)
    for checker in (strict, lenient):
        checker.add(URL, signed(GOOD, "a"))
        checker.add(URL, signed(Broadcast().playlist(20, 3), "b"))
    lenient.assert_clean()
    assert {"changed", "preload-hint"} <= {broken.rule for broken in strict.broken}


def test_assert_clean_names_rule_url_and_line() -> None:
    checker = PlaylistChecker()
    with pytest.raises(AssertionError, match="no playlist was checked"):
        checker.assert_clean()
    checker.add(URL, replace("TARGETDURATION:2", "TARGETDURATION:1")(GOOD))
    with pytest.raises(AssertionError, match=r"target-duration: .* \(playlist 1, http://relay.*, line \d+\)"):
        checker.assert_clean()


@pytest.mark.parametrize("text", [GOOD, Broadcast().playlist(34, 0, ended=True), Broadcast().playlist(5, 3)])
def test_reading_agrees_with_the_m3u8_package(text: str) -> None:
    m3u8 = pytest.importorskip("m3u8", reason="the m3u8 package of PyPI reads the same playlists")
    theirs, ours = m3u8.loads(text), read_playlist(text)
    assert theirs.media_sequence == ours.media_sequence
    assert theirs.target_duration == ours.number("EXT-X-TARGETDURATION")
    assert bool(theirs.is_endlist) == ours.has_ended
    complete = [segment for segment in theirs.segments if segment.uri]
    assert [segment.uri for segment in complete] == [segment.uri for segment in ours.complete_segments]
    assert [segment.duration for segment in complete] == [one.duration for one in ours.complete_segments]
    assert [segment.program_date_time for segment in complete] == [one.date for one in ours.complete_segments]
    assert [segment.init_section.uri for segment in complete] == [
        one.map.get("URI") for one in ours.complete_segments if one.map
    ]
    their_parts = [(part.uri, part.duration) for segment in theirs.segments for part in segment.parts]
    assert their_parts == [(part.uri, part.duration) for one in ours.segments for part in one.parts]
    if theirs.preload_hint is not None:
        hint = ours.first("EXT-X-PRELOAD-HINT")
        assert hint is not None
        assert theirs.preload_hint.uri == hint.get("URI")


def test_reading_a_multivariant_playlist_agrees_with_the_m3u8_package() -> None:
    m3u8 = pytest.importorskip("m3u8", reason="the m3u8 package of PyPI reads the same playlists")
    theirs, ours = m3u8.loads(MULTIVARIANT), read_playlist(MULTIVARIANT)
    (variant,) = theirs.playlists
    (tag, uri), *others = ours.variants
    assert not others
    assert variant.uri == uri
    assert variant.stream_info.bandwidth == tag.number("BANDWIDTH")
    assert variant.stream_info.codecs == tag.get("CODECS")
    assert "x".join(map(str, variant.stream_info.resolution)) == tag.get("RESOLUTION")
    assert [media.uri for media in theirs.media] == [one.get("URI") for one in ours.all("EXT-X-MEDIA")]
