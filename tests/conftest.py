"""Settings for all tests."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import rounds
from tests.certificates import self_signed

# How long an example takes depends on what else the machine does; that is no failure.
settings.register_profile("by_default", deadline=None, max_examples=30)
settings.register_profile("full", deadline=None)

#: Modules whose tests go through one server, one after the other.
ONE_FOR_ALL = ("test_hostile_clients.py", "test_hostile_tls.py")

#: Folders whose tests do a lot with what others cover: while coverage is measured, they would take three times as long.
UNCOVERED = {"bench", "docs", "hostile", "spark"}


#: How many tests of each folder `--full` would run in addition, and how many it would run for longer.
LEFT_OUT = pytest.StashKey[Counter[str]]()
SHORTENED = pytest.StashKey[Counter[str]]()

#: How many tests of each folder `--every-engine` would run in addition to `--full`.
OTHER_ENGINE = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="run the tests marked `full` too, and all rounds and examples of the others: it takes minutes",
    )
    parser.addoption(
        "--every-engine",
        action="store_true",
        help="with --full: run the tests of indexing with Spark too, and not only in this process",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say how much is run; and let Ctrl-C end servers.

    A shell starts background jobs with SIGINT ignored, and every server would inherit that.
    """
    rounds.full_run = config.getoption("full")
    settings.load_profile("full" if rounds.full_run else "by_default")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the full run has, unless a test is named on the command line; and some tests out of coverage."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in UNCOVERED:
            item.add_marker(pytest.mark.no_cover)
    if any("::" in argument for argument in config.args):
        return
    if config.getoption("full"):
        if not config.getoption("every_engine"):
            other = [item for item in items if item.get_closest_marker("every_engine") is not None]
            config.stash[OTHER_ENGINE] = Counter(item.path.parent.name for item in other)
            config.hook.pytest_deselected(items=other)
            items[:] = [item for item in items if item.get_closest_marker("every_engine") is None]
        return
    left_out = [item for item in items if item.get_closest_marker("full") is not None]
    if left_out:
        config.stash[LEFT_OUT] = Counter(item.path.parent.name for item in left_out)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("full") is None]
    # Hypothesis has put a marker of its own on its tests.
    shortened = [item for item in items if any(map(item.get_closest_marker, ("fewer_rounds", "hypothesis")))]
    config.stash[SHORTENED] = Counter(item.path.parent.name for item in shortened)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands on what it left out: the process that writes the summary collects nothing."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(session.config.stash.get(LEFT_OUT, None) or {})
        output["shortened"] = dict(session.config.stash.get(SHORTENED, None) or {})
        output["other_engine"] = dict(session.config.stash.get(OTHER_ENGINE, None) or {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # Every worker collects, and leaves out, the same tests.
    output = getattr(node, "workeroutput", {})
    if "left_out" in output:
        node.config.stash[LEFT_OUT] = Counter(output["left_out"])
        node.config.stash[SHORTENED] = Counter(output["shortened"])
        node.config.stash[OTHER_ENGINE] = Counter(output["other_engine"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in one line what was not run by default."""
    left_out = config.stash.get(LEFT_OUT, None) or Counter()
    shortened = config.stash.get(SHORTENED, None) or Counter()
    parts = [
        f"{what}: {count.total()} ({', '.join(f'{folder} {number}' for folder, number in sorted(count.items()))})"
        for count, what in (
            (left_out, "tests that take minutes"),
            (shortened, "all rounds and examples of tests"),
        )
        if count
    ]
    if parts:
        terminalreporter.write_line(f"Not run by default, but with --full: {'; '.join(parts)}")
    if other := config.stash.get(OTHER_ENGINE, None):
        terminalreporter.write_line(
            f"Run in this process, and with Spark too with --every-engine: {other.total()} tests"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, one worker has all tests that share a session of Spark; in the full run another one those of
    event logs. More sessions would take all memory, and with a single one all would wait for it in the end.

    So are those of a module in which one server goes through all of them, and all that need a browser: it takes seconds
    to start. The marks for that, `xdist_group`, are not seen by pytest-xdist 3.8 with pytest 9.2.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    is_full = bool(config.getoption("full"))

    class SharersTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            if "spark" in module:
                return _spark_group(module, is_full)
            if "/test_dashboard_" in module or module.endswith("_browser.py"):
                return "browser"
            return module if module.endswith(ONE_FOR_ALL) else nodeid

    return SharersTogether(config, log)


@cache
def _spark_group(module: str, is_full: bool) -> str:
    """Which tests of Spark's folder run on one worker: those of a module, or of all that use the session."""
    if is_full:
        return "spark events" if "test_event_" in module else "spark"
    text = (Path(__file__).parent.parent / module).read_text(encoding="utf-8")
    return "spark" if "SparkSession" in text or '("spark")' in text else module


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody but these tests trusts: key file, certificate file."""
    private, signed = self_signed("127.0.0.1")
    folder = tmp_path_factory.mktemp("tls")
    key_file, certificate_file = folder / "key.pem", folder / "cert.pem"
    key_file.write_bytes(private)
    certificate_file.write_bytes(signed)
    return key_file, certificate_file


@pytest.fixture(autouse=True)
def every_playlist_is_checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every playlist that a relay in this process sends keeps the rules, whatever the test is about."""
    if "rtmprelay.outputs.hls.broadcast" not in sys.modules:
        yield
        return
    from tests.hls.every_playlist import EveryPlaylist

    every = EveryPlaylist(monkeypatch)
    yield
    every.assert_clean()
