"""`viewers`: says who watched, how long, and how that went."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from spark_analytics.cli.common import (
    add_catalogue_argument,
    add_engine_arguments,
    add_time_arguments,
    in_time,
    open_engine,
    scope_of,
    write_dicts,
)
from spark_analytics.cli.output import add_format_argument
from spark_analytics.questions.ask import Engine, Row, Scope


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("stream", nargs="?", metavar="APP/NAME", help="of this stream only")
    add_time_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plays", action="store_true", help="list every single play")
    what.add_argument("--minutes", action="store_true", help="list how many watched, minute by minute")
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions import api
    from spark_analytics.questions.api import refuse_unknown_stream

    scope = scope_of(options, options.stream)
    question: Callable[[Engine, Scope], list[Row]] = api.list_viewers
    if options.plays:
        question = api.list_plays
    elif options.minutes:
        question = api.list_audience
    with open_engine(options) as engine:
        if options.stream is not None:
            refuse_unknown_stream(engine, options.stream)
        rows = question(engine, scope)
    what = f" {options.stream}" if options.stream else ""
    return write_dicts(rows, options.format, engine.snapshot, in_time(scope, f"nobody watched{what}"))
