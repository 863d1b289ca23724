"""Tracks for the tests of fragments, and the fragments that one reader gets."""

from __future__ import annotations

from collections.abc import Sequence

from rtmprelay.flv import Codec
from rtmprelay.media import MediaFrame
from rtmprelay.mp4.fragments import (
    FragmentEncoder,
    FragmentPlacer,
)
from rtmprelay.mp4.tracks import AudioTrack, VideoTrack
from tests.mp4.box_reader import Fragment, Sample, fragments
from tests.mp4.media import (
    AAC_CONFIGURATION,
    AVC_CONFIGURATION,
    OPUS_HEAD,
)

VIDEO, AUDIO = 1, 2
AVC = VideoTrack(Codec.AVC, AVC_CONFIGURATION, 318, 238, 33)
AAC = AudioTrack(Codec.AAC, AAC_CONFIGURATION, 44100, 2, 1024)
OPUS = AudioTrack(Codec.OPUS, OPUS_HEAD, 48000, 2, None)
BOTH = FragmentEncoder(AVC, AAC)

KEY, INTER, DISPOSABLE = 0x02000000, 0x01010000, 0x01810000


def make(
    *batches: Sequence[MediaFrame], encoder: FragmentEncoder = BOTH, begin_ms: int = 0
) -> list[Fragment]:
    """The fragments of frames that arrived in these batches, as one reader gets them."""
    placer = FragmentPlacer(encoder, begin_ms)
    data = b"".join(
        b"".join(placer.place(fragment)) for batch in batches if (fragment := encoder.encode(batch))
    )
    return fragments(data)


def samples(found: Sequence[Fragment], track: int) -> list[Sample]:
    return [sample for fragment in found for sample in fragment.of(track)]
