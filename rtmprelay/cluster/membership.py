"""The lease of a node, and what it knows of the others: renewed and read together, every two seconds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay import events
from rtmprelay.cluster.directory import (
    LOST_AFTER,
    RENEW_EVERY,
    DirectoryLostError,
    DirectoryRefusedError,
    IStreamDirectory,
    NodeRecord,
    Snapshot,
)
from rtmprelay.event_bus import EventBus

#: Seconds between two renewals while viewers wait for a stream that has moved, and while the directory is away.
SOON = 0.5

#: Seconds for which the directory is read more often after a stream was lost.
_HURRY_FOR = 15.0


class Member(Protocol):
    """What is done with each renewal."""

    def describe(self, node: NodeRecord) -> NodeRecord:
        """What the other nodes are told of this one."""

    def changed_silence(self, now: float) -> dict[str, bool]:
        """The streams that have become silent, or have begun to send again."""

    async def renewed(self, told_silence: Mapping[str, bool]) -> None:
        """The lease is renewed, and the snapshot is new."""


class Membership:
    """Keeps the lease of this node for as long as the directory answers.

    Attributes:
        me: This node.
        snapshot: What the directory said last. It stays when the directory is away.
        error: Why the directory cannot be used now; None while it can.
    """

    _log = Logger()

    def __init__(
        self,
        me: NodeRecord,
        directory: IStreamDirectory,
        clock: IReactorTime,
        event_bus: EventBus,
        member: Member,
    ) -> None:
        self.me = me
        self.snapshot = Snapshot()
        self.error: str | None = None
        self._directory = directory
        self._clock = clock
        self._events = event_bus
        self._member = member
        self._renewed_at = clock.seconds() - LOST_AFTER
        self._lost_since: float | None = None
        self._hurry_until = 0.0
        self._timer: IDelayedCall | None = None
        self._is_renewing = False
        self._waiting: list[Deferred[None]] = []
        self._is_running = False

    def start(self) -> None:
        """Join the cluster. What cannot be done now is done when the directory answers."""
        self._is_running = True
        self._directory.open().addErrback(self._not_opened).addCallback(lambda _: self.renew())

    def _not_opened(self, failure: Failure) -> None:
        if failure.check(DirectoryLostError, DirectoryRefusedError) is None:
            self._log.failure("A bug in opening the directory", failure)
        self.failed(failure.getErrorMessage())

    def stop(self) -> Deferred[None]:
        """Leave the cluster: other nodes may take the streams over at once."""
        self._is_running = False
        self._stop_timer()
        return Deferred.fromCoroutine(self._leave())

    async def _leave(self) -> None:
        # Without a directory the lease ends by itself.
        with suppress(DirectoryLostError, DirectoryRefusedError):
            await self._directory.leave(self.me)
        await self._directory.close()

    # -- knowledge -------------------------------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        """Whether the lease may have ended: nothing may be begun that only one node may do."""
        return self._clock.seconds() - self._renewed_at >= LOST_AFTER

    @property
    def knowledge_age(self) -> float | None:
        """Seconds since the directory was read; None before the first time."""
        return None if not self.snapshot.nodes else self._clock.seconds() - self._renewed_at

    def saw_epoch(self, epoch: int) -> None:
        """Remember the highest epoch."""
        self.me = attrs.evolve(self.me, highest_epoch=max(self.me.highest_epoch, epoch))

    # -- renewals --------------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """Read the directory often for a while: viewers wait for a stream that has moved."""
        self._hurry_until = self._clock.seconds() + _HURRY_FOR
        self._schedule(SOON)

    def renew_soon(self) -> None:
        """Renew as soon as what happens now is over."""
        self._schedule(0)

    def renew(self) -> Deferred[None]:
        """Renew the lease and read the directory now; fires when it is done, or has failed."""
        done: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(done)
        if not self._is_renewing:
            self._is_renewing = True
            self._stop_timer()
            Deferred.fromCoroutine(self._renew()).addErrback(self._log_bug).addCallback(self._finished)
        return done

    def _log_bug(self, failure: Failure) -> None:
        self._log.failure("A bug in renewing the lease", failure)

    def _finished(self, _: None) -> None:
        self._is_renewing = False
        is_urgent = self._clock.seconds() < self._hurry_until or self.error is not None
        self._schedule(SOON if is_urgent else RENEW_EVERY)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)

    def _schedule(self, delay: float) -> None:
        if self._is_running and not self._is_renewing:
            self._stop_timer()
            self._timer = self._clock.callLater(delay, self.renew)

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    async def _renew(self) -> None:
        began = self._clock.seconds()
        self.me = self._member.describe(self.me)
        changed = self._member.changed_silence(began)
        try:
            self._took(await self._directory.renew(self.me, changed), began)
            await self._member.renewed(changed)
        except (DirectoryLostError, DirectoryRefusedError) as error:
            self.failed(str(error))

    def failed(self, reason: str) -> None:
        """The directory did not answer, or refused."""
        self.error = reason
        if self.is_lost and self._lost_since is None:
            self._lost_since = self._renewed_at
            self._events.publish(events.DirectoryLost(node=self.me.name, reason=reason))

    def _took(self, snapshot: Snapshot, began: float) -> None:
        before, self.snapshot = self.snapshot, snapshot
        self.error = None
        lost_since, self._lost_since = self._lost_since, None
        self._renewed_at = began
        self.saw_epoch(max((owner.epoch for owner in snapshot.owners.values()), default=0))
        name, tell = self.me.name, self._events.publish
        if lost_since is not None:
            tell(events.DirectoryBack(node=name, seconds=self._clock.seconds() - lost_since))
        for other in snapshot.nodes.keys() - before.nodes.keys() - {name}:
            tell(events.NodeJoined(node=name, other=other, address=snapshot.nodes[other].url))
        for other in before.nodes.keys() - snapshot.nodes.keys() - {name}:
            tell(events.NodeLost(node=name, other=other))
