"""The state machine of an outlet: what may follow what.

Only this file says which state follows; `outlet.py` has what is done on the way. Frames never come here: the
machine opens and closes the gate of a `Delivery`, and frames read only that.

Draw it with `automat-visualize rtmprelay.destinations.outlet`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol

from automat import TypeMachineBuilder
from twisted.python.failure import Failure

from rtmprelay.rtmp.client import RtmpPublisherProtocol

if TYPE_CHECKING:
    from rtmprelay.destinations.outlet import Outlet

_P = ParamSpec("_P")


class Lifecycle(Protocol):
    """What can happen to an outlet.

    All inputs return None: so one may come while another is being handled, from a program that reacts to an event.
    It is handled next.
    """

    def start(self) -> None:
        """The stream is live."""

    def accepted(self, publisher: RtmpPublisherProtocol) -> None:
        """The server accepted the publish."""

    def failed(self, reason: Failure) -> None:
        """The attempt to connect failed, or was cancelled."""

    def lost(self, reason: Failure) -> None:
        """The connection has gone."""

    def wait(self) -> None:
        """Another attempt follows the failure."""

    def give_up(self) -> None:
        """No attempt follows the failure."""

    def retry(self) -> None:
        """It is time for the next attempt."""

    def reconnect(self) -> None:
        """End the connection, or wait no longer, and try now."""

    def publisher_lost(self, reason: str) -> None:
        """The publisher has gone without a goodbye, and may return."""

    def publisher_returned(self) -> None:
        """The stream has a publisher again."""

    def end(self, reason: str) -> None:
        """End for good."""


def build_machine(outlet: type[Outlet]) -> Callable[[Outlet], Lifecycle]:
    """Make the machine that calls these methods of an outlet."""
    machine = TypeMachineBuilder(Lifecycle, outlet)
    idle = machine.state("idle")
    connecting = machine.state("connecting")
    connected = machine.state("connected")
    # The publisher was lost; the server keeps the broadcast open.
    held = machine.state("held")
    # Left at once. A transition has one target, and after a failure there are two: `wait` and `give_up` choose.
    failed = machine.state("failed")
    waiting = machine.state("waiting")
    given_up = machine.state("given up")
    # A new attempt follows when the old connection has gone: a server refuses a key that is in use.
    restarting = machine.state("restarting")
    ending = machine.state("ending")
    ended = machine.state("ended")

    idle.upon(Lifecycle.start).to(connecting)(_do(outlet.begin))
    connecting.upon(Lifecycle.accepted).to(connected)(_do(outlet.connected))

    connecting.upon(Lifecycle.failed).to(failed)(_do(outlet.judge))
    connected.upon(Lifecycle.lost).to(failed)(_do(outlet.judge_loss))
    failed.upon(Lifecycle.wait).to(waiting)(_do(outlet.wait))
    failed.upon(Lifecycle.give_up).to(given_up)(_do(outlet.give_up))
    waiting.upon(Lifecycle.retry).to(connecting)(_do(outlet.connect))

    connecting.upon(Lifecycle.reconnect).to(restarting)(_do(outlet.cancel_attempt))
    connected.upon(Lifecycle.reconnect).to(restarting)(_do(outlet.end_connection))
    restarting.upon(Lifecycle.accepted).loop()(_do(outlet.accepted_too_late))
    restarting.upon(Lifecycle.failed).to(connecting)(_do(outlet.connect))
    restarting.upon(Lifecycle.lost).to(connecting)(_do(outlet.connect))
    waiting.upon(Lifecycle.reconnect).to(connecting)(_do(outlet.connect_now))
    given_up.upon(Lifecycle.reconnect).to(connecting)(_do(outlet.connect_now))

    connected.upon(Lifecycle.publisher_lost).to(held)(_do(outlet.hold))
    held.upon(Lifecycle.publisher_returned).to(connected)(_do(outlet.resume))
    held.upon(Lifecycle.lost).to(ended)(_do(outlet.finish_held))
    # Nothing is there to be sent on a new connection; if the publisher returns, it begins a new broadcast.
    held.upon(Lifecycle.reconnect).to(ending)(_do(outlet.leave_held))

    connected.upon(Lifecycle.end).to(ending)(_do(outlet.leave_connection))
    held.upon(Lifecycle.end).to(ending)(_do(outlet.leave_connection))
    # Without a connection to hold, a lost publisher is an end, too.
    for end in (Lifecycle.end, Lifecycle.publisher_lost):
        connecting.upon(end).to(ending)(_do(outlet.leave_attempt))
        restarting.upon(end).to(ending)(_do(outlet.leave))
        waiting.upon(end).to(ended)(_do(outlet.leave_at_once))
        given_up.upon(end).to(ended)(_do(outlet.leave_at_once))
    ending.upon(Lifecycle.accepted).loop()(_do(outlet.accepted_too_late))
    ending.upon(Lifecycle.failed).to(ended)(_do(outlet.finish))
    ending.upon(Lifecycle.lost).to(ended)(_do(outlet.finish))
    ended.upon(Lifecycle.end).loop()(_do(outlet.confirm_end))

    # What changes nothing.
    for ends in (ending, ended):
        ends.upon(Lifecycle.publisher_lost).loop().returns(None)
    ending.upon(Lifecycle.end).loop().returns(None)
    for goes in (restarting, ending, ended):
        goes.upon(Lifecycle.reconnect).loop().returns(None)
    for not_held in (connecting, connected, waiting, given_up, restarting, ending, ended):
        not_held.upon(Lifecycle.publisher_returned).loop().returns(None)
    return machine.build()


def _do(
    action: Callable[Concatenate[Outlet, _P], None],
) -> Callable[Concatenate[Lifecycle, Outlet, _P], None]:
    """An outlet's method, as a transition calls it."""

    def output(_lifecycle: Lifecycle, outlet: Outlet, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        action(outlet, *args, **kwargs)

    output.__name__ = action.__name__
    return output
