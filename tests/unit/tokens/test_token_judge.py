"""Tokens that are taken, a table of those that are not, and the verdicts of Apache Kafka."""

from __future__ import annotations

import json

import pytest

from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, TokenRefusal
from kbroker.tokens.key_set import ALGORITHMS, KeySet
from kbroker.tokens.token_claims import ExpectedClaims
from kbroker.tokens.token_judge import SignedTokenJudge
from tests.fakes.tokens.token_cases import (
    AUDIENCES,
    ISSUER,
    KEYS,
    ODD_KEYS,
    RSA_KEY,
    TokenCases,
    jwk,
)
from tests.integration.apache_tokens import VERDICTS, verdicts_in

NOW_S = 1_800_000_000
EXPECTED = ExpectedClaims(issuer=ISSUER, audiences=frozenset(AUDIENCES))
JUDGE = SignedTokenJudge(
    KeySet.parse(json.dumps({"keys": KEYS + ODD_KEYS})), EXPECTED, lambda: NOW_S * 1000
)
GOOD, BAD = TokenCases(NOW_S).good(), TokenCases(NOW_S).bad()
# Verdicts of Apache Kafka 3.9.2 that are not followed, and why.
DIFFERENT = {
    "has ended lately": "it is refused there in spite of the skew, which is for clocks that differ",
    "HS256 by a published secret": "a secret that is published is none",
    "key of another algorithm": "the issuer says what its key is for",
    "issued in the future": "clocks differ by no more than the skew",
    "user of two lines": "it could forge lines of logs",
    "user without a character": "it cannot be written to a log or a node",
    "scope is a number": "it is not what the claim holds",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_token_of_the_issuer_lets_its_user_in_until_it_ends(name: str) -> None:
    text, left_s = GOOD[name]

    verdict = JUDGE(BearerLogin(text))

    assert verdict == Identity("ann", expires_at_ms=(NOW_S + left_s) * 1000)


@pytest.mark.parametrize("name", BAD)
def test_a_token_that_is_not_good_is_refused_with_a_reason_that_does_not_hold_it(
    name: str,
) -> None:
    text, reason = BAD[name]

    verdict = JUDGE(BearerLogin(text))

    assert isinstance(verdict, TokenRefusal)
    assert reason in verdict.reason
    assert len(verdict.reason) < 300
    assert verdict.as_json() == '{"status":"invalid_token"}'


def test_apache_kafka_takes_and_refuses_the_same_but_for_a_written_list() -> None:
    theirs = verdicts_in(VERDICTS.read_text())

    assert theirs.keys() == GOOD.keys() | BAD.keys(), (
        "run `python -m tests.integration.apache_tokens`"
    )
    taken = {name for name, verdict in theirs.items() if verdict == "taken"}
    assert taken ^ GOOD.keys() == DIFFERENT.keys()


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
