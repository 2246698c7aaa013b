"""Delegation tokens as users of SCRAM."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kbroker.admin import token_users
from kbroker.admin.token_users import TokenUsers
from kbroker.delegation_tokens.delegation_token import DelegationToken, password, signature
from kbroker.sasl.exchange import Identity, LoginRefusedError, Turn
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from kbroker.sasl.scram_server import ScramServer

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
TOKEN = DelegationToken("id", "User:a:b", "User:admin", (), 1, 5, 9)


class FakeTokens:
    """A manager that has one token, and counts what it signs."""

    def __init__(self, secret: bytes = b"secret") -> None:
        self.tokens = {each: TOKEN._replace(token_id=each) for each in ("id", "2", "3")}
        self.secret = secret
        self.signed = 0

    def find(self, token_id: str) -> DelegationToken | None:
        return self.tokens.get(token_id)

    def signature(self, token_id: str) -> bytes:
        self.signed += 1
        return signature(self.secret, token_id)


def users(tokens: Any, made_up: MadeUpUsers | None = None) -> TokenUsers:
    return TokenUsers(tokens, partial((made_up or MadeUpUsers()).credential, b"key"))


def server(found: TokenUsers, mechanism: ScramMechanism = SHA_256) -> ScramServer:
    make_up = partial(MadeUpUsers().credential, b"key", mechanism)

    def find(name: str, is_token: bool) -> Any:
        return found.find(mechanism, name) if is_token else None

    return ScramServer(mechanism, find, "theirs", make_up)


def log_in(
    exchange: ScramServer,
    mechanism: ScramMechanism,
    name: str,
    word: str,
    *,
    is_token: bool = True,
) -> Turn:
    client = ScramClient(mechanism, name, word, "ours", is_token=is_token)
    turn = exchange.receive(client.final(exchange.receive(client.first()).token))
    client.check(turn.token)
    return turn


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_the_signature_logs_the_owner_in_until_the_token_expires(mechanism: ScramMechanism) -> None:
    found = users(FakeTokens())
    right = password(signature(b"secret", "id"))

    turn = log_in(server(found, mechanism), mechanism, "id", right)

    assert turn.identity == Identity("a:b", is_token=True, owner="User:a:b", expires_at_ms=5)


@pytest.mark.parametrize(
    ("token_id", "word"),
    [
        ("id", password(signature(b"former", "id"))),
        ("id", password(signature(b"secret", "2"))),
        ("id", ""),
        ("other", password(signature(b"secret", "other"))),
    ],
)
def test_nothing_else_logs_in(token_id: str, word: str) -> None:
    with pytest.raises(LoginRefusedError):
        log_in(server(users(FakeTokens())), SHA_256, token_id, word)


def test_a_token_does_not_log_in_as_a_user_of_its_name() -> None:
    right = password(signature(b"secret", "id"))
    with pytest.raises(LoginRefusedError):
        log_in(server(users(FakeTokens())), SHA_256, "id", right, is_token=False)


def test_a_token_looks_like_one_that_does_not_exist() -> None:
    def challenge(found: TokenUsers) -> Turn:
        first = b"n,,n=id,r=ours,tokenauth=true"
        return server(found).receive(first)

    there, empty = FakeTokens(), FakeTokens()
    empty.tokens.clear()

    assert challenge(users(there)) == challenge(users(empty))


def test_credentials_are_derived_once_and_kept_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_users, "KEPT_MAX", 2)
    tokens = FakeTokens()
    found = users(tokens)

    for asked, derived in (
        ("id", 1),
        ("id", 1),
        ("2", 2),
        ("id", 2),
        ("3", 3),
        ("id", 3),
        ("2", 4),
    ):
        assert found.find(SHA_256, asked) is not None
        assert tokens.signed == derived
    del tokens.tokens["id"]
    assert found.find(SHA_256, "id") is None


def test_a_credential_is_made_again_if_those_of_users_look_otherwise() -> None:
    tokens, made_up = FakeTokens(), MadeUpUsers()
    found = users(tokens, made_up)
    before = found.find(SHA_256, "id")
    credential = ScramCredential.of_password(SHA_256, "x", b"7 bytes", 5_000)
    made_up.put("ann", {"SCRAM-SHA-256": credential})

    after = found.find(SHA_256, "id")

    assert before is not None
    assert after is not None
    assert (len(after.credential.salt), after.credential.iterations) == (7, 5_000)
    assert tokens.signed == 2
