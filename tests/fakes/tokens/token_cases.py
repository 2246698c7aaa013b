"""Tokens that are taken and tokens that are refused, at a given time, signed by keys made here."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCES = "https://issuer", ("kafka", "other")
RSA_KEY, EC_KEY = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(65537, 2048)
ED_KEY, WEAK_KEY = ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 1024)
PUBLIC_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
SECRET = b"of 32 bytes, which HS256 asks for"


def jwk(algorithm: str, key: Any, **fields: object) -> dict[str, Any]:
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True), **fields}


def url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


KEYS = [
    jwk("RS256", RSA_KEY, kid="rsa", use="sig"),
    jwk("ES256", EC_KEY, kid="ec", alg="ES256"),
    jwk("EdDSA", ED_KEY, kid="ed"),
    jwk("RS256", WEAK_KEY, kid="weak"),
    jwk("ES256", EC_KEY, kid="for-encryption", use="enc"),
    jwk("ES256", EC_KEY, kid="of-another-algorithm", alg="ES384"),
    {"kty": "oct", "kid": "secret", "k": url64(SECRET)},
]
ODD_KEYS = [
    {"kty": "RSA", "kid": "no-number", "n": 7, "e": "AQAB"},
    {"kty": ["RSA"], "kid": "no-kind"},
    "no key at all",
]


class TokenCases:
    """Tokens at a time in seconds. Their user is ann, their keys are `KEYS`."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s
        self.claims = {
            "iss": ISSUER, "aud": AUDIENCES[0], "sub": "ann", "iat": now_s - 5, "exp": now_s + 60
        }  # fmt: skip

    def good(self) -> dict[str, tuple[str, int]]:
        """The tokens that are taken, and for how many seconds from now."""
        token, but = self._token, self._but
        return {
            "RSA": (token(), 60),
            "RSA-PSS": (token(algorithm="PS512"), 60),
            "elliptic": (token(key=EC_KEY, algorithm="ES256", kid="ec"), 60),
            "without a kid": (token(key=EC_KEY, algorithm="ES256", kid=None), 60),
            "Edwards": (token(key=ED_KEY, algorithm="EdDSA", kid="ed"), 60),
            "names other keys": (token(jku="https://elsewhere", jwk=KEYS[1]), 60),
            "begins soon": (but(nbf=self.now_s + 29.5), 60),
            "issued soon": (but(iat=self.now_s + 29), 60),
            # the session of what is taken for the clocks' sake ends too
            "has ended lately": (but(exp=self.now_s - 25), 5),
            "several audiences": (but(aud=["x", "other"]), 60),
            "a scope": (but(scope="a b"), 60),
            "scopes": (but(scope=["a", "b"]), 60),
            "blanks around the name": (but(sub=" ann "), 60),
        }

    def bad(self) -> dict[str, tuple[str, str]]:
        """The tokens that are refused, and a part of the reason."""
        return {**self._of_bad_form(), **self._of_bad_keys(), **self._of_bad_claims()}

    def _of_bad_form(self) -> dict[str, tuple[str, str]]:
        raw, token = self._raw, self._token
        return {
            "one part": ("a", "not a JSON web token of three parts"),
            "four parts": (token() + ".x", "not a JSON web token of three parts"),
            "header is not base64": ("*.e30.", "header is not JSON in base64"),
            "header is a number": (raw("7"), "header is not an object"),
            "header is deep": (raw('{"alg":' + "[" * 10_000), "header is not JSON"),
            "claims are deep": (raw({"alg": "RS256"}, "[" * 10_000), "claims is not JSON"),
            "none": (raw({"alg": "none"}), "algorithm is 'none', allowed are RS256"),
            "NoNe": (raw({"alg": "NoNe"}, secret=b"x"), "algorithm is 'NoNe'"),
            "algorithms": (raw({"alg": ["RS256"]}), "algorithm is ['RS256']"),
            "no algorithm": (raw({}), "algorithm is missing"),
            "critical": (
                token(crit=["x"], x=1),
                "its header has to be understood (crit) and is not",
            ),
        }

    def _of_bad_keys(self) -> dict[str, tuple[str, str]]:
        raw, token = self._raw, self._token
        of_ec = {"key": EC_KEY, "algorithm": "ES256"}
        hs256 = "algorithm is 'HS256'"
        return {
            "HS256 by the public key": (raw({"alg": "HS256", "kid": "rsa"}, secret=PUBLIC_PEM), hs256),
            "HS256 by a published secret": (raw({"alg": "HS256", "kid": "secret"}, secret=SECRET), hs256),
            "HMAC as RS256": (raw({"alg": "RS256", "kid": "rsa"}, secret=PUBLIC_PEM), "signature is wrong"),
            "HMAC as ES256": (raw({"alg": "ES256", "kid": "ec"}, secret=b"x"), "signature is wrong"),
            "no signature": (token().rpartition(".")[0] + ".", "signature is wrong"),
            "another key": (token(key=OTHER_KEY), "signature is wrong"),
            "key of another kind": (token(**of_ec), "no key 'rsa' of its issuer for ES256"),
            "unknown kid": (token(kid="unknown"), "no key 'unknown' of its issuer"),
            "kid of an odd key": (token(kid="no-number"), "no key 'no-number'"),
            "weak key": (token(key=WEAK_KEY, kid="weak"), "no key 'weak'"),
            "key for encryption": (token(**of_ec, kid="for-encryption"), "no key 'for-encryption'"),
            "key of another algorithm": (token(**of_ec, kid="of-another-algorithm"), "no key 'of-a"),
            "kid of 1 MB": (token(kid="k" * 1_000_000), "kid is not a name of at most 1000"),
            "kid of 1001 characters": (token(kid="k" * 1_001), "kid is not a name of at most 1000"),
            "kid is a number": (raw({"alg": "RS256", "kid": 7}), "kid is not a name"),
        }  # fmt: skip

    def _of_bad_claims(self) -> dict[str, tuple[str, str]]:
        but, without, now_s = self._but, self._without, self.now_s
        return {
            "another issuer": (but(iss="https://other"), "its issuer is 'https://other', not"),
            "nearly the issuer": (but(iss=f"{ISSUER}/"), "its issuer is"),
            "no issuer": (without("iss"), "its issuer is missing"),
            "another audience": (but(aud="another"), "its audience is 'another', not"),
            "empty audience": (but(aud=[]), "its audience is [], not"),
            "audience of another type": (but(aud={"kafka": 1}), "its aud is not a text or a list"),
            "no audience": (without("aud"), "its audience is missing"),
            "expired": (but(exp=now_s - 40), "it has expired 40 s ago"),
            "exp is a text": (but(exp="tomorrow"), "its exp is not a time"),
            "exp is true": (but(exp=True), "its exp is not a time"),
            "exp is huge": (but(exp=10**400), "its exp is not a time"),
            "exp is not a number": (but(exp=float("nan")), "its exp is not a time"),
            "exp is negative": (but(exp=-1), "its exp is not a time"),
            "no exp": (without("exp"), "does not say when it ends"),
            "not yet": (but(nbf=now_s + 40), "it begins in 40 s (nbf)"),
            "issued in the future": (but(iat=now_s + 40), "it begins in 40 s (iat)"),
            "no iat": (without("iat"), "does not say when it was issued"),
            "no user": (without("sub"), "it names no user (sub)"),
            "blank user": (but(sub=" "), "it names no user (sub)"),
            "users": (but(sub=["ann"]), "it names no user (sub)"),
            "user of two lines": (but(sub="an\nn"), "it names no user (sub)"),
            "user without a character": (but(sub="\ud800"), "it names no user (sub)"),
            "scope is a number": (but(scope=7), "its scope is not a text or a list"),
            "empty scope": (but(scope=["a", ""]), "its scope is not a text or a list"),
        }

    def _token(
        self,
        claims: dict[str, Any] | None = None,
        key: Any = RSA_KEY,
        algorithm: str = "RS256",
        **header: Any,
    ) -> str:
        fields = {"alg": algorithm, "kid": "rsa", **header}
        named = {name: value for name, value in fields.items() if value is not None}
        signing = jwt.get_algorithm_by_name(algorithm)
        return compact(
            json.dumps(named),
            json.dumps(claims or self.claims),
            lambda text: signing.sign(text, key),
        )

    def _raw(self, header: object, claims: str = "", secret: bytes = b"") -> str:
        """A token with an HMAC of the secret as its signature, or without any."""
        text = header if isinstance(header, str) else json.dumps(header)
        return compact(
            text,
            claims or json.dumps(self.claims),
            lambda signed: hmac.digest(secret, signed, "sha256") if secret else b"",
        )

    def _without(self, name: str) -> str:
        return self._token({key: value for key, value in self.claims.items() if key != name})

    def _but(self, **claims: object) -> str:
        return self._token({**self.claims, **claims})


def compact(header: str, claims: str, sign: Callable[[bytes], bytes]) -> str:
    signed = f"{url64(header.encode())}.{url64(claims.encode())}"
    return f"{signed}.{url64(sign(signed.encode()))}"
