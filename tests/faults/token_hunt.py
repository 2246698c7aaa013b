"""Generated tokens: wrong keys, algorithms, headers, claims and signatures, at and beyond their
limits, against a naive model of which of them are good.

    python -m tests.faults.token_hunt --tokens 300000 --seed 1
"""

from __future__ import annotations

import argparse
import hmac
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import jwt

from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin
from kbroker.tokens import token_claims
from kbroker.tokens.key_set import ALGORITHMS, KeySet, PublicKey
from kbroker.tokens.token_claims import ExpectedClaims
from kbroker.tokens.token_judge import SignedTokenJudge
from tests.fakes.tokens.token_cases import (
    AUDIENCES,
    EC_KEY,
    ED_KEY,
    ISSUER,
    KEYS,
    OTHER_KEY,
    PUBLIC_PEM,
    RSA_KEY,
    SECRET,
    compact,
)

NOW_S, SKEW_S = 1_800_000_000, 30
_OF_RSA = [name for name in ALGORITHMS if name[0] in "RP"]
# By name of the key: the algorithms that it signs by, and the key.
_SIGNERS: dict[str, tuple[list[str], Any]] = {
    "rsa": (_OF_RSA, RSA_KEY),
    "ec": (["ES256"], EC_KEY),
    "ed": (["EdDSA"], ED_KEY),
    "unknown": (_OF_RSA, OTHER_KEY),
    "HMAC by a public key": (["HS256"], PUBLIC_PEM),
    "HMAC by a secret": (["HS256"], SECRET),
}
_TIMES = [NOW_S + n for n in (-31, -30, -29, 0, 29, 30, 31, 60)]
_JUNK: list[Any] = [
    None, True, -1, 1e300, float("nan"), "", " ", "x", "a\nb", "\ud800", [], ["x"], ["", "x"], {}, 7,
]  # fmt: skip
_CLAIMS: dict[str, list[Any]] = {
    "iss": [*_JUNK, ISSUER, f"{ISSUER}/"],
    "aud": [*_JUNK, "kafka", ["x", "other"], ["kafka", ""], {"kafka": 1}],
    "sub": [*_JUNK, " ann ", "Ann"],
    "scope": [*_JUNK, "a b", ["a", "b"]],
    **{name: [*_JUNK, *_TIMES, NOW_S + 0.5, str(NOW_S + 60)] for name in ("exp", "nbf", "iat")},
}


class TokenHunt:
    """Tokens of one seed. `differences` are those on which judge and model do not agree."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        expected = ExpectedClaims(issuer=ISSUER, audiences=frozenset(AUDIENCES))
        keys = KeySet.parse(json.dumps({"keys": KEYS}))
        self._judge = SignedTokenJudge(keys, expected, lambda: NOW_S * 1000)
        self.differences: list[str] = []
        self.counts: Counter[str] = Counter()

    def try_one(self) -> None:
        draw = self._random
        signer = draw.choice(list(_SIGNERS))
        algorithms, key = _SIGNERS[signer]
        real = draw.choice(algorithms)
        named = draw.choice([*ALGORITHMS, "none", "HS256", 7, None])
        header = {"alg": real if draw.random() < 0.7 else named, "kid": signer}
        if draw.random() < 0.3:
            header["kid"] = draw.choice([*_SIGNERS, None, "weak", 7, "k" * 1_001])
        if draw.random() < 0.05:
            header["crit"] = draw.choice([[], ["x"], None])
        claims = {"iss": ISSUER, "aud": "kafka", "sub": "ann", "iat": NOW_S, "exp": NOW_S + 60}
        for name in draw.sample(list(_CLAIMS), draw.choice([0, 0, 1, 2])):
            claims[name] = draw.choice(_CLAIMS[name])
        spoil = draw.random() < 0.1
        text = compact(
            json.dumps(header),
            json.dumps(claims),
            lambda signed: _signature(real, key, signed + b"x" * spoil),
        )
        is_good = not spoil and _is_signed(header, signer, real) and _says_enough(claims)
        verdict: object
        try:
            verdict = self._judge(BearerLogin(text))
        except Exception as error:  # a judge refuses, and never breaks
            verdict = repr(error) if is_good else Identity(repr(error))
        self.counts["good" if is_good else "bad"] += 1
        if isinstance(verdict, Identity) != is_good:
            self.differences.append(f"{header} {claims} by {signer}, {real}: {verdict}")


def _signature(algorithm: str, key: Any, signed: bytes) -> bytes:
    if algorithm == "HS256":
        return hmac.digest(key, signed, "sha256")
    return jwt.get_algorithm_by_name(algorithm).sign(signed, key)


def _is_signed(header: dict[str, Any], signer: str, real: str) -> bool:
    kid = header["kid"]
    is_ours = signer in ("rsa", "ec", "ed") and (kid is None or kid == signer)
    return is_ours and header["alg"] == real and "crit" not in header


def _says_enough(claims: dict[str, Any]) -> bool:
    exp, iat, nbf = (claims.get(name) for name in ("exp", "iat", "nbf"))
    sub, aud, scope = (claims.get(name) for name in ("sub", "aud", "scope"))
    return (
        claims["iss"] == ISSUER
        and _are_texts(aud)
        and bool(set(aud if isinstance(aud, list) else [aud]) & set(AUDIENCES))
        and (scope is None or _are_texts(scope))
        and isinstance(sub, str)
        and sub.strip() != ""
        and sub.strip().isprintable()
        and (_is_time(exp) and exp > NOW_S - SKEW_S)
        and (_is_time(iat) and iat <= NOW_S + SKEW_S)
        and (nbf is None or (_is_time(nbf) and nbf <= NOW_S + SKEW_S))
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**43


def _are_texts(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) and each.strip() for each in values)


def _claims_that_say(name: str, value: object) -> Callable[[], AbstractContextManager[Any]]:
    """A judge that takes one claim for right, whatever it says."""
    original = ExpectedClaims.identity_of
    return lambda: patch.object(
        ExpectedClaims,
        "identity_of",
        lambda self, claims, now_ms: original(self, {**claims, name: value}, now_ms),
    )


# Mistakes of judges, each of which the hunt has to find: else that it finds nothing means nothing.
PLANTED: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no signature is checked": lambda: patch.object(PublicKey, "verifies", lambda *_: True),
    "a key signs by any algorithm": lambda: patch.object(PublicKey, "fits", lambda *_: True),
    "the kid is not looked at": lambda: patch.object(
        KeySet,
        "find",
        lambda self, _, algorithm: next((k for k in self.keys if k.fits(algorithm)), None),
    ),
    "the issuer is not checked": _claims_that_say("iss", ISSUER),
    "the audience is not checked": _claims_that_say("aud", "kafka"),
    "the user is not checked": _claims_that_say("sub", "ann"),
    "the scope is not checked": _claims_that_say("scope", "a"),
    "tokens do not end": _claims_that_say("exp", NOW_S + 60),
    "tokens begin at any time": _claims_that_say("nbf", None),
    "tokens are issued at any time": _claims_that_say("iat", NOW_S),
    "a session of a token has no skew": lambda: patch.object(
        token_claims, "lifetime_of", lambda claims, now_ms, _: _lifetime_of(claims, now_ms, 0)
    ),
}
_lifetime_of = token_claims.lifetime_of


def hunt(seed: int, tokens: int, is_enough: int = 20) -> TokenHunt:
    """Try tokens of one seed, until so many differences are found."""
    its = TokenHunt(seed)
    for _ in range(tokens):
        its.try_one()
        if len(its.differences) >= is_enough:
            break
    return its


def main() -> None:
    """Hunt, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    its = hunt(arguments.seed, arguments.tokens)
    print(dict(its.counts), f"{len(its.differences)} differences", *its.differences, sep="\n")


if __name__ == "__main__":
    main()
