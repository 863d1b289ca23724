"""`rtmprelay init`: a settings file with every option, explained and commented out."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rtmprelay.cli.options_help import OptionHelp, option_helps
from rtmprelay.config.help import GROUPS

_HEAD = """\
# Settings of rtmprelay. Start it with: rtmprelay serve --config {name}
# Check it with: rtmprelay check --config {name}
# Each option of the command line has its own name here, and the command line decides over this file.
# A line that begins with # is not in force: it shows the default, or an example.
"""

_TAIL = """
# -- limits: rtmprelay serve --help-limits lists them all ----------------------------------------------

[limits]
# max_connections = 2000

# -- destinations: other servers that get the streams, one block for each ------------------------------

# [[destinations]]
# name = "YouTube"
# url = "rtmps://a.rtmps.youtube.com/live2"
# stream_key = "${YOUTUBE_KEY}"        # from the environment; or: stream_key_file = "/etc/rtmprelay/youtube.key"
# match = "live/*"                     # which streams
"""

#: What to show for an option that has no default.
_EXAMPLES = {
    "app-quota": '["live=50G"]',
    "ban": '"20/10m"',
    "cluster": '"redis://directory:6379/0"',
    "cluster-secret": '"file:cluster.secret"',
    "cluster-when-lost": '"accept"',
    "http-read-token": '"file:read-token.txt"',
    "keep-free": '"5%"',
    "max-event-log-size": '"10G"',
    "node-name": '"edge-1"',
    "node-url": '"rtmp://10.0.0.1:1935"',
    "pull": '["live/*=rtmp://origin.example/live/{name}"]',
    "recheck": '"5m"',
    "trusted-proxy": '["10.0.0.0/8"]',
    "auth": '["keys-file:keys.json"]',
    "event-log": '"events"',
    "event-log-size": '"64M"',
    "hls": '["live/*"]',
    "hls-dir": '"hls"',
    "hls-sign-key": '"file:hls.key"',
    "hls-variants": '["live/*_{low,high}"]',
    "hook": '["jsonl:events.jsonl"]',
    "http-cors": '["https://example.org"]',
    "http-media": '":8081"',
    "http-status": '":8080"',
    "http-token": '"file:token.txt"',
    "keep-event-log": '"90d"',
    "keep-recordings": '"7d"',
    "listen": '[":1935"]',
    "max-recordings-size": '"100G"',
    "record": '["live/*"]',
    "relay-config": '"relay.json"',
    "relay-to": '["rtmp://live.example/app/KEY"]',
    "segment-duration": '"30m"',
    "segment-size": '"2G"',
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, default=Path("relay.toml"), metavar="FILE")


def run(options: argparse.Namespace) -> int:
    path: Path = options.file
    try:
        # For its owner only: keys are written into it.
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(settings_text(path.name))
    except FileExistsError:
        sys.stderr.write(f"rtmprelay init: {path} is there already, and stays as it is\n")
        return 1
    except (OSError, ValueError) as error:
        sys.stderr.write(f"rtmprelay init: {path}: {getattr(error, 'strerror', None) or error}\n")
        return 1
    sys.stdout.write(f"{path} is written; start with: rtmprelay serve --config {path}\n")
    return 0


def settings_text(name: str) -> str:
    """A settings file that changes nothing."""
    return _HEAD.format(name=name) + "".join(_blocks()) + _TAIL


def _blocks() -> Iterator[str]:
    options = {option.name: option for option in option_helps() if option.in_file}
    for group, names in GROUPS.items():
        yield f"\n# -- {group} {'-' * (98 - len(group))}\n"
        for name in names:
            if name in options:
                text = options[name].text
                comment = textwrap.fill(text, 98, initial_indent="# ", subsequent_indent="# ")
                yield f"\n{comment}\n# {name} = {_example(options[name])}\n"


def _example(option: OptionHelp) -> str:
    if not option.takes_value:
        return "true"
    if option.name in _EXAMPLES:
        return _EXAMPLES[option.name]
    if isinstance(option.default, int):
        return str(option.default)
    return f'"{option.default or ""}"'
