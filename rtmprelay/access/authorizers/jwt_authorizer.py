"""The `jwt` authorizer: a signed token says what its bearer may do.

The key file decides which key and which algorithm a token must be signed with. The token's own header only helps to
find the key: a token that could choose its algorithm could choose a weak one.
"""

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

#: The query parameters that may contain a token.
TOKEN_NAMES = ("token", "jwt")

#: Seconds by which the clocks of the relay and of the token's issuer may differ.
DEFAULT_LEEWAY = 10.0

#: Shorter secrets can be guessed offline by anybody who has a token.
SHORTEST_SECRET = 32

#: Real tokens have some hundred characters.
_MAX_TOKEN = 8192
#: Patterns or actions in one token.
_MAX_VALUES = 64

#: Keys in one file. During a key rotation there are two.
_MAX_KEYS = 16
_MIN_RSA_BITS = 2048

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

#: The algorithms that a JWK may name, by its key type.
_ALGORITHMS = {
    "oct": {"HS256", "HS384", "HS512"},
    "RSA": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
    "EC": {"ES256", "ES384", "ES512"},
    "OKP": {"EdDSA"},
}

_NO_TOKEN = refused("a token is needed: write ?token=... after the stream's name")
_INVALID = refused("the token is not valid here")
_EXPIRED = refused("the token has expired")
_TOO_EARLY = refused("the token is not valid yet")
_NOT_COVERED = refused("the token does not allow this")


@attrs.frozen
class VerifyingKey:
    """A key, and the only algorithm that it may be used with."""

    key: Any = attrs.field(repr=False)
    algorithm: str
    #: The key ID, if the key has one.
    kid: str | None = None

    @property
    def is_secret(self) -> bool:
        """Whether the key can sign tokens as well as verify them."""
        return self.algorithm.startswith("HS")


@attrs.frozen
class JwtSettings:
    """What a token must say besides what it allows."""

    audience: str | None = None
    issuer: str | None = None
    leeway: float = DEFAULT_LEEWAY


@implementer(IStreamAuthorizer, IReloadable)
class JwtAuthorizer:
    """Allows what a token says in `action` and `stream`, until `exp`."""

    _log = Logger()

    def __init__(self, path: Path, settings: JwtSettings | None = None) -> None:
        self._path = path
        self._settings = settings or JwtSettings()
        self._keys: list[VerifyingKey] = []
        self._read()

    def _read(self) -> None:
        text = read_text(self._path)
        try:
            self._keys = parse_jwt_keys(text)
        except ConfigError as error:
            raise ConfigError(f"{str(self._path)!r}: {error}") from None
        if any(key.is_secret for key in self._keys):
            warn_if_everybody_reads(self._path)

    def reload(self) -> None:
        """Read the key file again. Clients that are connected stay connected."""
        self._read()
        self._log.info("{path} was read again: {keys} keys", path=str(self._path), keys=len(self._keys))

    def authorize(self, request: AccessRequest) -> Verdict:
        token = request.credentials.parameter(*TOKEN_NAMES)
        if token is None:
            return _NO_TOKEN
        try:
            claims = self._verified_claims(token.reveal())
        except jwt.ExpiredSignatureError:
            return _EXPIRED
        except jwt.ImmatureSignatureError:
            return _TOO_EARLY
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return _INVALID
        if request.action.value not in _texts(claims.get("action")):
            return _NOT_COVERED
        patterns = _texts(claims.get("stream"))
        return ALLOWED if any(fnmatchcase(request.stream, one) for one in patterns) else _NOT_COVERED

    def _verified_claims(self, token: str) -> dict[str, Any]:
        """The claims of a token that is signed with one of our keys and valid now."""
        if len(token) > _MAX_TOKEN:
            raise jwt.DecodeError
        header = jwt.get_unverified_header(token)
        for key in self._keys:
            other_kid = key.kid is not None and header.get("kid") not in (None, key.kid)
            if header.get("alg") != key.algorithm or other_kid:
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


def _texts(claim: object) -> Collection[str]:
    """The values of a claim that is one text or a list of them; any other claim has none and so allows nothing."""
    if isinstance(claim, str):
        return [claim]
    if isinstance(claim, list) and len(claim) <= _MAX_VALUES:
        return [one for one in claim if isinstance(one, str)]
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


# -- the key file ------------------------------------------------------------------------------------------------


def parse_jwt_keys(text: str) -> list[VerifyingKey]:
    """The keys of a file: PEM, a JWK, a set of JWKs, or the secret itself. Error messages contain nothing of it."""
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
        raise ConfigError("it contains a private key: the relay needs the public one")
    try:
        if b"BEGIN CERTIFICATE" in data:
            key: Any = load_pem_x509_certificate(data).public_key()
        else:
            key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError("its PEM cannot be read as a public key or a certificate") from None
    return VerifyingKey(key, _algorithm_of(key))


def _algorithm_of(key: object) -> str:
    if isinstance(key, RSAPublicKey):
        if key.key_size < _MIN_RSA_BITS:
            raise ConfigError(f"its RSA key has {key.key_size} bits: at least {_MIN_RSA_BITS} are needed")
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, Ed25519PublicKey):
        return "EdDSA"
    raise ConfigError("this kind of key is not supported: RSA, EC (P-256, P-384, P-521) and Ed25519 are")


def _from_json(text: str) -> list[VerifyingKey]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("it begins like JSON, but is not valid JSON") from None
    entries = document.get("keys", [document])
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MAX_KEYS:
        raise ConfigError(f'"keys" must be a list of 1 to {_MAX_KEYS} keys')
    keys = [
        _from_jwk(entry, f"key {number}")
        for number, entry in enumerate(entries, 1)
        # Keys for encryption do not sign.
        if not (isinstance(entry, dict) and entry.get("use") == "enc")
    ]
    if not keys:
        raise ConfigError("none of its keys is for signatures")
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
        raise ConfigError(f"{place}: its kid must be text")
    try:
        # Without an algorithm PyJWT would choose one by kind and curve, as we do below.
        key = jwt.PyJWK.from_dict(entry, algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise ConfigError(f"{place}: it cannot be read") from None
    if kind == "oct":
        return _shared_secret(key, algorithm or "HS256", kid, place)
    found = _algorithm_of(key)
    if kind == "EC" and algorithm not in (None, found):
        raise ConfigError(f"{place}: its alg does not fit its curve")
    return VerifyingKey(key, algorithm or found, kid)


def _shared_secret(key: bytes, algorithm: str, kid: str | None, place: str) -> VerifyingKey:
    # RFC 7518, 3.2: the secret must be at least as long as the digest.
    least = int(algorithm.removeprefix("HS")) // 8
    if len(key) < least:
        raise ConfigError(f"{place}: a secret for {algorithm} needs at least {least} bytes")
    return VerifyingKey(key, algorithm, kid)
