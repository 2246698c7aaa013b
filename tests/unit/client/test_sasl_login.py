"""What a broker answers to a login, and what a person is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.client.sasl_login import log_in
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.login import Login


class FakeBroker:
    """Answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[Message] = []

    def ask(self, request: Message) -> Any:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


CONSENT = SaslHandshakeResponse(mechanisms=["PLAIN"])


def login(mechanism: str = "PLAIN") -> Login:
    return Login(mechanism=mechanism, username="ann", password="se;cret")


def said(broker: FakeBroker, mechanism: str = "PLAIN") -> str:
    with pytest.raises(ClientError, match=r"^cannot connect to h:1: ") as refused:
        log_in(broker.ask, login(mechanism), "h:1")
    assert refused.value.code is ExitCode.CANNOT_CONNECT
    assert "se;cret" not in refused.value.sentence
    return refused.value.sentence


def test_name_and_password_are_shown_in_one_message() -> None:
    broker = FakeBroker(CONSENT, SaslAuthenticateResponse(session_lifetime_ms=60_000))

    assert log_in(broker.ask, login(), "h:1") == 60
    assert broker.asked == [
        SaslHandshakeRequest(mechanism="PLAIN"),
        SaslAuthenticateRequest(auth_bytes=b"\0ann\0se;cret"),
    ]


def test_a_login_without_a_lifetime_is_for_good() -> None:
    assert log_in(FakeBroker(CONSENT, SaslAuthenticateResponse()).ask, login(), "h:1") is None


def test_a_mechanism_that_is_not_offered_comes_with_one_that_is() -> None:
    refusal = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI", "SCRAM-SHA-256"]
    )

    sentence = said(FakeBroker(refusal))

    assert "does not offer the login PLAIN, but GSSAPI, SCRAM-SHA-256" in sentence
    assert sentence.endswith("give sasl.mechanism=SCRAM-SHA-256")


def test_a_broker_with_none_of_our_mechanisms_is_told() -> None:
    refusal = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI"]
    )

    assert "have it offer one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in said(FakeBroker(refusal))


@pytest.mark.parametrize(
    "refusal",
    [
        SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE),
        KafkaError(ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["Apache", "without the request"],
)
def test_a_port_that_takes_no_login_is_told(refusal: object) -> None:
    assert "this port takes no login: give the port that does, or" in said(FakeBroker(refusal))


def test_a_wrong_password_is_told_in_the_brokers_words_too() -> None:
    refusal = SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Invalid credentials"
    )

    sentence = said(FakeBroker(CONSENT, refusal))

    assert "refuses the login of ann with PLAIN (Invalid credentials): check name" in sentence


def test_a_token_that_is_refused_is_named_as_one() -> None:
    refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    by_token = Login(
        mechanism="SCRAM-SHA-256", username="an-id", password="se;cret", is_by_delegation=True
    )
    broker = FakeBroker(CONSENT, refusal)

    with pytest.raises(ClientError, match="refuses the delegation token an-id") as refused:
        log_in(broker.ask, by_token, "h:1")

    assert "se;cret" not in refused.value.sentence
    assert broker.asked[1].auth_bytes.endswith(b",tokenauth=true")


def test_a_broker_that_cannot_prove_that_it_knows_the_password_is_not_trusted() -> None:
    broker = FakeBroker(CONSENT, SaslAuthenticateResponse(auth_bytes=b"r=mine,s=,i=4096"))

    sentence = said(broker, "SCRAM-SHA-256")

    assert (
        "does not go through SCRAM-SHA-256 as it should: it did not repeat the client's nonce"
        in sentence
    )
    assert b"se;cret" not in b"".join(
        each.auth_bytes for each in broker.asked if isinstance(each, SaslAuthenticateRequest)
    )


def test_each_login_by_scram_has_a_nonce_of_its_own() -> None:
    tokens = set()
    for _ in range(3):
        broker = FakeBroker(CONSENT, SaslAuthenticateResponse())
        said(broker, "SCRAM-SHA-512")
        tokens.add(str(broker.asked[1]))

    assert len(tokens) == 3
