"""`rtmprelay serve`: the service of `twistd rtmprelay`, in the foreground and without a pid file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.logger import globalLogBeginner

from rtmprelay.config.options import Options
from rtmprelay.tap import makeService


class ServeOptions(Options):
    command = "rtmprelay serve"
    synopsis = f"Usage: rtmprelay serve {Options.synopsis}"


def run(arguments: Sequence[str]) -> int:
    """Serve until a signal comes."""
    options = ServeOptions()
    options.parseOptions([*arguments])
    service: Any = makeService(options)
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    globalLogBeginner.beginLoggingTo([service.observer])
    service.privilegedStartService()
    service.startService()
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    reactor.run()
    return 0
