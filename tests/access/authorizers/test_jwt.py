"""Only a token that the configured key signed, with the configured algorithm, allows what it says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.access.authorizers.jwt_authorizer import (
    JwtAuthorizer,
    JwtSettings,
    make_jwt_authorizer,
    parse_jwt_keys,
)
from rtmprelay.access.request import Action, Verdict
from rtmprelay.errors import ConfigError
from tests.access.helpers import access_request
from tests.certificates import self_signed

SECRET = "0123456789abcdef0123456789abcdef"

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE: dict[str, Any] = {
    "RS256": RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def pem(private: Any) -> str:
    data: bytes = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data.decode()


def private_pem(private: Any) -> str:
    data: bytes = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data.decode()


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a good token, with changes; None leaves a claim out."""
    good = {"action": "publish", "stream": "live/*", "exp": time.time() + 60}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., JwtAuthorizer]:
    """Makes an authorizer for a key file."""

    def make(content: str = SECRET, options: str = "") -> JwtAuthorizer:
        path = tmp_path / "key"
        path.write_text(content)
        path.chmod(0o600)
        return make_jwt_authorizer(f"{path}{options}")

    return make


def judge(
    authorizer: JwtAuthorizer, token: str, action: Action = Action.PUBLISH, stream: str = "live/a"
) -> Verdict:
    return authorizer.authorize(access_request(action, stream, f"token={token}"))


Make = Callable[..., JwtAuthorizer]


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_token_signed_with_the_configured_key_is_accepted(make: Make, algorithm: str) -> None:
    authorizer = make(pem(PRIVATE[algorithm]))
    assert judge(authorizer, jwt.encode(claims(), PRIVATE[algorithm], algorithm)).allowed


def test_shared_secret_verifies_hs256_tokens(make: Make) -> None:
    for content in (SECRET, f"{SECRET}\n", f"  {SECRET}  \n"):
        assert judge(make(content), jwt.encode(claims(), SECRET, "HS256")).allowed


def test_certificate_serves_as_a_public_key(make: Make) -> None:
    private, signed = self_signed("auth.example")
    assert judge(make(signed.decode()), jwt.encode(claims(), private, "ES256")).allowed


def test_token_is_read_from_the_parameters_token_and_jwt(make: Make) -> None:
    token = jwt.encode(claims(), SECRET, "HS256")
    for name in ("token", "jwt"):
        assert make().authorize(access_request(query=f"{name}={token}")).allowed
    assert make().authorize(access_request(query=f"key={token}")).reason.startswith("a token is needed")


# -- tokens that must be refused -------------------------------------------------------------------------------------


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (header, claims())
    ]
    return ".".join([*parts, signature])


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, "HS256", "RS256"])
def test_unsigned_token_is_refused(make: Make, algorithm: str | None) -> None:
    for content in (SECRET, pem(RSA)):
        assert not judge(make(content), unsigned({"alg": algorithm, "typ": "JWT"})).allowed


def test_public_key_used_as_hmac_secret_is_refused(make: Make) -> None:
    """The public key is no secret, so it must not verify an HMAC that anybody can compute."""
    public = pem(RSA).encode()
    signed = unsigned({"alg": "HS256", "typ": "JWT"})[:-1]
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    forged = f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    assert not judge(make(pem(RSA)), forged).allowed


def test_another_algorithm_for_the_same_key_is_refused(make: Make) -> None:
    for algorithm in ("RS384", "RS512", "PS256"):
        assert not judge(make(pem(RSA)), jwt.encode(claims(), RSA, algorithm)).allowed
    for algorithm in ("HS384", "HS512"):
        assert not judge(make(), jwt.encode(claims(), SECRET * 2, algorithm)).allowed


def test_token_signed_with_another_key_is_refused(make: Make) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert judge(make(pem(RSA)), jwt.encode(claims(), other, "RS256")).reason == "the token is not valid here"
    assert not judge(make(), jwt.encode(claims(), SECRET[::-1], "HS256")).allowed


def test_altered_token_is_refused(make: Make) -> None:
    authorizer = make()
    token = jwt.encode(claims(action="play"), SECRET, "HS256")
    header, _, signature = token.split(".")
    other = jwt.encode(claims(action="publish"), SECRET, "HS256").split(".")[1]
    assert not judge(authorizer, f"{header}.{other}.{signature}").allowed


@pytest.mark.parametrize(
    "header",
    [{"jku": "http://127.0.0.1:9/"}, {"jwk": {"kty": "oct", "k": "eA"}}, {"x5u": "http://127.0.0.1:9/"}],
)
def test_keys_in_the_token_header_are_ignored(make: Make, header: dict[str, Any]) -> None:
    token = jwt.encode(claims(), "x" * 32, "HS256", headers=header)
    assert not judge(make(), token).allowed


@given(st.text(max_size=200))
def test_any_text_is_refused_without_an_error(text: str) -> None:
    authorizer = JwtAuthorizer.__new__(JwtAuthorizer)
    authorizer._settings, authorizer._keys = JwtSettings(), parse_jwt_keys(SECRET)
    assert not judge(authorizer, text).allowed


def test_token_over_the_length_limit_is_refused(make: Make) -> None:
    token = jwt.encode(claims(padding="x" * 9000), SECRET, "HS256")
    assert not judge(make(), token).allowed


# -- claims ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "action", "stream", "allowed"),
    [
        ({}, Action.PUBLISH, "live/a", True),
        ({}, Action.PLAY, "live/a", False),
        ({}, Action.PUBLISH, "other/a", False),
        ({"action": ["publish", "play"]}, Action.PLAY, "live/a", True),
        ({"action": "*"}, Action.PLAY, "live/a", False),
        ({"action": "publish play"}, Action.PLAY, "live/a", False),
        ({"action": None}, Action.PUBLISH, "live/a", False),
        ({"action": True}, Action.PUBLISH, "live/a", False),
        ({"action": []}, Action.PUBLISH, "live/a", False),
        ({"action": [["publish"]]}, Action.PUBLISH, "live/a", False),
        ({"stream": None}, Action.PUBLISH, "live/a", False),
        ({"stream": "live/a"}, Action.PUBLISH, "live/a", True),
        ({"stream": "live/a"}, Action.PUBLISH, "live/ab", False),
        ({"stream": ["x/*", "live/a"]}, Action.PUBLISH, "live/a", True),
        ({"stream": {"live/a": 1}}, Action.PUBLISH, "live/a", False),
        ({"stream": ["*"] * 65}, Action.PUBLISH, "live/a", False),
    ],
)
def test_claims_decide_about_action_and_stream(
    make: Make, changes: dict[str, Any], action: Action, stream: str, allowed: bool
) -> None:
    verdict = judge(make(), jwt.encode(claims(**changes), SECRET, "HS256"), action, stream)
    assert verdict.allowed is allowed
    assert allowed or verdict.reason == "the token does not allow this"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": -60}, "the token has expired"),
        ({"exp": None}, "the token is not valid here"),
        ({"exp": "tomorrow"}, "the token is not valid here"),
        ({"nbf": 60}, "the token is not valid yet"),
        ({"iat": 60}, "the token is not valid yet"),
        # Clocks may differ by 10 s.
        ({"exp": -5}, ""),
        ({"nbf": 5}, ""),
        ({"iat": 5}, ""),
        ({"nbf": -60, "iat": -60}, ""),
    ],
)
def test_token_is_valid_only_in_its_time_plus_leeway(
    make: Make, changes: dict[str, Any], reason: str
) -> None:
    now = time.time()
    changed = {name: now + value if isinstance(value, int) else value for name, value in changes.items()}
    assert judge(make(), jwt.encode(claims(**changed), SECRET, "HS256")).reason == reason


def test_leeway_zero_refuses_a_token_that_has_just_expired(make: Make) -> None:
    token = jwt.encode(claims(exp=time.time() - 3), SECRET, "HS256")
    assert judge(make(), token).allowed
    assert not judge(make(options="#leeway=0"), token).allowed


@pytest.mark.parametrize(
    ("options", "changes", "allowed"),
    [
        ("#audience=relay", {"aud": "relay"}, True),
        ("#audience=relay", {"aud": ["other", "relay"]}, True),
        ("#audience=relay", {"aud": "other"}, False),
        ("#audience=relay", {}, False),
        ("", {"aud": "other"}, False),
        ("#issuer=us", {"iss": "us"}, True),
        ("#issuer=us", {"iss": "them"}, False),
        ("#issuer=us", {}, False),
        ("", {"iss": "them"}, True),
        ("#issuer=us&audience=relay", {"iss": "us", "aud": "relay"}, True),
    ],
)
def test_audience_and_issuer_must_match_if_configured(
    make: Make, options: str, changes: dict[str, Any], allowed: bool
) -> None:
    token = jwt.encode(claims(**changes), SECRET, "HS256")
    assert judge(make(options=options), token).allowed is allowed


# -- the key file --------------------------------------------------------------------------------------------------


def jwk(key: Any, algorithm: str, **more: Any) -> dict[str, Any]:
    kinds = jwt.algorithms.get_default_algorithms()
    document: dict[str, Any] = json.loads(kinds[algorithm].to_jwk(key))
    document.pop("key_ops", None)
    return {**document, **more}


def test_key_of_a_set_is_chosen_by_its_id(make: Make) -> None:
    first, second = PRIVATE["ES256"], ec.generate_private_key(ec.SECP256R1())
    keys = [
        jwk(first.public_key(), "ES256", kid="first"),
        jwk(second.public_key(), "ES256", kid="second"),
        jwk(RSA.public_key(), "RS256", use="enc", alg="RSA-OAEP"),
    ]
    authorizer = make(json.dumps({"keys": keys}))
    assert judge(authorizer, jwt.encode(claims(), first, "ES256", headers={"kid": "first"})).allowed
    assert judge(authorizer, jwt.encode(claims(), second, "ES256", headers={"kid": "second"})).allowed
    assert judge(authorizer, jwt.encode(claims(), second, "ES256")).allowed
    assert not judge(authorizer, jwt.encode(claims(), second, "ES256", headers={"kid": "first"})).allowed
    assert not judge(authorizer, jwt.encode(claims(), RSA, "RS256")).allowed


def test_single_jwk_of_each_kind_is_accepted(make: Make) -> None:
    for algorithm, key in PRIVATE.items():
        authorizer = make(json.dumps(jwk(key.public_key(), algorithm)))
        assert judge(authorizer, jwt.encode(claims(), key, algorithm)).allowed, algorithm
    longer = jwk(RSA.public_key(), "RS256", alg="RS512")
    assert judge(make(json.dumps(longer)), jwt.encode(claims(), RSA, "RS512")).allowed
    assert not judge(make(json.dumps(longer)), jwt.encode(claims(), RSA, "RS256")).allowed
    long_secret = SECRET * 2
    encoded = base64.urlsafe_b64encode(long_secret.encode()).decode().rstrip("=")
    shared = {"kty": "oct", "k": encoded, "alg": "HS512"}
    assert judge(make(json.dumps(shared)), jwt.encode(claims(), long_secret, "HS512")).allowed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a secret needs at least 32 characters"),
        ("MARKED", "a secret needs at least 32 characters"),
        ("MARKED" * 6 + "\nMARKED", "it has several lines"),
        ("-----BEGIN PUBLIC KEY-----\nMARKED\n-----END PUBLIC KEY-----", "its PEM cannot be read"),
        ("-----BEGIN CERTIFICATE-----\nMARKED\n-----END CERTIFICATE-----", "its PEM cannot be read"),
        (private_pem(RSA), "it contains a private key: the relay needs the public one"),
        (pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)), "its RSA key has 1024 bits"),
        (pem(x25519.X25519PrivateKey.generate()), "this kind of key is not supported"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "this kind of key is not supported"),
        ("{MARKED", "it begins like JSON, but is not valid JSON"),
        ('{"keys": []}', '"keys" must be a list of 1 to 16 keys'),
        ('{"keys": {}}', '"keys" must be a list'),
        ('{"keys": [7]}', "key 1: a JWK whose kty is one of EC, OKP, RSA, oct is expected"),
        ('{"kty": "oct"}', "key 1: it cannot be read"),
        ('{"kty": "oct", "k": "TUFSS0VE"}', "key 1: a secret for HS256 needs at least 32 bytes"),
        ('{"kty": "EC", "crv": "P-256"}', "key 1: it cannot be read"),
        ('{"kty": "RSA", "d": "MARKED"}', "key 1: this is a private key"),
        ('{"kty": "oct", "alg": "RS256", "k": "eA"}', "key 1: its alg does not fit its kty"),
        ('{"kty": "oct", "alg": "none", "k": "eA"}', "key 1: its alg does not fit its kty"),
        ('{"keys": [{"kty": "RSA", "use": "enc"}]}', "none of its keys is for signatures"),
    ],
)
def test_bad_key_file_is_refused_without_showing_its_content(make: Make, content: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(content)
    assert message in str(caught.value)
    assert "MARKED" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jwk_whose_alg_does_not_fit_its_curve_is_refused(make: Make) -> None:
    wrong = jwk(PRIVATE["ES256"].public_key(), "ES256", alg="ES384")
    with pytest.raises(ConfigError, match="key 1: "):
        make(json.dumps(wrong))


def test_missing_file_and_unknown_option_are_refused() -> None:
    with pytest.raises(ConfigError, match="the name of the key file is missing"):
        make_jwt_authorizer("")
    with pytest.raises(ConfigError, match="'/nowhere/key' cannot be read: No such file"):
        make_jwt_authorizer("/nowhere/key")
    with pytest.raises(ConfigError, match="unknown option 'alg'; known options: audience, issuer, leeway"):
        make_jwt_authorizer("/nowhere/key#alg=none")


def test_reload_applies_a_good_file_and_ignores_a_bad_one(make: Make, tmp_path: Path) -> None:
    authorizer = make()
    old = jwt.encode(claims(), SECRET, "HS256")
    (tmp_path / "key").write_text(pem(RSA))
    authorizer.reload()
    assert not judge(authorizer, old).allowed
    assert judge(authorizer, jwt.encode(claims(), RSA, "RS256")).allowed
    (tmp_path / "key").write_text("short")
    with pytest.raises(ConfigError):
        authorizer.reload()
    assert judge(authorizer, jwt.encode(claims(), RSA, "RS256")).allowed


def test_repr_does_not_show_the_secret(make: Make) -> None:
    authorizer = make()
    assert SECRET not in repr(authorizer) + repr(vars(authorizer))
