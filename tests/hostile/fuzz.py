"""Looks for inputs that break something: `python -m tests.hostile.fuzz [TARGET ...] [--seconds N]`.

With atheris (`pip install atheris`), which sees which way each input takes through the code, and tries those again that
found a new one; without it with the seeded mutator that the tests use. What broke something is written to `found/`, where
`test_parsers.py` tries it for ever after.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOUND = Path(__file__).parent / "found"

#: Looking over the code's shoulder makes it this many times slower.
_WATCHED = 10.0


def main(arguments: list[str]) -> int:
    """Try each target for a while; how many of them broke."""
    parser = argparse.ArgumentParser("python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help="all of them by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    from tests.hostile.targets import TARGETS

    unknown = set(options.target) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}: {', '.join(TARGETS)} are known")
    broken = 0
    for name in options.target or TARGETS:
        # A process for each: atheris ends its own, and must see the code before anybody imports it.
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_look, args=(name, options.seconds, options.seed))
        process.start()
        process.join()
        sys.stdout.write(f"{name}: {'broken' if process.exitcode else 'nothing found'}\n")
        broken += bool(process.exitcode)
    return broken


def _look(name: str, seconds: int, seed: int) -> None:
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        _look_by_chance(name, seconds, seed)
        return
    with atheris.instrument_imports(include=["rtmprelay"]):
        from tests.hostile.targets import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, sample in enumerate(target.samples()):
            (corpus / str(number)).write_bytes(sample)
        inputs = Path(folder) / "inputs"
        inputs.mkdir()

        def one(data: bytes) -> None:
            try:
                target.attempt(data, inputs, _WATCHED)
            except BaseException:
                _keep(name, data)
                raise

        options = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=8192", "-len_control=10"]
        # Nothing of ours is native code, whose memory it could watch; the tests do that.
        options += ["-rss_limit_mb=0", "-timeout=30", "-verbosity=0", f"-artifact_prefix={folder}/"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], one)
        atheris.Fuzz()


def _look_by_chance(name: str, seconds: int, seed: int) -> None:
    from tests.hostile.conversations import mutate
    from tests.hostile.targets import TARGETS

    target, chance = TARGETS[name], random.Random(seed)
    samples = target.samples()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            data = mutate(chance.choice(samples), chance)
            try:
                target.attempt(data, Path(folder))
            except BaseException:
                _keep(name, data)
                raise


def _keep(name: str, data: bytes) -> None:
    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{name}-{digest}").write_bytes(data)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
