"""The state machine of an outlet: what may follow what.

Only this file says which state follows; `outlet.py` has what is done on the way. Frames never come here: the
machine opens and closes the gate of a `Delivery`, and frames read only that.

Draw it with `automat-visualize rtmprelay.destinations.outlet`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from automat import TypeMachineBuilder

from rtmprelay.rtmp.client import RtmpPublisherProtocol
from rtmprelay.rtmp.link import LinkLifecycle, add_states, do

if TYPE_CHECKING:
    from rtmprelay.destinations.outlet import Outlet


class OutletLifecycle(LinkLifecycle[RtmpPublisherProtocol], Protocol):
    """What can happen to an outlet besides."""

    def wait(self) -> None:
        """Another attempt follows the failure."""

    def give_up(self) -> None:
        """No attempt follows the failure."""

    def publisher_lost(self, reason: str) -> None:
        """The publisher has gone without a goodbye, and may return."""

    def publisher_returned(self) -> None:
        """The stream has a publisher again."""


def build_machine(outlet: type[Outlet]) -> Callable[[Outlet], OutletLifecycle]:
    """Make the machine that calls these methods of an outlet."""
    machine = TypeMachineBuilder(OutletLifecycle, outlet)
    idle = machine.state("idle")
    # A server refuses a key that is in use: the states in between wait for the end of the old connection.
    link = add_states(machine, outlet)
    # The publisher was lost; the server keeps the broadcast open.
    held = machine.state("held")
    # Left at once. A transition has one target, and after a failure there are two: `wait` and `give_up` choose.
    failed = machine.state("failed")
    given_up = machine.state("given up")

    idle.upon(OutletLifecycle.start).to(link.connecting)(do(outlet.begin))
    link.connecting.upon(OutletLifecycle.accepted).to(link.connected)(do(outlet.connected))

    link.connecting.upon(OutletLifecycle.failed).to(failed)(do(outlet.judge))
    link.connected.upon(OutletLifecycle.lost).to(failed)(do(outlet.judge_loss))
    failed.upon(OutletLifecycle.wait).to(link.waiting)(do(outlet.wait))
    failed.upon(OutletLifecycle.give_up).to(given_up)(do(outlet.give_up))
    given_up.upon(OutletLifecycle.reconnect).to(link.connecting)(do(outlet.connect_now))
    given_up.upon(OutletLifecycle.end).to(link.ended)(do(outlet.leave_at_once))

    link.connected.upon(OutletLifecycle.publisher_lost).to(held)(do(outlet.hold))
    held.upon(OutletLifecycle.publisher_returned).to(link.connected)(do(outlet.resume))
    held.upon(OutletLifecycle.lost).to(link.ended)(do(outlet.finish_held))
    # Nothing is there to be sent on a new connection; if the publisher returns, it begins a new broadcast.
    held.upon(OutletLifecycle.reconnect).to(link.ending)(do(outlet.leave_held))
    held.upon(OutletLifecycle.end).to(link.ending)(do(outlet.leave_connection))

    # Without a connection to hold, a lost publisher is an end, too.
    link.connecting.upon(OutletLifecycle.publisher_lost).to(link.ending)(do(outlet.leave_attempt))
    link.restarting.upon(OutletLifecycle.publisher_lost).to(link.ending)(do(outlet.leave))
    link.waiting.upon(OutletLifecycle.publisher_lost).to(link.ended)(do(outlet.leave_at_once))
    given_up.upon(OutletLifecycle.publisher_lost).to(link.ended)(do(outlet.leave_at_once))

    # What changes nothing.
    for ends in (link.ending, link.ended):
        ends.upon(OutletLifecycle.publisher_lost).loop().returns(None)
    not_held = (
        link.connecting,
        link.connected,
        link.waiting,
        given_up,
        link.restarting,
        link.ending,
        link.ended,
    )
    for state in not_held:
        state.upon(OutletLifecycle.publisher_returned).loop().returns(None)
    return machine.build()
