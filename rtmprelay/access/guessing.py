"""Makes guessing keys, passwords and tokens slow for each address, and delays nobody who has the right one.

Wrong credentials are refused late. While too many refusals to one address are being delayed, its next attempts are not
even checked: they wait for their turn. So an attacker gains nothing by opening a thousand connections.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from rtmprelay.addresses import address_group
from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import EventBus
from rtmprelay.events import AddressBanned, GuessingSlowed
from rtmprelay.quantities import quoted, read_duration

_T = TypeVar("_T")

#: Addresses that are remembered. An attacker who owns more of them guesses faster.
_MOST_ADDRESSES = 10_000

#: Each wrong answer takes this many times as long as the one before.
_GROWTH = 1.5

#: Attempts of one address that wait for their turn; any more are refused without being checked.
_MOST_WAITING = 20

#: Seconds between two events about the same address.
_EVENT_INTERVAL = 60.0

#: Seconds between two checks whether an attempt may go on, at the least.
_SHORTEST_WAIT = 0.05


@attrs.frozen
class GuessLimits:
    """How fast one address may try keys, passwords and tokens."""

    #: Refusals to one address that may be delayed at the same time, each by a second or more.
    guesses_at_once: int = 5
    #: Seconds before the first refusal; each one takes half as long again as the one before.
    guess_delay: float = 1.0
    #: Seconds before a refusal at the most: encoders give up after 10.
    longest_guess_delay: float = 8.0
    #: Seconds without a wrong attempt after which refusals are quick again.
    guess_memory: float = 600.0


@attrs.frozen
class Ban:
    """Shuts out an address that makes `count` wrong attempts within `seconds`, for as many seconds."""

    count: int
    seconds: float


def read_ban(text: str) -> Ban:
    """The value of `--ban`, such as `20/10m`.

    Raises:
        ConfigError: The text has another form.
    """
    match = re.fullmatch(r"(\d{1,6})/(.+)", text, re.ASCII)
    if match is None or int(match[1]) < 1:
        raise ConfigError(f"{quoted(text)} is not a number and a time such as 20/10m")
    return Ban(int(match[1]), read_duration(match[2], least=1.0))


@attrs.define(eq=False)
class _Address:
    """What is known of an address that sent something wrong."""

    wrong: int = 0
    last_wrong: float = 0.0
    #: When each refusal that is being delayed will be sent.
    due: list[float] = attrs.field(factory=list)
    checking: int = 0
    waiting: int = 0
    reported_at: float | None = None
    #: When the latest wrong attempts came; only a ban needs them.
    times: deque[float] = attrs.field(factory=deque)
    banned_until: float = 0.0


class GuessGuard:
    """Delays refusals for all that check credentials: RTMP, its login, and HTTP."""

    def __init__(
        self,
        clock: IReactorTime,
        events: EventBus,
        limits: GuessLimits | None = None,
        ban: Ban | None = None,
    ) -> None:
        self._clock = clock
        self._events = events
        self._limits = limits or GuessLimits()
        self._ban = ban
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        #: Checks that found something wrong, and attempts that were refused without a check.
        self.wrong = 0
        self.unchecked = 0

    def is_banned(self, host: str) -> bool:
        if self._ban is None:
            return False
        address = self._addresses.get(address_group(host))
        return address is not None and self._clock.seconds() < address.banned_until

    async def check(
        self, host: str, check: Callable[[], Awaitable[_T]], is_wrong: Callable[[_T], bool], refusal: _T
    ) -> _T:
        """The outcome of a check, at once if the credentials are right and late if they are wrong.

        Args:
            refusal: The outcome for an address that is shut out, or has too many attempts waiting.
        """
        group = address_group(host)
        address = self._addresses.get(group)
        if address is not None and not await self._has_turn(address):
            self.unchecked += 1
            if self._clock.seconds() >= address.banned_until:
                await deferLater(self._clock, self._limits.guess_delay)
            return refusal
        if address is not None:
            address.checking += 1
        try:
            outcome = await check()
        finally:
            if address is not None:
                address.checking -= 1
        if is_wrong(outcome):
            await deferLater(self._clock, self._note_wrong(group))
        return outcome

    async def _has_turn(self, address: _Address) -> bool:
        """Wait until one more attempt of this address may be checked; False if it will not be."""
        if address.waiting >= _MOST_WAITING:
            return False
        address.waiting += 1
        try:
            while (now := self._clock.seconds()) >= address.banned_until:
                due = address.due = [time for time in address.due if time > now]
                if len(due) + address.checking < self._limits.guesses_at_once:
                    return True
                wait = min(due) - now if due else 0.0
                await deferLater(self._clock, max(_SHORTEST_WAIT, wait))
            return False
        finally:
            address.waiting -= 1

    def _note_wrong(self, group: str) -> float:
        """Count a wrong attempt. Returns after how many seconds it is refused."""
        self.wrong += 1
        limits, now = self._limits, self._clock.seconds()
        address = self._addresses.get(group)
        if address is None:
            address = self._addresses[group] = _Address()
            if len(self._addresses) > _MOST_ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(group)
        if now - address.last_wrong > limits.guess_memory:
            address.wrong = 0
        address.wrong += 1
        address.last_wrong = now
        # Bounded: a larger power does not fit into a float.
        growth = _GROWTH ** min(address.wrong - 1, 50)
        delay = min(limits.longest_guess_delay, limits.guess_delay * growth)
        address.due.append(now + delay)
        self._report_slowed(group, address, delay, now)
        if self._ban is not None:
            self._count_for_ban(self._ban, group, address, now)
        return delay

    def _report_slowed(self, group: str, address: _Address, delay: float, now: float) -> None:
        if address.wrong < self._limits.guesses_at_once:
            return
        if address.reported_at is None or now - address.reported_at >= _EVENT_INTERVAL:
            address.reported_at = now
            self._events.publish(GuessingSlowed(peer=group, wrong=address.wrong, delay=delay))

    def _count_for_ban(self, ban: Ban, group: str, address: _Address, now: float) -> None:
        times = address.times
        times.append(now)
        while len(times) > ban.count or now - times[0] > ban.seconds:
            times.popleft()
        if len(times) == ban.count and now >= address.banned_until:
            address.banned_until = now + ban.seconds
            times.clear()
            self._events.publish(AddressBanned(peer=group, wrong=ban.count, seconds=ban.seconds))
