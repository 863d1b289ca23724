"""The pulls of a relay: which rules there are, and the streams that are fetched now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, gatherResults, succeed
from twisted.internet.task import LoopingCall
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Action, Verdict, refused
from rtmprelay.destinations.failures import LONGEST_DELAY
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamPlacement
from rtmprelay.pulls.fetch import Fetch
from rtmprelay.pulls.settings import PullSettings, refuse_duplicate_names
from rtmprelay.pulls.source import FetchContext, StreamSource, Target
from rtmprelay.pulls.status import FetchStatus, PullStatus, joint_state
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.streams.live_stream import StreamOrigin

#: Seconds that a player waits for a stream that has to be fetched first. Players give up after 10 or more.
WAIT_FOR_MEDIA = 5.0

#: Streams that are fetched at the same time: viewers choose the names, and each costs a connection.
MOST_FETCHES = 500

#: Seconds between two looks at who still watches.
_CHECK_EVERY = 1.0


@attrs.define(eq=False)
class RuleSource:
    """The server of one rule."""

    settings: PullSettings
    _identity: NodeIdentity

    @property
    def origin(self) -> StreamOrigin:
        return StreamOrigin.PULLED

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def always(self) -> bool:
        return self.settings.always

    @property
    def longest_delay(self) -> float:
        return LONGEST_DELAY

    def find(self, key: str, chain: tuple[str, ...]) -> Deferred[Target]:
        """Always the same server; its name is looked up at each attempt."""
        app, _, name = key.rpartition("/")
        settings = self.settings
        return succeed(
            Target(
                settings.url.filled_in(app, name),
                TlsTrust(settings.verify, settings.ca_file),
                self._identity.issue(chain),
            )
        )

    def source_left(self, key: str) -> None:
        """Nothing to do: there is no other server."""

    def forget(self, key: str) -> None:
        """Nothing to do: nothing was remembered."""


@attrs.define(eq=False)
class _Ended:
    """What fetches that have ended brought: totals never go down."""

    messages: int = 0
    bytes: int = 0
    reconnect_count: int = 0
    last: FetchStatus | None = None

    def add(self, fetch: FetchStatus) -> None:
        self.messages += fetch.messages
        self.bytes += fetch.bytes
        self.reconnect_count += fetch.reconnect_count
        self.last = fetch


@implementer(IStreamPlacement)
class PullManager:
    """Fetches a stream when somebody asks for it who may have it, once, however many ask.

    Attributes:
        other_sources: Asked before the rules: the source of a stream, or None.
    """

    def __init__(
        self, context: FetchContext, identity: NodeIdentity, most_fetches: int = MOST_FETCHES
    ) -> None:
        self._context = context
        self._identity = identity
        self._most_fetches = most_fetches
        self.other_sources: list[Callable[[str], StreamSource | None]] = []
        self._rules: dict[str, RuleSource] = {}
        self._ended: dict[str, _Ended] = {}
        self._fetches: dict[str, Fetch] = {}
        self._leaving: dict[Fetch, Deferred[None]] = {}
        self._numbers = count(1)
        self._is_running = False
        self._checks = LoopingCall(self._check)
        self._checks.clock = context.clock

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, name: object) -> bool:
        return name in self._rules

    # -- who asks --------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether any stream may have to be fetched."""
        return bool(self._rules or self.other_sources)

    def place(self, request: AccessRequest) -> Deferred[Verdict]:
        """Fetch the stream that somebody may play, if it is not here."""
        if request.action is not Action.PLAY:
            return succeed(ALLOWED)
        return Deferred.fromCoroutine(self._place(request.stream, request.chain))

    async def _place(self, key: str, chain: tuple[str, ...]) -> Verdict:
        fetch = self._fetches.get(key)
        if fetch is not None:
            fetch.wanted()
        stream = self._context.registry.get(key)
        if stream is not None and stream.publisher is not None:
            if fetch is not None and chain and not fetch.is_live:
                # Its server is lost. Another relay that had it from here could be the very server that is asked next.
                return refused("the stream is interrupted")
            return ALLOWED
        fetch = fetch or self._begin(key, chain)
        if fetch is None:
            return ALLOWED
        decided = fetch.when_decided()
        decided.addTimeout(WAIT_FOR_MEDIA, self._context.clock)
        with suppress(TimeoutError):
            await decided
        # If it did not come, the registry says that nobody publishes the stream.
        return ALLOWED

    def _begin(self, key: str, chain: tuple[str, ...] = ()) -> Fetch | None:
        source = self._source_of(key)
        if source is None or len(self._fetches) >= self._most_fetches or not self._is_running:
            return None
        connection_id = f"p{next(self._numbers):06d}"
        fetch = Fetch(key, connection_id, source, self._context, chain, self._fetch_ended)
        self._fetches[key] = fetch
        fetch.start()
        return fetch

    def _source_of(self, key: str) -> StreamSource | None:
        for find in self.other_sources:
            source = find(key)
            if source is not None:
                return source
        return next((rule for rule in self._rules.values() if rule.settings.wants(key)), None)

    def has_rule_for(self, key: str) -> bool:
        """Whether a rule of this relay matches a stream."""
        return any(rule.settings.wants(key) for rule in self._rules.values())

    def want(self, key: str) -> None:
        """Fetch a stream although nobody has asked anew: its viewers are here."""
        if key not in self._fetches:
            self._begin(key)

    def fetch_of(self, key: str) -> Fetch | None:
        """The fetch of a stream, if it is fetched."""
        return self._fetches.get(key)

    @property
    def fetches(self) -> Iterator[Fetch]:
        """All streams that are fetched now."""
        return iter(list(self._fetches.values()))

    def _end(self, fetch: Fetch, reason: str) -> Deferred[None]:
        self._fetches.pop(fetch.key, None)
        ended = fetch.end(reason)
        if not ended.called:
            self._leaving[fetch] = ended
        return ended

    def _fetch_ended(self, fetch: Fetch) -> None:
        self._leaving.pop(fetch, None)
        if self._fetches.get(fetch.key) is fetch:
            del self._fetches[fetch.key]
        if fetch.key not in self._fetches:
            fetch.source.forget(fetch.key)
        if fetch.source.name in self._rules:
            self._ended.setdefault(fetch.source.name, _Ended()).add(fetch.status())

    def _check(self) -> None:
        for fetch in list(self._fetches.values()):
            fetch.check()
            if fetch.is_ending and self._fetches.get(fetch.key) is fetch:
                # Who asks from now on gets a new one.
                self._end(fetch, "nobody watches it any more")
        for rule in self._rules.values():
            stream = self._context.registry.get(rule.settings.match)
            if rule.always and (stream is None or stream.publisher is None):
                self.want(rule.settings.match)

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, settings: PullSettings) -> None:
        """Add a rule.

        Raises:
            ConfigError: There is one of this name.
        """
        refuse_duplicate_names([*self.settings, settings])
        self._rules[settings.name] = RuleSource(settings, self._identity)
        self._check_if_needed()

    def remove(self, name: str) -> Deferred[None]:
        """Remove a rule; fires when its connections are closed."""
        if name not in self._rules:
            raise ConfigError(f"there is no pull {name!r}")
        source = self._rules.pop(name)
        self._ended.pop(name, None)
        ended = [
            self._end(fetch, "the pull was removed")
            for fetch in list(self._fetches.values())
            if fetch.source is source
        ]
        return gatherResults(ended).addCallback(lambda _: None)

    def apply(self, wanted: Iterable[PullSettings]) -> None:
        """Make these the rules. Streams of rules that stay as they are go on."""
        settings = {one.name: one for one in refuse_duplicate_names(wanted)}
        for name, rule in list(self._rules.items()):
            if settings.get(name) != rule.settings:
                self.remove(name)
        for name, one in settings.items():
            if name not in self._rules:
                self._rules[name] = RuleSource(one, self._identity)
        # The first rule that matches counts: keep the order of the file.
        self._rules = {name: self._rules[name] for name in settings}
        self._check_if_needed()

    def start(self) -> None:
        """Fetch from now on."""
        self._is_running = True
        self._check_if_needed()

    def _check_if_needed(self) -> None:
        """A relay that fetches nothing has no timer."""
        if self._is_running and self.is_active and not self._checks.running:
            self._checks.start(_CHECK_EVERY, now=True)
        elif self._checks.running:
            self._check()

    def stop(self) -> Deferred[None]:
        """End all fetches; fires when their connections are closed."""
        self._is_running = False
        if self._checks.running:
            self._checks.stop()
        for fetch in list(self._fetches.values()):
            self._end(fetch, "the server stops")
        leaving: list[Deferred[None]] = []
        for fetch in list(self._leaving):
            with suppress(CancelledError):
                leaving.append(fetch.end("the server stops"))
        return gatherResults(leaving).addCallback(lambda _: None)

    # -- status ----------------------------------------------------------------------------------------------

    @property
    def settings(self) -> tuple[PullSettings, ...]:
        """The rules."""
        return tuple(rule.settings for rule in self._rules.values())

    def statuses(self) -> list[PullStatus]:
        """The status of each rule."""
        return [self._status(rule) for rule in self._rules.values()]

    def status(self, name: str) -> PullStatus | None:
        """The status of one rule; None if there is none of this name."""
        rule = self._rules.get(name)
        return None if rule is None else self._status(rule)

    def _status(self, rule: RuleSource) -> PullStatus:
        fetches = tuple(fetch.status() for fetch in self._fetches.values() if fetch.source is rule)
        ended = self._ended.get(rule.name, _Ended())
        failed = next((fetch for fetch in fetches if fetch.last_error), None if fetches else ended.last)
        return PullStatus(
            name=rule.name,
            url=str(rule.settings.url),
            match=rule.settings.match,
            always=rule.settings.always,
            state=joint_state(fetches),
            last_error=failed.last_error if failed else None,
            error_class=failed.error_class if failed else None,
            viewers=sum(fetch.viewers for fetch in fetches),
            messages=ended.messages + sum(fetch.messages for fetch in fetches),
            bytes=ended.bytes + sum(fetch.bytes for fetch in fetches),
            reconnect_count=ended.reconnect_count + sum(fetch.reconnect_count for fetch in fetches),
            fetches=fetches,
        )
