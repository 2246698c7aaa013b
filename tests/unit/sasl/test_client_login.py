"""The client's side of a login, against the server's."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.client_login import ClientLogin, LoginFailedError, LoginTrouble
from kbroker.sasl.exchange import Exchange, Identity
from kbroker.sasl.login import Login
from kbroker.sasl.login_gate import LoginGate, Offer
from kbroker.sasl.oauthbearer import BearerLogin, OauthBearerServer, TokenRefusal
from kbroker.sasl.plain import PlainServer
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, SaltedPasswords, ScramMechanism
from tests.unit.sasl.logins import USERS, answer_versions, at, scram

LOGINS = [
    Login(mechanism="PLAIN", username="ann", password="ann-secret"),
    Login(mechanism="SCRAM-SHA-256", username="ann", password="ann-secret"),
    Login(mechanism="OAUTHBEARER", tokens=lambda: BearerLogin("good")),
]
REFUSED = [
    Login(mechanism="PLAIN", username="ann", password="wrong"),
    Login(mechanism="SCRAM-SHA-256", username="ann", password="wrong"),
    Login(mechanism="OAUTHBEARER", tokens=lambda: BearerLogin("wrong")),
]


def judge(login: BearerLogin) -> Identity | TokenRefusal:
    return Identity("ann") if login.token == "good" else TokenRefusal("invalid_token", "bad")


def bearer() -> Exchange:
    return OauthBearerServer(judge)


def gate() -> LoginGate:
    exchanges = {
        "PLAIN": lambda: PlainServer(USERS),
        "SCRAM-SHA-256": scram,
        "OAUTHBEARER": bearer,
    }
    offers = {name: Offer(begin, 60_000) for name, begin in exchanges.items()}
    return LoginGate(offers, answer_versions)


def ask(server: LoginGate, request: Message, at_ms: int = 0) -> Any:
    key, version = request.spec.key or 0, request.spec.versions.highest
    head = encode_request_header(RequestHeader(key, version, 1, "7"))
    return server.receive(encode(request, version, head), at(at_ms)).answer


def log_in(login: Login, server: LoginGate, at_ms: int = 0) -> ClientLogin:
    client = ClientLogin(login, "ours")
    request: Message | None = client.begin()
    while request is not None:
        request = client.receive(ask(server, request, at_ms))
    return client


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.mechanism)
def test_a_server_lets_in_who_logs_in_and_again_before_the_session_ends(login: Login) -> None:
    server = gate()

    assert log_in(login, server).session_ms == 60_000
    assert server.identity == Identity("ann")
    assert log_in(login, server, at_ms=50_000).session_ms == 60_000
    assert server.session_ends_ms == 110_000


@pytest.mark.parametrize("login", REFUSED, ids=lambda login: login.mechanism)
def test_a_refusal_comes_in_the_servers_words_and_without_the_secret(login: Login) -> None:
    with pytest.raises(LoginFailedError) as failed:
        log_in(login, gate())

    assert failed.value.trouble is LoginTrouble.REFUSED
    assert "wrong" not in f"{failed.value} {login!r}"


def test_a_server_that_does_not_prove_itself_is_not_believed() -> None:
    client = ClientLogin(LOGINS[1], "ours")
    client.receive(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    client.receive(SaslAuthenticateResponse(auth_bytes=b"r=ourstheirs,s=c2FsdA==,i=4096"))

    with pytest.raises(LoginFailedError, match="does not know the password itself") as failed:
        client.receive(SaslAuthenticateResponse(auth_bytes=b"v=AAAA"))

    assert failed.value.trouble is LoginTrouble.BROKEN


def test_an_extension_that_no_message_can_carry_is_a_login_that_fails() -> None:
    tokens = BearerLogin("good", extensions={"logical-cluster": "x"})
    client = ClientLogin(Login(mechanism="OAUTHBEARER", tokens=lambda: tokens), "nonce")
    client.begin()

    with pytest.raises(LoginFailedError, match="a token or an extension has a sign"):
        client.receive(SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))


def test_a_salted_password_is_derived_once_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mechanism, kept = SCRAM_MECHANISMS["SCRAM-SHA-256"], SaltedPasswords()
    first = kept.derive(mechanism, "secret", b"salt", 4096)
    assert first == mechanism.salted("secret", b"salt", 4096)
    monkeypatch.setattr(ScramMechanism, "salted", lambda *_: b"again")

    assert kept.derive(mechanism, "secret", b"salt", 4096) == first
    assert kept.derive(mechanism, "other", b"salt", 4096) == b"again"
    assert "secret" not in repr(kept)
