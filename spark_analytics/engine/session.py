"""A Spark session that needs no preparation, opens no port to the world, and says nothing unasked."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from spark_analytics.engine.java import find_java_home
from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What holds wherever it runs. Parquet times are written so that Arrow reads them as they are.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.showConsoleProgress": "false",
}

#: These write every error that they raise to the terminal as well.
_PYTHON_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: What holds on this machine only.
_LOCAL_SETTINGS = {
    # On a cluster the page of the driver is where people look at what their job does.
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


#: The path of a socket may have 107 bytes; the name of our folder and what Spark puts after it have 62.
_LONGEST_PARENT = 45


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_running() -> bool:
    """Whether Spark runs in this process already, whichever thread began it."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def build_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    name: str = "rtmprelay catalogue",
    verbose: bool = False,
) -> SparkSession:
    """A session; beside the one that a notebook has begun, if there is one, which keeps its settings.

    Args:
        master: Where to run, as Spark writes it; None is all cores of this machine, or what `spark-submit` says.
        settings: Options of Spark that go before ours.
        verbose: Let Java say what it has to say.

    Raises:
        CatalogueError: Spark is not installed, or does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise CatalogueError(
            f"This needs Spark ({error.name} is not installed): pip install 'rtmprelay[spark]'"
        ) from None
    if is_running():
        return _beside(settings or {})
    # The workers must have the Python of this process, and not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        os.environ["JAVA_HOME"] = find_java_home()
    builder = SparkSession.builder.appName(name)
    if not submitted:
        builder = builder.master(master or f"local[{cores()}]")
    local = not submitted and (master is None or master.startswith("local"))
    private = _private_folder() if local else {}
    for key, value in {**private, **_all_settings(local, settings or {})}.items():
        builder = builder.config(key, value)
    with _uninterrupted(), _java_output(hidden=not verbose and local) as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise CatalogueError(f"Spark does not start: {_reason(error, said)}") from error
        if not verbose:
            # Commands say in one line what went wrong. On a cluster the log of the driver is all that its keepers have.
            spark.sparkContext.setLogLevel(_log_level(local))
            for logger in _PYTHON_LOGGERS:
                logging.getLogger(logger).disabled = True
    return spark


def _beside(settings: Mapping[str, str]) -> SparkSession:
    """A session of our own where one runs already. What cannot be set for a session alone is as it was begun."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    for key, value in {**_SETTINGS, **settings}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    make_active(session)
    return session


@contextmanager
def session_for_a_while(
    master: str | None, settings: Mapping[str, str], verbose: bool
) -> Iterator[SparkSession]:
    """A session that ends with the block; where Spark runs already, one beside those that are there, which go on then."""
    if not is_running():
        session = build_session(master, settings, verbose=verbose)
        try:
            yield session
        finally:
            session.stop()
        return
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    session = build_session(master, settings, verbose=verbose)
    try:
        yield session
    finally:
        if before is not None:
            make_active(before)


def make_active(session: SparkSession) -> None:
    """Spark looks for data sources in the session that made a frame last, whichever one it is asked in."""
    session.createDataFrame([], "nothing int")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off what would interrupt the start of Java: PySpark takes away what Java reports to then, and Java stays for ever.
    What is not handled by Python ends this process at once; Java notices that.
    """
    came: list[int] = []

    def later(number: int, _: object) -> None:
        came.append(number)

    before: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(one)
            if callable(handler):
                before[one] = handler
                signal.signal(one, later)
    try:
        yield
    finally:
        for number, handler in before.items():
            # PySpark may have put its own there.
            if signal.getsignal(number) is later:
                signal.signal(number, handler)
    for number in came:
        before[number](number, None)


def _private_folder() -> dict[str, str]:
    """Java and Python talk through sockets in a folder of ours: over TCP there would be a wait of 40 ms for each task that
    follows another. Spark asks for no secret there, so nobody else may look into the folder. What somebody makes with
    `CREATE TABLE` is put there too, and goes with it, instead of staying wherever the command was given.
    """
    folder = tempfile.mkdtemp(prefix="rtmprelay-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tables = {"spark.sql.warehouse.dir": f"{folder}/tables"}
    if len(tempfile.gettempdir()) > _LONGEST_PARENT:
        return tables
    return {
        **tables,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": folder,
    }


def _log_level(local: bool) -> str:
    return "OFF" if local else "WARN"


def _all_settings(local: bool, settings: Mapping[str, str]) -> dict[str, str]:
    # One file for each core would be many for few rows.
    shuffles = {"spark.sql.shuffle.partitions": str(cores())} if local else {}
    return {**_SETTINGS, **(_LOCAL_SETTINGS if local else {}), **shuffles, **settings}


@contextmanager
def _java_output(hidden: bool) -> Iterator[str | None]:
    """Where Java says what it says while it starts, and ever after; None is the terminal.

    The process inherits the standard error of this one: there is no other way to give it another.
    """
    if not hidden:
        yield None
        return
    descriptor, path = tempfile.mkstemp(prefix="rtmprelay-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield path
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)
        os.unlink(path)


def _reason(error: Exception, said: str | None) -> str:
    """The line of Java's that says most, or what Python says."""
    lines: list[str] = []
    if said is not None:
        with open(said, errors="replace") as file:
            lines = [line.strip() for line in file]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "error" in line.lower()]
    first = str(error).strip().splitlines()
    return (telling or lines or first or [type(error).__name__])[-1 if not telling else 0][:500]
