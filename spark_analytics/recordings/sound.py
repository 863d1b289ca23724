"""How the sound of a recording is sampled, and how far its timestamps have run away from its samples.

Normally each step from one audio frame to the next counts as the frames that it has room for: what is left over is drift,
and a frame that is missing is none. Where timestamps jitter by half a frame or more, a single step does not tell whether a
frame is missing, and the errors of rounding would add up to a drift of their own. There the mean time of all frames of a
second is compared with that of the second before: the jitter of some forty frames cancels out.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import OPUS_RATE, aac_sampling, mp3_sampling, opus_packet_samples
from rtmprelay.flv.tags import audio_content
from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.rules import JITTER_ONE_OF

#: Sample rates by the number in the first byte, of codecs that say no more.
_LEGACY_RATES = (5512, 11025, 22050, 44100)


@attrs.frozen
class Sound:
    """Samples a second, channels, and milliseconds in a frame; None where that is not told."""

    rate: int | None = None
    channels: int | None = None
    frame_ms: float | None = None


def sound_of(payload: bytes) -> Sound | None:
    """What a decoder configuration or an audio frame says of itself; None if it says nothing."""
    content = audio_content(payload)
    if content is None:
        is_legacy = bool(payload) and payload[0] >> 4 not in (9, 10)
        return Sound(_LEGACY_RATES[payload[0] >> 2 & 3], 1 + (payload[0] & 1)) if is_legacy else None
    data = content.of(payload)
    match content.codec, content.configuration:
        case Codec.AAC, True:
            found = aac_sampling(data)
        case Codec.MP3, False:
            found = mp3_sampling(data)
        case Codec.OPUS, True:
            return Sound(OPUS_RATE, data[9]) if len(data) > 9 and data.startswith(b"OpusHead") else None
        case Codec.OPUS, False:
            samples = opus_packet_samples(data)
            return None if samples is None else Sound(OPUS_RATE, None, samples * 1000 / OPUS_RATE)
        case _:
            return None
    if found is None or not found.rate:
        return None
    return Sound(found.rate, found.channels, found.packet_samples * 1000 / found.rate)


Floats = npt.NDArray[np.float64]

_NONE = np.empty(0, np.int64)

#: How many more frames than fit into a second are taken for two runs of a clock, one over the other.
_TOO_MANY = 1.25


@attrs.frozen(eq=False)
class AudioSeconds:
    """How many audio frames are in each second of a file, and when in it.

    Attributes:
        blocks: Arrays with three rows: second, frames, and the milliseconds since its begin, added up.
    """

    blocks: tuple[Integers, ...] = ()

    @classmethod
    def of(cls, times: Integers) -> AudioSeconds:
        """Of frames at these times."""
        if not len(times):
            return cls()
        seconds, places = np.unique(times // 1000, return_inverse=True)
        phases = np.bincount(places, times % 1000).astype(np.int64)
        return cls((np.stack([seconds, np.bincount(places), phases]),))

    def plus(self, other: AudioSeconds) -> AudioSeconds:
        """Both. Blocks of about the same size are joined, so that adding many of them takes little time."""
        blocks = [*self.blocks, *other.blocks]
        while len(blocks) > 1 and blocks[-1].shape[1] >= blocks[-2].shape[1] // 2:
            blocks[-2:] = [_added(np.concatenate(blocks[-2:], axis=1))]
        return AudioSeconds(tuple(blocks))

    def joined(self) -> Integers:
        """One column for each second, in order."""
        if not self.blocks:
            return np.empty((3, 0), np.int64)
        return _added(np.concatenate(self.blocks, axis=1))

    def skew_ms(self, frame_ms: float) -> tuple[float, int]:
        """How far the timestamps have run away in the end, and over how many milliseconds that was measured."""
        seconds, frames, phases = self.joined()
        if not len(seconds):
            return 0.0, 0
        skew, steps = skew_by_seconds(_NONE, seconds, frames, phases, np.full(len(seconds), frame_ms))
        return float(skew[-1]), 1000 * int(np.count_nonzero(steps))


def _added(columns: Integers) -> Integers:
    seconds, places = np.unique(columns[0], return_inverse=True)
    sums = [np.bincount(places, row, len(seconds)).astype(np.int64) for row in columns[1:]]
    return np.stack([seconds, *sums])


def has_jitter(frames: int, early: int) -> bool:
    """Whether single steps say nothing about missing frames."""
    return early * JITTER_ONE_OF > frames


def skew_by_seconds(
    file: Integers, seconds: Integers, frames: Integers, phases: Integers, frame_ms: Floats
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """How far timestamps have run away by each second, and which seconds were compared with the one before.

    Args:
        file: Which file each second is of; empty if all are of one.
        phases: When in the second the frames are, in milliseconds added up.
    """
    before = np.cumsum(frames) - frames
    # When the samples of the frames in the middle of the second are played, and when the timestamps say that they are.
    expected = (before + (frames - 1) / 2) * frame_ms
    level = 1000.0 * seconds + phases / np.maximum(frames, 1) - expected
    usable = (frames > 0) & (frames * frame_ms <= _TOO_MANY * 1000)
    follows = np.zeros(len(seconds), np.bool_)
    follows[1:] = usable[1:] & usable[:-1] & (np.diff(seconds) == 1)
    if len(file):
        follows[1:] &= file[1:] == file[:-1]
    return _without_missing_frames(level, follows, frame_ms), follows


#: How quickly the expected level of the next second follows what was measured, and how quickly its slope does.
_LEVEL_GAIN, _SLOPE_GAIN = 0.3, 0.02


def _without_missing_frames(level: Floats, follows: npt.NDArray[np.bool_], frame_ms: Floats) -> Floats:
    """What is left of the change of a level without steps of whole frames, which are frames that are missing.

    Each level is compared with what those before let expect. So a second that is off by chance is taken for a missing frame
    once, and the next one takes that back.
    """
    skew = np.zeros(len(level))
    expected = slope = offset = now = 0.0
    values = zip(level.tolist(), follows.tolist(), frame_ms.tolist(), strict=True)
    for number, (one, goes_on, frame) in enumerate(values):
        if not goes_on:
            offset, expected, slope = now - one, now, 0.0
        else:
            error = one + offset - (expected + slope)
            missing = round(error / frame) * frame
            offset -= missing
            expected += slope + _LEVEL_GAIN * (error - missing)
            slope += _SLOPE_GAIN * (error - missing)
        now = one + offset
        skew[number] = now
    return skew
