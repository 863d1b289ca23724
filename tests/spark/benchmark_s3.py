"""What a night costs where each request takes a while: `python -m tests.spark.benchmark_s3 [--latency 0.04]`.

An S3 of this machine answers each request late. The first night makes the tables; the others have a thousand recordings
each, with all their rows. Printed are seconds, and how many requests there were.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.recordings.discover import FoundFile
from spark_analytics.recordings.plan import Plan
from tests.spark.benchmark_store import A_DAY, commit_night, recording_path, started

NIGHTS = 4


class LateAnswers:
    """An application whose answers take a while, with how many there were."""

    def __init__(self, answer: Callable[..., Iterable[bytes]], latency: float) -> None:
        self._answer = answer
        self._latency = latency
        self.count = 0

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.count += 1
        time.sleep(self._latency)
        return self._answer(environment, start)


@contextmanager
def late_store(latency: float) -> Iterator[LateAnswers]:
    """An S3 with a bucket called `bucket`, to which the environment leads."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    answers = LateAnswers(DomainDispatcherApplication(create_backend_app), latency)
    server = make_server("127.0.0.1", 0, answers, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{address}/bucket", method="PUT"), timeout=30):
            yield answers
    finally:
        server.shutdown()
        thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.04, help="seconds of each request")
    options = parser.parse_args(arguments)
    with late_store(options.latency) as store:
        catalogue = Catalogue("s3://bucket/catalogue")

        @contextmanager
        def step(name: str) -> Iterator[None]:
            before, begin = store.count, time.perf_counter()
            yield
            seconds = time.perf_counter() - begin
            sys.stdout.write(f"{name:<30}{seconds:>8.2f} s{store.count - before:>8} requests\n")
            sys.stdout.flush()

        for night in range(NIGHTS):
            numbers = range(night * A_DAY, (night + 1) * A_DAY)
            read = tuple(FoundFile(recording_path(number), 1_000_000, number + 1) for number in numbers)
            all_of_it, commit = step(f"night {night + 1}, all of it"), step(f"night {night + 1}, commit")
            with all_of_it, catalogue.change() as change, commit:
                commit_night(change, Plan(read, (), (), 0), numbers)
        with step("open"):
            snapshot = catalogue.open()
        with step("which files there are"):
            files = sum(len(snapshot.files(name)) for name in snapshot.tables)
        with step(f"a question, {files} files"):
            engine = DuckEngine(snapshot)
            day = started(0).date()
            engine.ask(
                f"SELECT sum(video_bytes) FROM seconds WHERE stream = 'stream-07' AND day = DATE '{day}'"
            )
            engine.close()


if __name__ == "__main__":
    main()
