"""A real standalone cluster out of the pip package: a master and a worker on 127.0.0.1."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from spark_analytics.engine.java import find_java_home

HOME = Path(pyspark.__file__).parent

#: Jobs of a second are over before a better compiler has paid for itself: half the processor time.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Seconds for a process of Java to come up, on a machine that has other things to do.
PATIENCE = 240.0


class JavaProcess:
    """A part of the cluster, and what it says."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [HOME / "bin" / "spark-class", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)

    def wait_for(self, pattern: str) -> str:
        """The first group of a line that matches."""
        deadline = time.monotonic() + PATIENCE
        said: list[str] = []
        while time.monotonic() < deadline:
            try:
                said.append(self._lines.get(timeout=1.0))
            except queue.Empty:
                assert self._process.poll() is None, "".join(said)
                continue
            match = re.search(pattern, said[-1])
            if match:
                return match[1]
        raise AssertionError(f"nobody said {pattern}: {''.join(said)}")

    def end(self) -> None:
        """End it and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def standalone_cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and a worker with two cores; the address of the master."""
    environment = {
        **os.environ,
        **environment,
        "JAVA_HOME": find_java_home(),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
    }
    package = "org.apache.spark.deploy"
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = JavaProcess(environment, f"{package}.master.Master", *here)
    worker = None
    try:
        address = master.wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        worker = JavaProcess(
            environment, f"{package}.worker.Worker", *here, "--cores", "2", "--memory", "1g", address
        )
        worker.wait_for(r"(Successfully registered) with master")
        yield address
    finally:
        if worker is not None:
            worker.end()
        master.end()
