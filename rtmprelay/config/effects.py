"""Options that would do nothing: each is an error that says what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import quoted


@attrs.frozen
class _Need:
    """Options that need one of some others."""

    options: tuple[str, ...]
    one_of: tuple[str, ...]
    #: What is missing, as the error says it.
    missing: str


_NEEDS = (
    _Need(
        (
            "record-dir",
            "segment-duration",
            "segment-size",
            "keep-recordings",
            "max-recordings-size",
            "app-quota",
            "keep-free",
        ),
        # Recordings are started over HTTP too, with a token, and old ones can be watched.
        ("record-all", "record", "http-token", "http-recordings"),
        "nothing is recorded; add --record-all, or --record 'live/*'",
    ),
    _Need(
        ("hls-part", "hls-segment", "hls-window", "hls-dir", "hls-sign-key", "hls-variants", "hls-anonymous"),
        ("hls",),
        "no stream can be watched as HLS; add --hls '*'",
    ),
    _Need(
        ("trusted-proxy",),
        ("http-status", "http-media"),
        "nothing is served over HTTP; add --http-status or --http-media",
    ),
    _Need(("recheck",), ("auth",), "nobody is asked for permission; add --auth"),
    _Need(
        ("ban",),
        ("auth", "http-token", "http-read-token", "http-status"),
        "there are no keys and no tokens to guess; add --auth",
    ),
)


def options_without_effect(options: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """An error message for each option that would do nothing.

    Args:
        given: The names of the options on the command line and in the settings file.
    """
    for need in _NEEDS:
        if not any(options[other] for other in need.one_of):
            for option in need.options:
                if option in given:
                    yield f"--{option} has no effect: {need.missing}"


def read_stream_glob(text: str) -> str:
    """A pattern for the names of streams, which are APP/NAME.

    Raises:
        ConfigError: It matches no stream.
    """
    if not text or not set(text) & set("/*?["):
        raise ConfigError(
            f"{quoted(text)} matches no stream: streams are called APP/NAME; write '{text or 'live'}/*' for all of"
            " an app, or '*' for all"
        )
    return text
