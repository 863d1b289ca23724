"""Many HTTP clients in a process of their own: each reads the event stream and polls the metrics once a second.

Run as a program with a port and a number of clients. It prints `ready` when each of them has a
response. A line on its standard input ends it, and it prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

_HOST = "127.0.0.1"

#: In reality the clients are on other machines: here they must not take the processor from the measured relay.
_NICENESS = 5


async def _read_events(port: int, counts: dict[str, int]) -> None:
    reader, writer = await asyncio.open_connection(_HOST, port, limit=1 << 20)
    writer.write(b"GET /events HTTP/1.1\r\nHost: relay\r\n\r\n")
    while line := await reader.readline():
        counts["events"] += line.startswith(b"event: ")


async def _poll_metrics(port: int, counts: dict[str, int], phase: float) -> None:
    await asyncio.sleep(phase)
    reader, writer = await asyncio.open_connection(_HOST, port, limit=1 << 20)
    while True:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: relay\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        counts["metrics"] += head.startswith(b"HTTP/1.1 200 ")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
        await asyncio.sleep(1.0)


async def _report_when_ready(clients: int, counts: dict[str, int]) -> None:
    while counts["metrics"] < clients or counts["events"] < clients:
        await asyncio.sleep(0.01)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _run(port: int, clients: int) -> None:
    counts = {"events": 0, "metrics": 0}
    tasks = [asyncio.ensure_future(_read_events(port, counts)) for _ in range(clients)]
    tasks += [asyncio.ensure_future(_poll_metrics(port, counts, n / clients)) for n in range(clients)]
    tasks.append(asyncio.ensure_future(_report_when_ready(clients, counts)))
    stop_requested = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await stop_requested
    for task in tasks:
        task.cancel()
    failures = await asyncio.gather(*tasks, return_exceptions=True)
    broken = [repr(one) for one in failures if not isinstance(one, asyncio.CancelledError)]
    sys.stdout.write(json.dumps({**counts, "broken": broken}) + "\n")


if __name__ == "__main__":
    os.nice(_NICENESS)
    asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2])))
