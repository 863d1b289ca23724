"""`jwt`: whoever brings a signed token may do what it says."""

from __future__ import annotations

import json
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs
import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_text, warn_if_everybody_reads
from rtmprelay.interfaces import IReloadable, IStreamAuthorizer
from rtmprelay.plugin_factories import split_options

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


#: Whoever has a token can try to guess a shorter secret, without asking anybody.
SHORTEST_SECRET = 32

_SMALLEST_RSA = 2048

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

#: What a key of JWK may say of itself, by its kind.
_ALGORITHMS = {
    "oct": {"HS256", "HS384", "HS512"},
    "RSA": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
    "EC": {"ES256", "ES384", "ES512"},
    "OKP": {"EdDSA"},
}

#: Keys in one file: more than one are there while one takes the place of another.
_MOST_KEYS = 16


@attrs.frozen
class VerifyingKey:
    """A key, and the only algorithm that it is good for."""

    key: Any = attrs.field(repr=False)
    algorithm: str
    #: The key's name, if it has one.
    kid: str | None = None

    @property
    def is_secret(self) -> bool:
        """Whether whoever knows the key can make tokens."""
        return self.algorithm.startswith("HS")


def parse_jwt_keys(text: str) -> list[VerifyingKey]:
    """The keys of a file: PEM, JWK, a set of JWK, or the secret itself. No message shows anything of it."""
    stripped = text.strip()
    if "-----BEGIN" in stripped:
        return [_from_pem(stripped.encode())]
    if stripped.startswith("{"):
        return _from_json(stripped)
    if len(stripped.encode()) < SHORTEST_SECRET:
        raise ConfigError(
            f"a secret needs at least {SHORTEST_SECRET} characters: openssl rand -hex 32 makes a good one"
        )
    if "\n" in stripped:
        raise ConfigError("it has several lines: a secret has one, and other keys are written as PEM or JWK")
    return [VerifyingKey(stripped.encode(), "HS256")]


def _from_pem(data: bytes) -> VerifyingKey:
    if b"PRIVATE KEY" in data:
        raise ConfigError("it has a private key in it: the relay needs the public one")
    try:
        if b"BEGIN CERTIFICATE" in data:
            key: Any = load_pem_x509_certificate(data).public_key()
        else:
            key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError("the PEM in it cannot be read as a public key or a certificate") from None
    return VerifyingKey(key, _algorithm_of(key))


def _algorithm_of(key: object) -> str:
    if isinstance(key, RSAPublicKey):
        if key.key_size < _SMALLEST_RSA:
            raise ConfigError(f"its RSA key has {key.key_size} bits: {_SMALLEST_RSA} is the least")
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, Ed25519PublicKey):
        return "EdDSA"
    raise ConfigError("its kind of key is not known: RSA, EC (P-256, P-384, P-521) and Ed25519 are")


def _from_json(text: str) -> list[VerifyingKey]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("it begins like JSON, but is not valid JSON") from None
    entries = document.get("keys", [document])
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_KEYS:
        raise ConfigError(f'"keys" is to be a list of 1 to {_MOST_KEYS} keys')
    keys = [
        _from_jwk(entry, f"key {number}")
        for number, entry in enumerate(entries, 1)
        # What is for encryption signs nothing.
        if not (isinstance(entry, dict) and entry.get("use") == "enc")
    ]
    if not keys:
        raise ConfigError("it has no key that could check a signature")
    return keys


def _from_jwk(entry: object, place: str) -> VerifyingKey:
    if not isinstance(entry, dict) or entry.get("kty") not in _ALGORITHMS:
        raise ConfigError(f"{place}: a JWK whose kty is one of {', '.join(sorted(_ALGORITHMS))} is expected")
    kind = entry["kty"]
    if kind != "oct" and "d" in entry:
        raise ConfigError(f"{place}: this is a private key: the relay needs the public one")
    algorithm, kid = entry.get("alg"), entry.get("kid")
    if algorithm is not None and algorithm not in _ALGORITHMS[kind]:
        raise ConfigError(f"{place}: its alg does not fit its kty")
    if kid is not None and not isinstance(kid, str):
        raise ConfigError(f"{place}: its kid is to be text")
    try:
        # Without an algorithm the library would choose one by kind and curve, as we do below.
        key = jwt.PyJWK.from_dict(entry, algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise ConfigError(f"{place}: it cannot be read") from None
    if kind == "oct":
        algorithm = algorithm or "HS256"
        # As many as the digest has.
        least = int(algorithm[2:]) // 8
        if len(key) < least:
            raise ConfigError(f"{place}: a secret for {algorithm} needs at least {least} bytes")
        return VerifyingKey(key, algorithm, kid)
    found = _algorithm_of(key)
    if kind == "EC" and algorithm not in (None, found):
        raise ConfigError(f"{place}: its alg does not fit its curve")
    return VerifyingKey(key, algorithm or found, kid)
