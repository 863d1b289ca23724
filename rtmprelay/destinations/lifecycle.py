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


class OutletLifecycle(Protocol):
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


def build_machine(outlet: type[Outlet]) -> Callable[[Outlet], OutletLifecycle]:
    """Make the machine that calls these methods of an outlet."""
    machine = TypeMachineBuilder(OutletLifecycle, outlet)
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

    idle.upon(OutletLifecycle.start).to(connecting)(_do(outlet.begin))
    connecting.upon(OutletLifecycle.accepted).to(connected)(_do(outlet.connected))

    connecting.upon(OutletLifecycle.failed).to(failed)(_do(outlet.judge))
    connected.upon(OutletLifecycle.lost).to(failed)(_do(outlet.judge_loss))
    failed.upon(OutletLifecycle.wait).to(waiting)(_do(outlet.wait))
    failed.upon(OutletLifecycle.give_up).to(given_up)(_do(outlet.give_up))
    waiting.upon(OutletLifecycle.retry).to(connecting)(_do(outlet.connect))

    connecting.upon(OutletLifecycle.reconnect).to(restarting)(_do(outlet.cancel_attempt))
    connected.upon(OutletLifecycle.reconnect).to(restarting)(_do(outlet.end_connection))
    restarting.upon(OutletLifecycle.accepted).loop()(_do(outlet.accepted_too_late))
    restarting.upon(OutletLifecycle.failed).to(connecting)(_do(outlet.connect))
    restarting.upon(OutletLifecycle.lost).to(connecting)(_do(outlet.connect))
    waiting.upon(OutletLifecycle.reconnect).to(connecting)(_do(outlet.connect_now))
    given_up.upon(OutletLifecycle.reconnect).to(connecting)(_do(outlet.connect_now))

    connected.upon(OutletLifecycle.publisher_lost).to(held)(_do(outlet.hold))
    held.upon(OutletLifecycle.publisher_returned).to(connected)(_do(outlet.resume))
    held.upon(OutletLifecycle.lost).to(ended)(_do(outlet.finish_held))
    # Nothing is there to be sent on a new connection; if the publisher returns, it begins a new broadcast.
    held.upon(OutletLifecycle.reconnect).to(ending)(_do(outlet.leave_held))

    connected.upon(OutletLifecycle.end).to(ending)(_do(outlet.leave_connection))
    held.upon(OutletLifecycle.end).to(ending)(_do(outlet.leave_connection))
    # Without a connection to hold, a lost publisher is an end, too.
    for end in (OutletLifecycle.end, OutletLifecycle.publisher_lost):
        connecting.upon(end).to(ending)(_do(outlet.leave_attempt))
        restarting.upon(end).to(ending)(_do(outlet.leave))
        waiting.upon(end).to(ended)(_do(outlet.leave_at_once))
        given_up.upon(end).to(ended)(_do(outlet.leave_at_once))
    ending.upon(OutletLifecycle.accepted).loop()(_do(outlet.accepted_too_late))
    ending.upon(OutletLifecycle.failed).to(ended)(_do(outlet.finish))
    ending.upon(OutletLifecycle.lost).to(ended)(_do(outlet.finish))
    ended.upon(OutletLifecycle.end).loop()(_do(outlet.confirm_end))

    # What changes nothing.
    for ends in (ending, ended):
        ends.upon(OutletLifecycle.publisher_lost).loop().returns(None)
    ending.upon(OutletLifecycle.end).loop().returns(None)
    for goes in (restarting, ending, ended):
        goes.upon(OutletLifecycle.reconnect).loop().returns(None)
    for not_held in (connecting, connected, waiting, given_up, restarting, ending, ended):
        not_held.upon(OutletLifecycle.publisher_returned).loop().returns(None)
    return machine.build()


def _do(
    action: Callable[Concatenate[Outlet, _P], None],
) -> Callable[Concatenate[OutletLifecycle, Outlet, _P], None]:
    """An outlet's method, as a transition calls it."""

    def output(_lifecycle: OutletLifecycle, outlet: Outlet, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        action(outlet, *args, **kwargs)

    output.__name__ = action.__name__
    return output
