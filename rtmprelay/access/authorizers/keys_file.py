"""The `keys-file` authorizer: a JSON file says who may publish and play."""

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

#: The query parameters that may contain a key.
KEY_NAMES = ("key", "token")

#: Hashes that are computed at once: each takes a processor and 16 MiB.
_MAX_RUNNING = 2
#: Checks that wait for that, in all and per host.
_MAX_WAITING = 64
_MAX_PER_HOST = 8

#: Checked keys that are remembered. An encoder that reconnects need not queue up with those that guess keys.
_MAX_REMEMBERED = 1024
_REMEMBER_RIGHT = 3600.0
#: An encoder with a wrong key tries it again every few seconds.
_REMEMBER_WRONG = 30.0

# A stream that no pattern matches gets the same answers, so that nobody can find out which patterns there are.
_NO_KEY = refused("a key is needed: write ?key=... after the stream's name")
_WRONG_KEY = refused("the key is wrong, or not for this stream")
_WRONG_USER = refused("this user may not do that")
_TOO_BUSY = refused("too many keys are being checked at the moment; try again later")

#: Runs a function in a thread.
InThread = Callable[..., "Deferred[bool]"]


def new_limiter() -> ConcurrencyLimiter:
    """Bounds how many hashes are computed at once."""
    return ConcurrencyLimiter(_MAX_RUNNING, _MAX_WAITING, _MAX_PER_HOST)


class KeyCheck:
    """Checks keys and remembers the results. When the rules change, make a new one.

    Args:
        seconds: Returns the current time.
        limiter: Shared with the check for the rules before, whose threads may still be running.
    """

    def __init__(
        self, in_thread: InThread, seconds: Callable[[], float], limiter: ConcurrencyLimiter
    ) -> None:
        self._in_thread = in_thread
        self._limiter = limiter
        self._right: AnswerCache[bool] = AnswerCache(_MAX_REMEMBERED, _REMEMBER_RIGHT, seconds)
        self._wrong: AnswerCache[bool] = AnswerCache(_MAX_REMEMBERED, _REMEMBER_WRONG, seconds)

    async def is_right(self, key: Secret, rule: Rule, host: str) -> bool:
        """Whether a rule has this key. Hashes are computed in a thread.

        Raises:
            TooBusyError: Too many checks are waiting.
        """
        # Every key is compared, so that the time taken does not tell which one matched.
        matches = [_same(key, known) for known in rule.keys]
        if any(matches):
            return True
        if not rule.hashes:
            return False
        question = (key.reveal(), *map(str, rule.hashes))
        if self._right.get(*question):
            return True
        if self._wrong.get(*question):
            return False
        cancelled = threading.Event()
        try:
            right = await self._limiter.run(
                host,
                lambda: self._in_thread(_any_matches, rule.hashes, key, cancelled),
                can_be_stopped=False,
            )
        finally:
            cancelled.set()
        (self._right if right else self._wrong).put(True, *question)
        return right


def _same(key: Secret, known: Secret) -> bool:
    first, second = (one.reveal().encode("utf-8", "surrogatepass") for one in (key, known))
    return hmac.compare_digest(first, second)


def _any_matches(hashes: Sequence[ScryptHash], key: Secret, cancelled: threading.Event) -> bool:
    """Runs in a thread."""
    return any(not cancelled.is_set() and one.matches(key) for one in hashes)


@implementer(IStreamAuthorizer, IUserDirectory, IReloadable)
class KeysFile:
    """Allows clients that send one of the file's keys, and users whom the file names.

    Args:
        in_thread: Runs a function in a thread.
        seconds: Returns the current time.
    """

    _log = Logger()

    def __init__(self, path: Path, in_thread: InThread, seconds: Callable[[], float]) -> None:
        self._path = path
        self._in_thread = in_thread
        self._seconds = seconds
        self._limiter = new_limiter()
        self._rules = KeysRules(())
        self._check = KeyCheck(in_thread, seconds, self._limiter)
        self._read()

    def _read(self) -> None:
        text = read_text(self._path)
        try:
            self._rules = parse_keys(text)
        except ConfigError as error:
            raise ConfigError(f"{str(self._path)!r}: {error}") from None
        self._check = KeyCheck(self._in_thread, self._seconds, self._limiter)
        warn_if_everybody_reads(self._path)

    def reload(self) -> None:
        """Read the file again. Clients that are connected stay connected."""
        self._read()
        self._log.info(
            "{path} was read again: {streams} patterns, {users} users",
            path=str(self._path),
            streams=len(self._rules.streams),
            users=len(self._rules.users),
        )

    # -- users -----------------------------------------------------------------------------------------------

    def wants_user(self, app: str) -> bool:
        """Whether clients must log in when they open this application."""
        return self._rules.wants_user(app)

    def password_of(self, user: str) -> Secret | None:
        """The password of a user; None if there is no such user."""
        return self._rules.users.get(user)

    # -- streams ---------------------------------------------------------------------------------------------

    def authorize(self, request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """Whether the first rule that matches the stream allows the request."""
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
    if not argument:
        raise ConfigError("the name of the file is missing: keys-file:PATH is expected")

    def in_thread(function: Any, *arguments: object) -> Deferred[bool]:
        return deferToThreadPool(reactor, reactor.getThreadPool(), function, *arguments)

    # Absolute, because twistd changes its directory when it becomes a daemon, and SIGHUP reads the file again.
    return KeysFile(Path(argument).absolute(), in_thread, reactor.seconds)
