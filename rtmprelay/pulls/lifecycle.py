"""The state machine of a fetch: what may follow what. `fetch.py` has what is done on the way.

Frames never come here: they go from the connection to the live stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from automat import TypeMachineBuilder

from rtmprelay.rtmp.client import RtmpPlayClientProtocol
from rtmprelay.rtmp.link import LinkLifecycle, add_states, do

if TYPE_CHECKING:
    from rtmprelay.pulls.fetch import Fetch


class PullLifecycle(LinkLifecycle[RtmpPlayClientProtocol], Protocol):
    """What can happen to a fetch."""


def build_machine(fetch: type[Fetch]) -> Callable[[Fetch], PullLifecycle]:
    """Make the machine that calls these methods of a fetch."""
    machine = TypeMachineBuilder(PullLifecycle, fetch)
    idle = machine.state("idle")
    link = add_states(machine, fetch)
    idle.upon(PullLifecycle.start).to(link.connecting)(do(fetch.connect))
    link.connecting.upon(PullLifecycle.accepted).to(link.connected)(do(fetch.connected))
    link.connecting.upon(PullLifecycle.failed).to(link.waiting)(do(fetch.wait_after_failure))
    link.connected.upon(PullLifecycle.lost).to(link.waiting)(do(fetch.wait_after_loss))
    return machine.build()
