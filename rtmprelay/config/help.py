"""The help of `rtmprelay serve`: options in groups, with names for their values, and three examples."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

#: The groups in the order in which somebody needs them. Every option is in exactly one; a test holds that.
GROUPS: dict[str, tuple[str, ...]] = {
    "listen": ("listen", "auth", "open", "ban", "recheck"),
    "relay": ("relay-to", "relay-config", "check-destinations", "pull"),
    "record": (
        "record-all",
        "record",
        "record-dir",
        "segment-duration",
        "segment-size",
        "keep-recordings",
        "max-recordings-size",
        "app-quota",
        "keep-free",
    ),
    "watch": (
        "hls",
        "http-media",
        "http-recordings",
        "http-cors",
        "hls-part",
        "hls-segment",
        "hls-window",
        "hls-dir",
        "hls-variants",
        "hls-sign-key",
        "hls-anonymous",
    ),
    "protect": ("http-token", "http-read-token", "trusted-proxy", "limit", "help-limits"),
    "operate": (
        "config",
        "http-status",
        "log-level",
        "log-format",
        "event-log",
        "event-log-size",
        "event-log-gzip",
        "keep-event-log",
        "max-event-log-size",
        "hook",
        "help-plugins",
        "drain-for",
        "help",
        "version",
    ),
    "advanced": (
        "node-name",
        "cluster",
        "node-url",
        "cluster-secret",
        "cluster-when-lost",
        "chunk-size",
        "merge-window",
    ),
}

#: What stands for the value of an option.
VALUES: dict[str, str] = {
    "app-quota": "APP=SIZE",
    "auth": "PLUGIN:ARGUMENT",
    "ban": "COUNT/TIME",
    "chunk-size": "BYTES",
    "cluster": "URL",
    "cluster-secret": "file:PATH",
    "cluster-when-lost": "accept|refuse",
    "config": "FILE",
    "drain-for": "TIME",
    "event-log": "FOLDER",
    "event-log-size": "SIZE",
    "hls": "GLOB",
    "hls-dir": "FOLDER",
    "hls-part": "TIME",
    "hls-segment": "TIME",
    "hls-sign-key": "file:PATH",
    "hls-variants": "PATTERN",
    "hls-window": "TIME",
    "hook": "PLUGIN:ARGUMENT",
    "http-cors": "ORIGIN",
    "http-media": "ENDPOINT",
    "http-read-token": "TOKEN",
    "http-status": "ENDPOINT",
    "http-token": "TOKEN",
    "keep-event-log": "TIME",
    "keep-free": "SHARE|SIZE",
    "keep-recordings": "TIME",
    "limit": "NAME=VALUE",
    "listen": "ENDPOINT",
    "log-format": "text|json",
    "log-level": "debug|info|warn|error",
    "max-event-log-size": "SIZE",
    "max-recordings-size": "SIZE",
    "merge-window": "TIME",
    "node-name": "NAME",
    "node-url": "URL",
    "pull": "GLOB=URL",
    "recheck": "TIME",
    "record": "GLOB",
    "record-dir": "FOLDER",
    "relay-config": "FILE",
    "relay-to": "URL",
    "segment-duration": "TIME",
    "segment-size": "SIZE",
    "trusted-proxy": "NETWORK",
}

EXAMPLES = (
    (
        "two platforms, and everything recorded for a week",
        "--relay-to rtmp://a.example/live/KEY --relay-to rtmps://b.example/app/KEY --record-all --keep-recordings 7d",
    ),
    (
        "a page to see what is happening, and a key for publishers",
        "--http-status :8080 --auth keys-file:keys.json",
    ),
    ("viewers with browsers and phones", "--hls '*' --http-media :8081"),
)

#: Columns before the text of an option.
_INDENT = 30


def grouped_help(
    texts: Mapping[str, str], defaults: Mapping[str, object], command: str, width: int
) -> Iterator[str]:
    """The lines about all options.

    Args:
        texts: What each option is for.
        command: What stands in front of the options in the examples.
    """
    for group, names in GROUPS.items():
        yield f"{group}:"
        for name in names:
            yield from _option(name, texts[name], defaults.get(name), width)
        yield ""
    yield "examples:"
    for purpose, options in EXAMPLES:
        yield f"  # {purpose}"
        yield from _wrapped(f"{command} {options}".split(" "), width)
    yield ""


def _option(name: str, text: str, default: object, width: int) -> Iterator[str]:
    value = VALUES.get(name)
    head = f"  --{name}" + (f" {value}" if value else "")
    if default not in (None, "") and value and "Default" not in text and "default" not in text:
        text = f"{text} Default: {default}"
    lines = textwrap.wrap(text, max(30, width - _INDENT))
    if len(head) < _INDENT - 1:
        yield f"{head:{_INDENT}}{lines[0]}"
        lines = lines[1:]
    else:
        yield head
    for line in lines:
        yield " " * _INDENT + line


def _wrapped(words: Sequence[str], width: int) -> Iterator[str]:
    """A command over several lines, as a shell takes it."""
    line = "  "
    for word in words:
        if word.startswith("--") and len(line) + len(word) > width - 28:
            yield f"{line.rstrip()} \\"
            line = "      "
        line += f"{word} "
    yield line.rstrip()
