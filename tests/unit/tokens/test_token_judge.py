"""Tokens that are taken, and a table of those that are not, signed by keys made here."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, TokenRefusal
from kbroker.tokens.key_set import ALGORITHMS, KeySet
from kbroker.tokens.token_claims import ExpectedClaims
from kbroker.tokens.token_judge import KID_CHARS_MAX, SignedTokenJudge

NOW_S = 1_800_000_000
ISSUER, AUDIENCE = "https://issuer", "kafka"
RSA_KEY, EC_KEY = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
ED_KEY, WEAK_KEY = ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 1024)
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": NOW_S - 5, "exp": NOW_S + 60}
EXPECTED = ExpectedClaims(issuer=ISSUER, audiences=frozenset({AUDIENCE, "other"}))
PUBLIC_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(algorithm: str, key: Any, **fields: object) -> dict[str, Any]:
    shown = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {name: value for name, value in {**shown, **fields}.items() if value is not None}


KEYS = [
    jwk("RS256", RSA_KEY, kid="rsa", use="sig"),
    jwk("ES256", EC_KEY, kid="ec", alg="ES256"),
    jwk("EdDSA", ED_KEY, kid="ed"),
    jwk("RS256", WEAK_KEY, kid="weak"),
    jwk("ES256", EC_KEY, kid="for-encryption", use="enc"),
    jwk("ES256", EC_KEY, kid="of-another-algorithm", alg="ES384"),
    {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
    {"kty": "RSA", "kid": "no-number", "n": 7, "e": "AQAB"},
    {"kty": ["RSA"], "kid": "no-kind"},
    "no key at all",
]
JUDGE = SignedTokenJudge(KeySet.parse(json.dumps({"keys": KEYS})), EXPECTED, lambda: NOW_S * 1000)


def token(
    claims: dict[str, Any] = CLAIMS, key: Any = RSA_KEY, algorithm: str = "RS256", **header: Any
) -> str:
    fields = {"alg": algorithm, "kid": "rsa", **header}
    named = {name: value for name, value in fields.items() if value is not None}
    signing = jwt.get_algorithm_by_name(algorithm)
    return compact(json.dumps(named), json.dumps(claims), lambda text: signing.sign(text, key))


def compact(header: str, claims: str, sign: Callable[[bytes], bytes]) -> str:
    signed = f"{url64(header.encode())}.{url64(claims.encode())}"
    return f"{signed}.{url64(sign(signed.encode()))}"


def url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def judged(text: str) -> Identity | TokenRefusal:
    return JUDGE(BearerLogin(text))


def raw(header: object, claims: str = json.dumps(CLAIMS), secret: bytes = b"") -> str:
    """A token with an HMAC of the secret as its signature, or without any."""
    text = header if isinstance(header, str) else json.dumps(header)
    return compact(
        text, claims, lambda signed: hmac.digest(secret, signed, "sha256") if secret else b""
    )


def without(name: str) -> str:
    return token({key: value for key, value in CLAIMS.items() if key != name})


def but(**claims: object) -> str:
    return token({**CLAIMS, **claims})


@pytest.mark.parametrize(
    ("text", "expires_at_s"),
    [
        (token(), 60),
        (token(algorithm="PS512"), 60),
        (token(key=EC_KEY, algorithm="ES256", kid="ec"), 60),
        (token(key=EC_KEY, algorithm="ES256", kid=None), 60),  # the only one that fits
        (token(key=ED_KEY, algorithm="EdDSA", kid="ed", jku="https://elsewhere", typ=None), 60),
        (but(aud=["x", "other"], scope="a b", nbf=NOW_S + 29.5), 60),
        (but(sub=" ann ", scope=["a", "b"], iat=NOW_S + 29), 60),
        (but(exp=NOW_S - 29), 1),  # the session of what is taken for the clocks' sake ends too
    ],
)
def test_a_token_of_the_issuer_lets_its_user_in_until_it_ends(text: str, expires_at_s: int) -> None:
    assert judged(text) == Identity("ann", expires_at_ms=(NOW_S + expires_at_s) * 1000)


BAD_TOKENS = [
    ("a", "not a JSON web token of three parts"),
    (token() + ".x", "not a JSON web token of three parts"),
    ("*.e30.", "header is not JSON in base64"),
    (raw("7"), "header is not an object"),
    (raw('{"alg":' + "[" * 10_000), "header is not JSON"),
    (raw({"alg": "none"}), "algorithm is 'none', allowed are RS256"),
    (raw({"alg": "NoNe"}, secret=b"x"), "algorithm is 'NoNe'"),
    (raw({"alg": ["RS256"]}), "algorithm is ['RS256']"),
    (raw({}), "algorithm is missing"),
    (raw({"alg": "HS256", "kid": "rsa"}, secret=PUBLIC_PEM), "algorithm is 'HS256'"),
    (raw({"alg": "HS256", "kid": "secret"}, secret=b"secret"), "algorithm is 'HS256'"),
    (raw({"alg": "RS256", "kid": "rsa"}, secret=PUBLIC_PEM), "its signature is wrong"),
    (raw({"alg": "ES256", "kid": "ec"}, secret=b"x"), "its signature is wrong"),
    (token().rpartition(".")[0] + ".", "its signature is wrong"),
    (token(key=rsa.generate_private_key(65537, 2048)), "its signature is wrong"),
    (token(key=EC_KEY, algorithm="ES256"), "no key 'rsa' of its issuer for ES256"),
    (token(kid="unknown"), "no key 'unknown' of its issuer"),
    (token(kid="no-number"), "no key 'no-number'"),
    (token(key=WEAK_KEY, kid="weak"), "no key 'weak'"),
    (token(key=EC_KEY, algorithm="ES256", kid="for-encryption"), "no key 'for-encryption'"),
    (token(key=EC_KEY, algorithm="ES256", kid="of-another-algorithm"), "no key 'of-another"),
    (token(kid="k" * 1_000_000), f"kid is not a name of at most {KID_CHARS_MAX}"),
    (raw({"alg": "RS256", "kid": 7}), "kid is not a name"),
    (raw({"alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": False}), "understood (crit)"),
    (raw({"alg": "RS256"}, "[" * 10_000), "claims is not JSON"),
    (but(iss="https://other"), "its issuer is 'https://other', not https://issuer"),
    (but(iss=f"{ISSUER}/"), "its issuer is"),
    (without("iss"), "its issuer is missing"),
    (but(aud="another"), "its audience is 'another', not"),
    (but(aud=[]), "its audience is [], not"),
    (but(aud={"kafka": 1}), "its aud is not a text or a list of texts"),
    (without("aud"), "its audience is missing"),
    (but(exp=NOW_S - 30), "it has expired 30 s ago"),
    (but(exp="tomorrow"), "its exp is not a time"),
    (but(exp=True), "its exp is not a time"),
    (but(exp=10**400), "its exp is not a time"),
    (but(exp=float("nan")), "its exp is not a time"),
    (but(exp=-1), "its exp is not a time"),
    (without("exp"), "does not say when it ends"),
    (but(nbf=NOW_S + 31), "it begins in 31 s (nbf)"),
    (but(iat=NOW_S + 31), "it begins in 31 s (iat)"),
    (without("iat"), "does not say when it was issued"),
    (without("sub"), "it names no user (sub)"),
    (but(sub=" "), "it names no user (sub)"),
    (but(sub=["ann"]), "it names no user (sub)"),
    (but(sub="an\nn"), "it names no user (sub)"),
    (but(sub="\ud800"), "it names no user (sub)"),
    (but(scope=7), "its scope is not a text or a list"),
    (but(scope=["a", ""]), "its scope is not a text or a list"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_TOKENS, ids=[each[1][:40] for each in BAD_TOKENS])
def test_a_token_that_is_not_good_is_refused_with_a_reason_that_does_not_hold_it(
    text: str, reason: str
) -> None:
    verdict = judged(text)

    assert isinstance(verdict, TokenRefusal)
    assert reason in verdict.reason
    assert len(verdict.reason) < 300
    assert verdict.as_json() == '{"status": "invalid_token"}'


def test_of_two_keys_that_fit_none_is_guessed() -> None:
    keys = KeySet.parse(json.dumps({"keys": [*KEYS[:1], jwk("RS256", RSA_KEY)]}))

    assert keys.find(None, "RS256") is None
    assert keys.find("rsa", "RS256") is not None
    assert all(keys.find("rsa", name) is None for name in ALGORITHMS if name[0] not in "RP")


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "{}", '{"keys": {}}', '{"keys": [7]}', "[" * 10_000]
)
def test_what_holds_no_key_that_signs_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a set of JSON web keys|no public key for"):
        KeySet.parse(text)
