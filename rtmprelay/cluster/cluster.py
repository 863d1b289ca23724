"""One node of a cluster: claims the streams that are published to it, and fetches those of other nodes.

What the directory says is read every two seconds, and the node keeps its last knowledge when the directory is away: what
runs goes on, whatever happens to the directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.access.request import ALLOWED, AccessRequest, Action, Verdict, refused
from rtmprelay.cluster.directory import (
    DirectoryLostError,
    DirectoryRefusedError,
    IStreamDirectory,
    NodeRecord,
)
from rtmprelay.cluster.membership import SOON, Membership
from rtmprelay.cluster.notices import Has, Messenger, Moved, read_notice
from rtmprelay.cluster.routes import ClusterSource
from rtmprelay.cluster.settings import ClusterSettings, WhenLost
from rtmprelay.event_bus import EventBus
from rtmprelay.interfaces import IStreamObserver, IStreamPlacement
from rtmprelay.pulls.manager import WAIT_FOR_MEDIA, PullManager
from rtmprelay.pulls.source import StreamSource
from rtmprelay.rtmp.node_pass import NodeIdentity, NodePass
from rtmprelay.streams.live_stream import LiveStream, StreamOrigin
from rtmprelay.streams.registry import StreamRegistry

#: Seconds that an encoder is kept waiting while the lease of a lost owner ends. Encoders wait for 10 and more.
CLAIM_PATIENCE = 6.5

#: Seconds between two readings of the directory for names that nobody knows.
_ASK_EVERY = 0.1

#: Seconds for which a stream stays claimed after its publisher was lost: its destinations are held as long.
KEEP_CLAIM = 10.0


class Destinations(Protocol):
    """What a cluster needs of the destinations."""

    may_send: Callable[[str], bool]

    def wants(self, key: str) -> bool: ...
    def end_stream(self, key: str, reason: str) -> Deferred[None]: ...
    def offer_all_streams(self) -> None: ...


@attrs.define(eq=False)
class Claim:
    """A stream of this node."""

    #: None while the directory is away: nobody else knows of it.
    epoch: int | None
    #: Since when nobody publishes it.
    idle_since: float | None
    is_silent: bool = False


@attrs.frozen
class ClusterContext:
    """What a node has of its relay."""

    clock: IReactorTime
    events: EventBus
    registry: StreamRegistry
    pulls: PullManager
    destinations: Destinations
    messenger: Messenger
    #: How many players and connections there are.
    load: Callable[[], tuple[int, int]]


@implementer(IStreamPlacement, IStreamObserver)
class Cluster:
    """Places streams on nodes: who publishes here becomes the owner, who watches here gets it from the owner.

    Attributes:
        membership: The lease of this node, and what it knows of the others.
        is_draining: Whether the other nodes are told that this one takes nobody any more.
    """

    _log = Logger()

    def __init__(
        self,
        settings: ClusterSettings,
        identity: NodeIdentity,
        instance: str,
        directory: IStreamDirectory,
        context: ClusterContext,
    ) -> None:
        self.settings = settings
        self.is_active = True
        self.is_draining = False
        self.membership = Membership(
            NodeRecord(identity.name, instance, settings.node_url),
            directory,
            context.clock,
            context.events,
            self,
        )
        self._directory = directory
        self._context = context
        self._clock = context.clock
        self._source = ClusterSource(self, identity)
        self._claims: dict[str, Claim] = {}
        # Those who wait for streams whose publishers are about to begin.
        self._waiting: dict[str, list[Deferred[None]]] = {}
        context.registry.add_observer(self)
        context.pulls.other_sources.append(self._source_of)
        context.destinations.may_send = self._may_send

    # -- start and stop --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the cluster."""
        self.membership.start()

    def stop(self) -> Deferred[None]:
        """Leave the cluster; other nodes may take its streams over at once."""
        return self.membership.stop()

    def drain(self) -> None:
        """Tell the other nodes that this one takes nobody any more."""
        self.is_draining = True
        self.membership.renew()

    @property
    def claims(self) -> dict[str, Claim]:
        """The streams of this node."""
        return dict(self._claims)

    def _source_of(self, key: str) -> StreamSource | None:
        if key in self._claims:
            return None
        # A rule of this node's operator is for what no node has.
        is_elsewhere = self.membership.snapshot.owner_of(key) is not None
        return self._source if is_elsewhere or not self._context.pulls.has_rule_for(key) else None

    def _may_send(self, key: str) -> bool:
        claim = self._claims.get(key)
        stream = self._context.registry.get(key)
        if stream is not None and stream.origin is StreamOrigin.PULLED:
            # Fetched by a rule of this node's own.
            return True
        return claim is not None and claim.epoch is not None and not self.membership.is_lost

    # -- with each renewal -----------------------------------------------------------------------------------

    def describe(self, node: NodeRecord) -> NodeRecord:
        """What the other nodes are told of this one."""
        players, connections = self._context.load()
        return attrs.evolve(
            node,
            is_draining=self.is_draining,
            streams=sum(claim.idle_since is None for claim in self._claims.values()),
            players=players,
            connections=connections,
        )

    def changed_silence(self, now: float) -> dict[str, bool]:
        """The streams that have become silent, or have begun to send again, since the last renewal."""
        changed = {}
        for key, claim in self._claims.items():
            stream = self._context.registry.get(key)
            is_silent = claim.idle_since is not None or stream is None or stream.is_silent(now)
            if is_silent != claim.is_silent:
                changed[key] = is_silent
        return changed

    async def renewed(self, told_silence: Mapping[str, bool]) -> None:
        """The lease is renewed, and the snapshot is new."""
        for key, is_silent in told_silence.items():
            if key in self._claims:
                self._claims[key].is_silent = is_silent
        await self._compare_claims()
        self._move_fetches()

    async def _compare_claims(self) -> None:
        """Give up what others own by now, claim what the directory does not know, and release what nobody publishes."""
        now = self._clock.seconds()
        # Claims whose publishers went before the answer came, or of whom nothing is known any more.
        released = [
            key
            for key, owner in self.membership.snapshot.owners.items()
            if owner.instance == self.membership.me.instance and key not in self._claims
        ]
        claimed_anew = False
        for key, claim in list(self._claims.items()):
            if claim.idle_since is not None and now - claim.idle_since >= KEEP_CLAIM:
                released.append(key)
                del self._claims[key]
                continue
            owner = self.membership.snapshot.owners.get(key)
            if (
                owner is not None
                and owner.instance == self.membership.me.instance
                and owner.epoch == claim.epoch
            ):
                continue
            answer = await self._directory.claim(key, self.membership.me)
            if answer.owner.instance != self.membership.me.instance:
                node = self.membership.snapshot.node_of(answer.owner.instance)
                await self.lose(key, answer.owner.epoch, "another node" if node is None else node.name)
            else:
                claim.epoch = answer.owner.epoch
                claimed_anew = True
        if released:
            await self._directory.release(released, self.membership.me)
        if claimed_anew:
            self._context.destinations.offer_all_streams()

    def _move_fetches(self) -> None:
        """Fetch from the new owners the streams that have moved."""
        for fetch in self._context.pulls.fetches:
            if fetch.source is self._source and not fetch.is_ending and self._source.has_moved(fetch):
                fetch.reconnect()

    # -- publishing ------------------------------------------------------------------------------------------

    def place(self, request: AccessRequest) -> Deferred[Verdict]:
        """Claim the stream that is to be published; fetch the one that is to be played."""
        if request.action is Action.PUBLISH:
            return Deferred.fromCoroutine(self._claim(request.stream))
        return Deferred.fromCoroutine(self._find(request))

    async def _find(self, request: AccessRequest) -> Verdict:
        key = request.stream
        stream = self._context.registry.get(key)
        is_live = stream is not None and stream.publisher is not None
        if not is_live and key in self._claims:
            # Its publisher is about to begin: the directory knows it already, and so do the other nodes.
            await self._when_begun(key)
            return ALLOWED
        if (
            not is_live
            and self.membership.snapshot.owner_of(key) is None
            and self._context.pulls.fetch_of(key) is None
        ):
            # Viewers choose the names: only what exists is worth a connection, and asking has a bound, too.
            age = self.membership.knowledge_age
            if age is not None and age < _ASK_EVERY:
                await deferLater(self._clock, _ASK_EVERY - age)
            await self.membership.renew()
            if self.membership.snapshot.owner_of(key) is None and not self._context.pulls.has_rule_for(key):
                return ALLOWED
        return await self._context.pulls.place(request)

    async def _when_begun(self, key: str) -> None:
        begun: Deferred[None] = Deferred()
        waiting = self._waiting.setdefault(key, [])
        waiting.append(begun)
        begun.addTimeout(WAIT_FOR_MEDIA, self._clock)
        try:
            with suppress(TimeoutError):
                await begun
        finally:
            waiting.remove(begun)
            if not waiting:
                self._waiting.pop(key, None)

    async def _claim(self, key: str) -> Verdict:
        deadline = self._clock.seconds() + CLAIM_PATIENCE
        while True:
            try:
                answer = await self._directory.claim(key, self.membership.me)
            except (DirectoryLostError, DirectoryRefusedError) as error:
                self.membership.failed(str(error))
                if self.membership.is_lost:
                    return self._without_directory(key)
            else:
                if answer.owner.instance == self.membership.me.instance:
                    await self._won(key, answer.owner.epoch, answer.previous)
                    return ALLOWED
                owner = self.membership.snapshot.node_of(answer.owner.instance)
                has_it = None if owner is None else await self._context.messenger.tell(owner, Has(key))
                if has_it or self._clock.seconds() >= deadline:
                    where = "another node" if owner is None else f"the node {owner.name}"
                    return Verdict(False, f"{key} has a publisher already, at {where}", is_busy=True)
            # The owner is lost, and its lease ends soon.
            await deferLater(self._clock, SOON)

    async def _won(self, key: str, epoch: int, previous: NodeRecord | None) -> None:
        claim = self._claims.setdefault(key, Claim(epoch, self._clock.seconds()))
        claim.epoch = epoch
        claim.is_silent = False
        self.membership.saw_epoch(epoch)
        if previous is None:
            return
        # The old owner may live, and know nothing: the directory may be out of its reach alone.
        await self._context.messenger.tell(previous, Moved(key, epoch))
        self._tell_moved(key, previous.name, self.membership.me.name, epoch)

    def _tell_moved(self, key: str, from_node: str, to_node: str, epoch: int) -> None:
        self._context.events.publish(
            events.StreamMoved(
                node=self.membership.me.name, stream=key, from_node=from_node, to_node=to_node, epoch=epoch
            )
        )

    def _without_directory(self, key: str) -> Verdict:
        policy = self.settings.when_lost
        if policy is WhenLost.BY_DESTINATIONS:
            policy = WhenLost.REFUSE if self._context.destinations.wants(key) else WhenLost.ACCEPT
        owner = self.membership.snapshot.owner_of(key)
        if owner is not None and owner[0].instance != self.membership.me.instance and not owner[0].is_silent:
            return Verdict(False, f"{key} has a publisher already, at the node {owner[1].name}", is_busy=True)
        if policy is WhenLost.REFUSE:
            return refused("the directory of the cluster is away; try again later")
        self._claims.setdefault(key, Claim(None, self._clock.seconds()))
        return ALLOWED

    # -- from the registry -----------------------------------------------------------------------------------

    def stream_started(self, stream: LiveStream) -> None:
        """A publisher of this node, or a fetch, began."""
        for begun in list(self._waiting.get(stream.key, ())):
            # Not before the publisher has been told: its headers come next.
            self._clock.callLater(0, _fire, begun)
        claim = self._claims.get(stream.key)
        if stream.origin is StreamOrigin.PUBLISHED:
            if claim is None:
                # A program published it without asking the gate.
                claim = self._claims[stream.key] = Claim(None, None)
                self.membership.renew_soon()
            claim.idle_since = None

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """A publisher of this node, or a fetch, ended."""
        claim = self._claims.get(stream.key)
        if claim is None or stream.origin is not StreamOrigin.PUBLISHED:
            return
        now = self._clock.seconds()
        claim.idle_since = now - KEEP_CLAIM if clean else now
        # Others may have it at once.
        self.membership.renew_soon()

    # -- from other nodes ------------------------------------------------------------------------------------

    def take_notice(self, node: NodePass) -> Deferred[str | None]:
        """Answer another node; fires with why it is refused, or with None."""
        notice = read_notice(node.notice)
        if isinstance(notice, Has):
            stream = self._context.registry.get(notice.key)
            is_live = (
                stream is not None
                and stream.publisher is not None
                and stream.origin is StreamOrigin.PUBLISHED
                and not stream.is_silent(self._clock.seconds())
            )
            return succeed(None if is_live else "nobody publishes it here")
        if isinstance(notice, Moved):
            claim = self._claims.get(notice.key)
            if claim is not None and claim.epoch is not None and claim.epoch > notice.epoch:
                return succeed("this node has a higher epoch")
            losing = self.lose(notice.key, notice.epoch, node.chain[-1])
            return losing.addCallback(lambda _: None)
        return succeed("the notice is not understood")

    def lose(self, key: str, epoch: int, to_node: str) -> Deferred[None]:
        """Another node owns the stream: end what only the owner does; fires when it has ended."""
        claim = self._claims.pop(key, None)
        self.membership.saw_epoch(epoch)
        if claim is None:
            return succeed(None)
        reason = f"the node {to_node} has taken the stream over"
        ended = self._context.destinations.end_stream(key, reason)
        stream = self._context.registry.get(key)
        if stream is not None and stream.publisher is not None and stream.origin is StreamOrigin.PUBLISHED:
            stream.publisher.publish_ended(reason)
        self._tell_moved(key, self.membership.me.name, to_node, epoch)
        self.membership.hurry()
        if stream is not None and stream.viewers:
            # Its viewers go on with the stream of the new owner.
            self._context.pulls.want(key)
        return ended


def _fire(waiting: Deferred[None]) -> None:
    if not waiting.called:
        waiting.callback(None)
