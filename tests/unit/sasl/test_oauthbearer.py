"""The messages of OAUTHBEARER, with the examples of RFC 7628 (section 4)."""

from __future__ import annotations

import json

import pytest

from kbroker.sasl.exchange import Identity, LoginRefusedError
from kbroker.sasl.oauthbearer import (
    BearerLogin,
    OauthBearerServer,
    TokenRefusal,
    bearer_message,
    parse_bearer_login,
)

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
EXAMPLE = (
    b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer "
    + TOKEN.encode()
    + b"\x01\x01"
)
LOGIN = BearerLogin(TOKEN, "user@example.com", {"host": "server.example.com", "port": "143"})
REFUSAL = TokenRefusal(
    "invalid_token", "its audience is another", "example_scope", "https://example.com/config"
)


def server(verdict: Identity | TokenRefusal) -> OauthBearerServer:
    return OauthBearerServer(lambda _: verdict)


def test_the_example_of_the_rfc_is_read_and_lets_its_user_in() -> None:
    identity = Identity("user@example.com", expires_at_ms=7)

    assert parse_bearer_login(EXAMPLE) == LOGIN
    assert server(identity).receive(EXAMPLE) == (b"", identity)


@pytest.mark.parametrize("login", [LOGIN, BearerLogin("a.b-c_d", "a=b,c", {"traceId": "1 2"})])
def test_a_clients_message_is_read_as_it_was_meant(login: BearerLogin) -> None:
    assert parse_bearer_login(bearer_message(login)) == login


@pytest.mark.parametrize(
    "login",
    [
        BearerLogin(""),
        BearerLogin("a b"),
        BearerLogin("a", extensions={"auth": "Bearer b"}),
        BearerLogin("a", extensions={"x": ""}),
        BearerLogin("a", extensions={"x": "1\x01auth=Bearer b"}),
        BearerLogin("a", extensions={"x1": "y"}),
    ],
)
def test_a_message_that_no_broker_could_read_is_not_made(login: BearerLogin) -> None:
    with pytest.raises(ValueError, match="cannot carry"):
        bearer_message(login)


def test_a_refused_token_is_answered_as_json_and_the_next_message_ends_the_login() -> None:
    theirs = server(REFUSAL)

    turn = theirs.receive(EXAMPLE)

    assert turn.identity is None
    assert json.loads(turn.token) == {
        "status": "invalid_token",
        "scope": "example_scope",
        "openid-configuration": "https://example.com/config",
    }
    for token in (b"\x01", EXAMPLE):
        with pytest.raises(LoginRefusedError) as caught:
            theirs.receive(token)
        assert caught.value.said.encode() == turn.token


def test_to_act_for_another_is_refused() -> None:
    with pytest.raises(LoginRefusedError) as caught:
        server(Identity("ann")).receive(EXAMPLE)

    assert "(user@example.com) that is different from the token's principal name (ann)" in (
        caught.value.said
    )


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff" + EXAMPLE,
        EXAMPLE[:-1],
        EXAMPLE + b"\x01",
        EXAMPLE.replace(b"n,a", b"y,a"),
        EXAMPLE.replace(b"a=user", b"a=us=er"),
        EXAMPLE.replace(b"auth=", b"auto="),
        EXAMPLE.replace(b"Bearer ", b"Basic "),
        EXAMPLE.replace(b"Bearer ", b"Bearer"),
        EXAMPLE.replace(b"Bearer ", b"Bearer a "),
        EXAMPLE.replace(b"host=", b"port="),
        EXAMPLE.replace(b"host=", b"auth="),
        EXAMPLE.replace(b"port=143", b"port="),
        EXAMPLE.replace(b"port=143", b"port=\xc3\xb6"),
    ],
)
def test_what_is_no_message_is_refused_without_a_word_of_it(message: bytes) -> None:
    with pytest.raises(LoginRefusedError) as caught:
        server(Identity("user@example.com")).receive(message)

    assert caught.value.said == ""
    assert TOKEN not in str(caught.value)
