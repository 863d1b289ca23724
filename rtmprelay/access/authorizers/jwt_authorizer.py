"""`jwt`: whoever brings a signed token may do what it says."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs
import jwt
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.access.authorizers.jwt_keys import VerifyingKey, parse_jwt_keys
from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_text, warn_if_everybody_reads
from rtmprelay.interfaces import IReloadable, IStreamAuthorizer
from rtmprelay.plugin_options import split_options

#: The parameters that a token may come in.
TOKEN_NAMES = ("token", "jwt")

#: Seconds by which clocks may differ.
DEFAULT_LEEWAY = 10.0

#: Real tokens have some hundred characters.
_LONGEST_TOKEN = 8192
#: Patterns or actions in one token.
_MOST_VALUES = 64

_LARGEST_FILE = 65_536

_NO_TOKEN = refused("a token is needed: write ?token=... behind the stream's name")
_INVALID = refused("the token is not valid here")
_EXPIRED = refused("the token has expired")
_TOO_EARLY = refused("the token is not valid yet")
_OTHERWISE = refused("the token is not for this")


@attrs.frozen
class JwtSettings:
    """What a token must say beside what it allows."""

    audience: str | None = None
    issuer: str | None = None
    leeway: float = DEFAULT_LEEWAY


@implementer(IStreamAuthorizer, IReloadable)
class JwtAuthorizer:
    """Allows what tokens say: `action` and `stream`, until `exp`."""

    _log = Logger()

    def __init__(self, path: Path, settings: JwtSettings | None = None) -> None:
        self._path = path
        self._settings = settings or JwtSettings()
        self._keys: list[VerifyingKey] = []
        self._read()

    def _read(self) -> None:
        text = read_text(self._path, _LARGEST_FILE)
        try:
            self._keys = parse_jwt_keys(text)
        except ConfigError as error:
            raise ConfigError(f"{str(self._path)!r}: {error}") from None
        if any(key.is_secret for key in self._keys):
            warn_if_everybody_reads(self._path)

    def reload(self) -> None:
        """Read the file again. Whoever is in stays in."""
        self._read()
        self._log.info("{path} was read again: {keys} keys", path=str(self._path), keys=len(self._keys))

    def authorize(self, request: AccessRequest) -> Verdict:
        """Whether the token allows it."""
        token = request.credentials.parameter(*TOKEN_NAMES)
        if token is None:
            return _NO_TOKEN
        try:
            claims = self._claims(token.reveal())
        except jwt.ExpiredSignatureError:
            return _EXPIRED
        except jwt.ImmatureSignatureError:
            return _TOO_EARLY
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return _INVALID
        actions, streams = _texts(claims.get("action")), _texts(claims.get("stream"))
        fits = request.action.value in actions and any(
            fnmatchcase(request.stream, pattern) for pattern in streams
        )
        return ALLOWED if fits else _OTHERWISE

    def _claims(self, token: str) -> dict[str, Any]:
        """What a token says, if it is signed with one of our keys and its time is right."""
        if len(token) > _LONGEST_TOKEN:
            raise jwt.DecodeError
        header = jwt.get_unverified_header(token)
        for key in self._keys:
            # The header only helps to find the key. What to do with that is the key's business.
            named_otherwise = key.kid is not None and header.get("kid") not in (None, key.kid)
            if header.get("alg") != key.algorithm or named_otherwise:
                continue
            try:
                return self._decode(token, key)
            except jwt.InvalidSignatureError:
                continue
        raise jwt.InvalidSignatureError

    def _decode(self, token: str, key: VerifyingKey) -> dict[str, Any]:
        settings = self._settings
        required = ["exp"]
        if settings.audience is not None:
            required.append("aud")
        if settings.issuer is not None:
            required.append("iss")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm],
            audience=settings.audience,
            issuer=settings.issuer,
            leeway=settings.leeway,
            options={"require": required, "verify_signature": True},
        )
        return claims


def _texts(value: object) -> Collection[str]:
    """A claim that is one text, or a list of them; anything else allows nothing."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and len(value) <= _MOST_VALUES:
        return [one for one in value if isinstance(one, str)]
    return []


def make_jwt_authorizer(argument: str, reactor: object = None) -> JwtAuthorizer:
    """The authorizer for `KEYFILE[#audience=TEXT&issuer=TEXT&leeway=SECONDS]`."""
    path, options = split_options(argument, {"audience", "issuer", "leeway"})
    if not path:
        raise ConfigError("the name of the key file is missing: jwt:KEYFILE is expected")
    settings = JwtSettings(
        audience=options.text("audience"),
        issuer=options.text("issuer"),
        leeway=options.number("leeway", DEFAULT_LEEWAY, 0, 300),
    )
    return JwtAuthorizer(Path(path).absolute(), settings)
