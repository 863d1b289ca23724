"""What a start and an idle relay cost, counted in modules and wake-ups: a busy machine changes nothing about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from twisted.internet.testing import MemoryReactorClock

from rtmprelay.config import RelayConfig
from rtmprelay.service import RelayService

ROOT = Path(__file__).parent.parent.parent

#: Modules of ours that `twistd rtmprelay` imports before it listens. With everything they were 249.
MOST_MODULES = 175

#: What only some relays have: HTTP, HLS, an event log and a configuration file.
PARTS = {
    "rtmprelay.web.http_service",
    "prometheus_client",
    "twisted.web.server",
    "rtmprelay.outputs.hls.service",
    "rtmprelay.mp4.fragments",
    "rtmprelay.event_log.log",
    "cattrs",
}
#: What no relay needs until something particular happens.
NEVER = {"rtmprelay.cluster.cluster", "rtmprelay.demo", "pyspark", "jwt"}

_START = """
import json, sys
from rtmprelay.tap import Options, makeService
options = Options()
options.parseOptions(["--listen", "tcp:0:interface=127.0.0.1", *sys.argv[1:]])
makeService(options)
sys.__stdout__.write(json.dumps(list(sys.modules)))
"""


def imported_for(*arguments: str) -> set[str]:
    """The modules that a relay with these options has imported when it is about to listen."""
    done = subprocess.run(
        [sys.executable, "-c", _START, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_plain_relay_imports_nothing_that_only_others_need() -> None:
    modules = imported_for()
    unneeded = modules & (PARTS | NEVER)
    assert not unneeded, f"a relay without options imports {sorted(unneeded)}"
    ours = sorted(name for name in modules if name.partition(".")[0] == "rtmprelay")
    assert len(ours) <= MOST_MODULES, f"{len(ours)} modules of ours are imported:\n" + "\n".join(ours)


def test_relay_imports_what_its_options_ask_for(tmp_path: Path) -> None:
    file = tmp_path / "relay.json"
    file.write_text('{"destinations": []}')
    http = ["--http-status", "tcp:0:interface=127.0.0.1", "--hls", "*"]
    modules = imported_for(*http, "--event-log", str(tmp_path), "--relay-config", str(file))
    assert modules >= PARTS
    assert not modules & NEVER


def wake_ups(config: RelayConfig, seconds: float) -> int:
    """How often the reactor wakes up in so many seconds although nobody is there."""
    reactor = MemoryReactorClock()
    service = RelayService(config, reactor)
    service.startService()
    end = reactor.seconds() + seconds
    count = 0
    while (calls := reactor.getDelayedCalls()) and (due := min(call.getTime() for call in calls)) <= end:
        reactor.advance(due - reactor.seconds())
        count += 1
    return count


def test_idle_relay_wakes_up_twice_a_second() -> None:
    """For the budget of memory; statistics are rare beside it. That is 0.04 % of a core."""
    count = wake_ups(RelayConfig(listen=("tcp:0",)), 60)
    assert count <= 125, f"{count} wake-ups in a minute"
