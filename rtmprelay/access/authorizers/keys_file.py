"""`keys-file`: who may publish and play, as a JSON file says."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.access.authorizers.hash_key import ScryptHash
from rtmprelay.access.authorizers.keys_rules import KeysRules, Rule, parse_keys
from rtmprelay.access.authorizers.slow_checks import AnswerCache, ConcurrencyLimiter, TooBusyError
from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_text, warn_if_everybody_reads
from rtmprelay.interfaces import IReloadable, IStreamAuthorizer, IUserDirectory
from rtmprelay.secret import Secret

#: The parameters that a key may come in.
KEY_NAMES = ("key", "token")

#: A keys file is a page or two; what is larger is another file.
_LARGEST_FILE = 1024 * 1024

# A stream that the file does not know is refused in the same words: which ones it knows is nobody's business.
_NO_KEY = refused("a key is needed: write ?key=... behind the stream's name")
_WRONG_KEY = refused("the key is wrong, or not for this stream")
_WRONG_USER = refused("this user may not do that")
_TOO_BUSY = refused("too many keys are being checked at the moment; try again later")


@implementer(IStreamAuthorizer, IUserDirectory, IReloadable)
class KeysFile:
    """Allows whoever brings a key of the file, or is a user that it names.

    Args:
        in_thread: Runs a function in a thread, for what takes long.
    """

    _log = Logger()

    def __init__(self, path: Path, in_thread: InThread, seconds: Callable[[], float]) -> None:
        self._path = path
        self._in_thread = in_thread
        self._seconds = seconds
        self._turns = KeyCheck.new_turns()
        self._rules = KeysRules(())
        self._check = KeyCheck(in_thread, seconds, self._turns)
        self._read()

    def _read(self) -> None:
        text = read_text(self._path, _LARGEST_FILE)
        try:
            self._rules = parse_keys(text)
        except ConfigError as error:
            raise ConfigError(f"{str(self._path)!r}: {error}") from None
        self._check = KeyCheck(self._in_thread, self._seconds, self._turns)
        warn_if_everybody_reads(self._path)

    def reload(self) -> None:
        """Read the file again. Whoever is in stays in."""
        self._read()
        self._log.info(
            "{path} was read again: {streams} patterns, {users} users",
            path=str(self._path),
            streams=len(self._rules.streams),
            users=len(self._rules.users),
        )

    # -- users -----------------------------------------------------------------------------------------------

    def wants_user(self, app: str) -> bool:
        """Whether the file wants users for this application."""
        return self._rules.wants_user(app)

    def password_of(self, user: str) -> Secret | None:
        """The password of a user."""
        return self._rules.users.get(user)

    # -- streams ---------------------------------------------------------------------------------------------

    def authorize(self, request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """Whether the file allows it."""
        rule = self._rules.rule(request.action, request.stream)
        user = request.credentials.user
        if rule.anyone or (user is not None and user in rule.users):
            return ALLOWED
        key = request.credentials.parameter(*KEY_NAMES)
        if key is None:
            return _NO_KEY if user is None else _WRONG_USER
        return Deferred.fromCoroutine(self._judge(key, rule, request.host))

    async def _judge(self, key: Secret, rule: Rule, host: str) -> Verdict:
        try:
            return ALLOWED if await self._check.is_right(key, rule, host) else _WRONG_KEY
        except TooBusyError:
            return _TOO_BUSY


def make_keys_file(argument: str, reactor: Any) -> KeysFile:
    """The authorizer for the file of this name."""
    if not argument:
        raise ConfigError("the name of the file is missing: keys-file:PATH is expected")

    def in_thread(function: Any, *arguments: object) -> Deferred[bool]:
        return deferToThreadPool(reactor, reactor.getThreadPool(), function, *arguments)

    # Later, as a daemon, the folder may be another one.
    return KeysFile(Path(argument).absolute(), in_thread, reactor.seconds)


#: Runs a function in a thread.
InThread = Callable[..., "Deferred[bool]"]

#: Hashes that are computed at the same time: each takes a processor, and 16 MiB.
_AT_ONCE = 2
#: Wishes that wait for it, in all and of one host.
_MOST_WAITING = 64
_MOST_FOR_HOST = 8

#: Keys that are remembered, so that an encoder that comes back need not wait behind those who try keys out.
_MOST_KNOWN = 1024
_RIGHT_FOR = 3600.0
#: A wrong one is remembered for a moment: an encoder that has it tries it again every few seconds.
_WRONG_FOR = 30.0


class KeyCheck:
    """Checks keys. Make a new one for other rules: it remembers what it has seen.

    Args:
        seconds: The time now.
        turns: Shared with the check before, whose threads may still be at work.
    """

    def __init__(self, in_thread: InThread, seconds: Callable[[], float], turns: ConcurrencyLimiter) -> None:
        self._in_thread = in_thread
        self._turns = turns
        self._right: AnswerCache[bool] = AnswerCache(_MOST_KNOWN, _RIGHT_FOR, seconds)
        self._wrong: AnswerCache[bool] = AnswerCache(_MOST_KNOWN, _WRONG_FOR, seconds)

    @staticmethod
    def new_turns() -> ConcurrencyLimiter:
        """The line that hashed keys are checked in."""
        return ConcurrencyLimiter(_AT_ONCE, _MOST_WAITING, _MOST_FOR_HOST)

    async def is_right(self, key: Secret, rule: Rule, host: str) -> bool:
        """Whether a key opens this.

        Raises:
            TooBusyError: Too many keys are being checked.
        """
        # All of them, however early one fits: how long it takes says nothing.
        if sum([_same(key, known) for known in rule.keys]):
            return True
        if not rule.hashes:
            return False
        subject = (key.reveal(), *map(str, rule.hashes))
        if self._right.get(*subject):
            return True
        if self._wrong.get(*subject):
            return False
        given_up = threading.Event()
        try:
            right = await self._turns.run(
                host, lambda: self._in_thread(_any_matches, rule.hashes, key, given_up), can_be_stopped=False
            )
        finally:
            given_up.set()
        (self._right if right else self._wrong).put(True, *subject)
        return right


def _same(key: Secret, known: Secret) -> bool:
    first, second = (one.reveal().encode("utf-8", "surrogatepass") for one in (key, known))
    return hmac.compare_digest(first, second)


def _any_matches(hashes: Sequence[ScryptHash], key: Secret, given_up: threading.Event) -> bool:
    """Runs in a thread."""
    return any(not given_up.is_set() and one.matches(key) for one in hashes)
