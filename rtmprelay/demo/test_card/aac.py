"""AAC without an encoder: frames of silence, and frames of one tone, which need a single coefficient."""

from __future__ import annotations

from rtmprelay.demo.test_card.codes import fixed, to_bytes

SAMPLE_RATE = 48_000
SAMPLES_PER_FRAME = 1024

#: AAC-LC, 48 kHz, one channel.
CONFIGURATION = to_bytes([fixed(2, 5), fixed(3, 4), fixed(1, 4), "000"])

#: The tone is in the eleventh band of frequencies, which has the coefficients 40 to 47. 44 is about 1043 Hz.
_BAND = 10
_TONE = 44

#: Steps of 1.5 dB: about a tenth of full scale.
_LOUDNESS = 187

#: From codebook 1, which codes four values of -1, 0 or 1 at a time: all zero, or only the first one not.
_NO_TONE = "0"
_PLUS, _MINUS = "10000", "10001"

#: The phase of the tone continues from frame to frame: half a coefficient off, a frame is a quarter turn.
_SIGNS = (_PLUS, _MINUS, _MINUS, _PLUS)

_MONO_ELEMENT = "000" + "0000"
_END = "111"
#: No pulses, no noise shaping, no gain control.
_NO_TOOLS = "000"


def _window(bands: int) -> str:
    """One long window with this number of bands, and no prediction."""
    return "0" + "00" + "0" + fixed(bands, 6) + "0"


SILENCE = to_bytes([_MONO_ELEMENT, fixed(0, 8), _window(0), _NO_TOOLS, _END])


def tone(number: int) -> bytes:
    """A frame of the tone; `number` is that of the frame in the stream."""
    sections = fixed(0, 4) + fixed(_BAND, 5) + fixed(1, 4) + fixed(1, 5)
    same_loudness = "0"
    return to_bytes(
        [
            _MONO_ELEMENT,
            fixed(_LOUDNESS, 8),
            _window(_BAND + 1),
            sections,
            same_loudness,
            _NO_TOOLS,
            _NO_TONE,
            _SIGNS[number % len(_SIGNS)],
            _END,
        ]
    )
