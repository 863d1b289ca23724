"""The main program of a load generator process: its first order is the one task that it does."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

import cattrs

from rtmprelay.bench.connections import RefusedError
from rtmprelay.bench.control import WorkerControl
from rtmprelay.bench.joining import JoinWorker
from rtmprelay.bench.publishing import PublishWorker
from rtmprelay.bench.receive_workers import PlayWorker, SinkWorker
from rtmprelay.bench.tasks import JoinTask, PlayTask, PublishTask, SinkTask

#: Seconds after which a worker is ended by a signal, whatever happens.
_LONGEST_LIFE = 300

_ROLES: dict[str, tuple[type[Any], type[Any]]] = {
    "PublishTask": (PublishTask, PublishWorker),
    "PlayTask": (PlayTask, PlayWorker),
    "SinkTask": (SinkTask, SinkWorker),
    "JoinTask": (JoinTask, JoinWorker),
}


def main() -> int:
    signal.alarm(_LONGEST_LIFE)
    control = WorkerControl()
    order = control.first()
    task_type, worker_type = _ROLES[order["task"]]
    worker = worker_type(control, cattrs.structure(order["settings"], task_type))
    # A collection in the middle of a measurement would look like latency.
    gc.collect()
    gc.disable()
    try:
        worker.run()
    except (RefusedError, ConnectionError) as error:
        control.say("failed", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
