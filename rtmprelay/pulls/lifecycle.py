"""The state machine of a fetch: what may follow what. `fetch.py` has what is done on the way.

Frames never come here: they go from the connection to the live stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol

from automat import TypeMachineBuilder
from twisted.python.failure import Failure

from rtmprelay.rtmp.client import RtmpPlayClientProtocol

if TYPE_CHECKING:
    from rtmprelay.pulls.fetch import Fetch

_P = ParamSpec("_P")


class PullLifecycle(Protocol):
    """What can happen to a fetch. All inputs return None, so that one may come while another is being handled."""

    def start(self) -> None:
        """Somebody wants the stream."""

    def accepted(self, player: RtmpPlayClientProtocol) -> None:
        """The server accepted the play."""

    def failed(self, reason: Failure) -> None:
        """The attempt failed, or was cancelled."""

    def lost(self, reason: Failure) -> None:
        """The connection has gone."""

    def retry(self) -> None:
        """It is time for the next attempt."""

    def reconnect(self) -> None:
        """End the connection, or wait no longer, and try now: perhaps the stream is elsewhere."""

    def end(self, reason: str) -> None:
        """Nobody wants the stream any more."""


def build_machine(fetch: type[Fetch]) -> Callable[[Fetch], PullLifecycle]:
    """Make the machine that calls these methods of a fetch."""
    machine = TypeMachineBuilder(PullLifecycle, fetch)
    idle = machine.state("idle")
    connecting = machine.state("connecting")
    playing = machine.state("playing")
    waiting = machine.state("waiting")
    # A new attempt follows when the old connection has gone.
    restarting = machine.state("restarting")
    ending = machine.state("ending")
    ended = machine.state("ended")

    idle.upon(PullLifecycle.start).to(connecting)(_do(fetch.connect))
    connecting.upon(PullLifecycle.accepted).to(playing)(_do(fetch.connected))
    connecting.upon(PullLifecycle.failed).to(waiting)(_do(fetch.wait_after_failure))
    playing.upon(PullLifecycle.lost).to(waiting)(_do(fetch.wait_after_loss))
    waiting.upon(PullLifecycle.retry).to(connecting)(_do(fetch.connect))

    connecting.upon(PullLifecycle.reconnect).to(restarting)(_do(fetch.cancel_attempt))
    playing.upon(PullLifecycle.reconnect).to(restarting)(_do(fetch.end_connection))
    waiting.upon(PullLifecycle.reconnect).to(connecting)(_do(fetch.connect_now))
    restarting.upon(PullLifecycle.accepted).loop()(_do(fetch.accepted_too_late))
    restarting.upon(PullLifecycle.failed).to(connecting)(_do(fetch.connect_again))
    restarting.upon(PullLifecycle.lost).to(connecting)(_do(fetch.connect_again))

    connecting.upon(PullLifecycle.end).to(ending)(_do(fetch.leave_attempt))
    restarting.upon(PullLifecycle.end).to(ending)(_do(fetch.leave))
    playing.upon(PullLifecycle.end).to(ending)(_do(fetch.leave_connection))
    waiting.upon(PullLifecycle.end).to(ended)(_do(fetch.leave_at_once))
    ending.upon(PullLifecycle.accepted).loop()(_do(fetch.accepted_too_late))
    ending.upon(PullLifecycle.failed).to(ended)(_do(fetch.finish))
    ending.upon(PullLifecycle.lost).to(ended)(_do(fetch.finish))
    ended.upon(PullLifecycle.end).loop()(_do(fetch.confirm_end))

    # What changes nothing.
    ending.upon(PullLifecycle.end).loop().returns(None)
    for goes in (restarting, ending, ended):
        goes.upon(PullLifecycle.reconnect).loop().returns(None)
    return machine.build()


def _do(
    action: Callable[Concatenate[Fetch, _P], None],
) -> Callable[Concatenate[PullLifecycle, Fetch, _P], None]:
    """A fetch's method, as a transition calls it."""

    def output(_lifecycle: PullLifecycle, fetch: Fetch, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        action(fetch, *args, **kwargs)

    output.__name__ = action.__name__
    return output
