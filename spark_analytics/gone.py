"""Whether a file that was not found is gone, or only cannot be looked at."""

from __future__ import annotations

import os

from spark_analytics.flv.sources import is_uri


def is_gone(path: str) -> bool:
    """Whether a file that was not found is not there, as far as this machine can tell: it may lie in a folder that cannot
    be looked into, or be called otherwise than such files are.
    """
    if is_uri(path):
        return True
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
