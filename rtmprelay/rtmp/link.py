"""A connection to another server that is kept for as long as it is wanted: attempts, the waiting between them, and its end.

A destination and a pull have one each. What may follow what is here as far as both have it in common: their own machines,
in `destinations/lifecycle.py` and `pulls/lifecycle.py`, add the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import attrs
from automat import TypeMachineBuilder
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.rtmp.client import RtmpClientProtocol

_P = ParamSpec("_P")
_Client = TypeVar("_Client", bound=RtmpClientProtocol)
_Client_contra = TypeVar("_Client_contra", bound=RtmpClientProtocol, contravariant=True)
_Link = TypeVar("_Link", bound="Link[Any]")
_Inputs = TypeVar("_Inputs", bound="LinkLifecycle[Any]")


class LinkLifecycle(Protocol[_Client_contra]):
    """What can happen to a link.

    All inputs return None: so one may come while another is being handled, from a program that reacts to an event.
    It is handled next.
    """

    def start(self) -> None:
        """The link is wanted."""

    def accepted(self, client: _Client_contra) -> None:
        """The server accepted the publish or the play."""

    def failed(self, reason: Failure) -> None:
        """The attempt to connect failed, or was cancelled."""

    def lost(self, reason: Failure) -> None:
        """The connection has gone."""

    def retry(self) -> None:
        """It is time for the next attempt."""

    def reconnect(self) -> None:
        """End the connection, or wait no longer, and try now."""

    def end(self, reason: str) -> None:
        """End for good."""


class Link(Generic[_Client]):
    """What a destination's and a pull's end of such a connection have in common.

    Args:
        work: What it does, in the log's words: `sending to NAME`.
    """

    _log = Logger()
    # Each is set on the way into the state that uses it.
    _attempt: Deferred[_Client]
    _client: _Client
    _end_reason: str
    # Made by the class of the whole machine.
    _lifecycle: LinkLifecycle[_Client]

    def __init__(self, clock: IReactorTime, wall_clock: Callable[[], float], work: str) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._work = work
        self._connections = 0
        self._connected_at: float | None = None
        self._next_attempt_at: float | None = None
        # Of the states that wait.
        self._timer: IDelayedCall | None = None
        self._waiting_for_end: list[Deferred[None]] = []

    def start(self) -> None:
        self._lifecycle.start()

    def end(self, reason: str) -> Deferred[None]:
        """Say goodbye to the server and end for good; fires when the connection has gone."""
        ended: Deferred[None] = Deferred()
        self._waiting_for_end.append(ended)
        self._lifecycle.end(reason)
        return ended

    def reconnect(self) -> None:
        """End the connection, or wait no longer, and try now."""
        self._lifecycle.reconnect()

    @property
    def reconnect_count(self) -> int:
        """How often the server accepted again."""
        return max(0, self._connections - 1)

    def _wall_time(self, moment: float | None) -> float | None:
        """A moment of the steady clock as seconds since 1970."""
        return None if moment is None else self._wall_clock() - (self._clock.seconds() - moment)

    # -- what the state machine does: only it calls these ----------------------------------------------------

    def connect(self) -> None:
        """Begin an attempt."""
        raise NotImplementedError

    def end_connection(self) -> None:
        """End the connection; another attempt follows."""
        raise NotImplementedError

    def leave(self, reason: str) -> None:
        """End everything but the connection or the attempt, which goes next."""
        raise NotImplementedError

    def finish(self, reason: Failure | None = None) -> None:
        """Tell that it is over."""
        raise NotImplementedError

    def _try(self, reaching: Coroutine[Any, Any, _Client]) -> None:
        self._next_attempt_at = None
        self._attempt = Deferred.fromCoroutine(reaching)
        self._attempt.addCallbacks(self._lifecycle.accepted, self._lifecycle.failed).addErrback(self._log_bug)

    def _keep(self, client: _Client) -> None:
        """Keep the connection that an attempt has made."""
        self._watch(client)
        self._client = client
        self._connected_at = self._clock.seconds()
        self._connections += 1

    def _watch(self, client: _Client) -> None:
        lost = client.when_lost.addCallback(lambda _: self._lifecycle.lost(client.loss))
        lost.addErrback(self._log_bug)

    def _log_bug(self, failure: Failure) -> None:
        self._log.failure("A bug in {work}", failure, work=self._work)

    def _wait(self, delay: float) -> None:
        """Let the next attempt follow after some seconds."""
        self._next_attempt_at = self._clock.seconds() + delay
        self._timer = self._clock.callLater(delay, self._lifecycle.retry)

    def _stop_timer(self) -> None:
        stop_timer(self._timer)
        self._timer = None

    def connect_again(self, reason: Failure) -> None:
        self.connect()

    def connect_now(self) -> None:
        self._stop_timer()
        self.connect()

    def cancel_attempt(self) -> None:
        self._attempt.cancel()

    def accepted_too_late(self, client: _Client) -> None:
        """The attempt succeeded at the very moment when it was cancelled."""
        self._watch(client)
        client.end()

    def leave_attempt(self, reason: str) -> None:
        self.leave(reason)
        self._attempt.cancel()

    def leave_connection(self, reason: str) -> None:
        self.leave(reason)
        self._client.end()

    def leave_at_once(self, reason: str) -> None:
        self.leave(reason)
        self.finish()

    def confirm_end(self, reason: str) -> None:
        waiting, self._waiting_for_end = self._waiting_for_end, []
        for ended in waiting:
            ended.callback(None)


def stop_timer(timer: IDelayedCall | None) -> None:
    """Cancel a timer that may be over."""
    if timer is not None and timer.active():
        timer.cancel()


@attrs.frozen
class LinkStates:
    """The states that both machines have."""

    connecting: Any
    connected: Any
    waiting: Any
    #: A new attempt follows when the old connection has gone.
    restarting: Any
    ending: Any
    ended: Any


def add_states(machine: TypeMachineBuilder[_Inputs, _Link], link: type[_Link]) -> LinkStates:
    """Add the states and transitions that both machines have. What follows a failure is not among them."""
    connecting = machine.state("connecting")
    connected = machine.state("connected")
    waiting = machine.state("waiting")
    restarting = machine.state("restarting")
    ending = machine.state("ending")
    ended = machine.state("ended")

    connecting.upon(LinkLifecycle.reconnect).to(restarting)(do(link.cancel_attempt))
    connected.upon(LinkLifecycle.reconnect).to(restarting)(do(link.end_connection))
    restarting.upon(LinkLifecycle.accepted).loop()(do(link.accepted_too_late))
    restarting.upon(LinkLifecycle.failed).to(connecting)(do(link.connect_again))
    restarting.upon(LinkLifecycle.lost).to(connecting)(do(link.connect_again))
    waiting.upon(LinkLifecycle.retry).to(connecting)(do(link.connect))
    waiting.upon(LinkLifecycle.reconnect).to(connecting)(do(link.connect_now))

    connecting.upon(LinkLifecycle.end).to(ending)(do(link.leave_attempt))
    restarting.upon(LinkLifecycle.end).to(ending)(do(link.leave))
    connected.upon(LinkLifecycle.end).to(ending)(do(link.leave_connection))
    waiting.upon(LinkLifecycle.end).to(ended)(do(link.leave_at_once))
    ending.upon(LinkLifecycle.accepted).loop()(do(link.accepted_too_late))
    ending.upon(LinkLifecycle.failed).to(ended)(do(link.finish))
    ending.upon(LinkLifecycle.lost).to(ended)(do(link.finish))
    ended.upon(LinkLifecycle.end).loop()(do(link.confirm_end))

    # What changes nothing.
    ending.upon(LinkLifecycle.end).loop().returns(None)
    for goes in (restarting, ending, ended):
        goes.upon(LinkLifecycle.reconnect).loop().returns(None)
    return LinkStates(connecting, connected, waiting, restarting, ending, ended)


def do(action: Callable[Concatenate[_Link, _P], None]) -> Callable[Concatenate[Any, _Link, _P], None]:
    """A link's method, as a transition calls it."""

    def output(_lifecycle: object, link: _Link, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        action(link, *args, **kwargs)

    output.__name__ = action.__name__
    return output
