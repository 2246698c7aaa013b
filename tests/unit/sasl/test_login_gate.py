"""The gate before a login: what passes when, and answers as Apache Kafka 3.9.2 gave them."""

from __future__ import annotations

from base64 import b64decode

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.codec import encode
from kbroker.protocol.header import encode_response_header
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Identity, Turn
from kbroker.sasl.login_gate import DOCTORS_MECHANISM, LoginGate, Offer, Outcome, Step
from kbroker.sasl.plain import PlainServer, check_of
from tests.unit.sasl.logins import (
    ANN,
    BOB,
    WRONG,
    answer_versions,
    at,
    authenticate,
    gate,
    handshake,
    produce,
    scram_tokens,
    versions,
)

SESSION_MS = 5_000
GENERIC = "due to invalid credentials with SASL mechanism"


def logged_in(session_ms_max: int = SESSION_MS) -> LoginGate:
    its = gate(session_ms_max)
    its.receive(handshake(), at(0))
    assert its.receive(authenticate(), at(0)).outcome is Outcome.LOGGED_IN
    return its


def outcomes(its: LoginGate, *frames: bytes, now_ms: int = 0) -> list[Outcome]:
    return [its.receive(one, at(now_ms)).outcome for one in frames]


def bytes_of(step: Step) -> bytes:
    header, answer = step.header, step.answer
    assert header is not None
    assert isinstance(answer, Message)
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return encode(answer, header.api_version, head)


# Request and answer as recorded; the handshake before them is not in every recording.
OF_KAFKA = {
    "v0": ("ACQAAAAAAAIAA3JhdwAAABEAY2FybABjYXJsLXNlY3JldA==", "AAAAAgAAAAAAAAAA"),
    "v1": ("ACQAAQAAAAIAA3JhdwAAABEAY2FybABjYXJsLXNlY3JldA==", "AAAAAgAAAAAAAAAAAAAAAAAAAAA="),
    "v2": ("ACQAAgAAAAIAA3JhdwASAGNhcmwAY2FybC1zZWNyZXQA", "AAAAAgAAAAEBAAAAAAAAAAAA"),
    "wrong": (
        "ACQAAgAAAAIAA3JhdwAKAGNhcmwAYmFkAA==",
        "AAAAAgAAOjRBdXRoZW50aWNhdGlvbiBmYWlsZWQ6IEludmFsaWQgdXNlcm5hbWUgb3IgcGFzc3dvcmQBAAAAAAAAAAAA",
    ),
    "no name": (
        "ACQAAgAAAAIAA3JhdwAEAAB4AA==",
        "AAAAAgAAOi5BdXRoZW50aWNhdGlvbiBmYWlsZWQ6IHVzZXJuYW1lIG5vdCBzcGVjaWZpZWQBAAAAAAAAAAAA",
    ),
    "for another": (
        "ACQAAgAAAAIAA3JhdwAXYWRtaW4AY2FybABjYXJsLXNlY3JldAA=",
        "AAAAAgAAOlxBdXRoZW50aWNhdGlvbiBmYWlsZWQ6IENsaWVudCByZXF1ZXN0ZWQgYW4gYXV0aG9yaXphdGlvbiBpZCB0aGF0IGlzIGRpZmZlcmVudCBmcm9tIHVzZXJuYW1lAQAAAAAAAAAAAA==",
    ),
    "two parts": (
        "ACQAAgAAAAIAA3JhdwAEYQBiAA==",
        "AAAAAgAAOjZJbnZhbGlkIFNBU0wvUExBSU4gcmVzcG9uc2U6IGV4cGVjdGVkIDMgdG9rZW5zLCBnb3QgMgEAAAAAAAAAAAA=",
    ),
}


@pytest.mark.parametrize(("request_frame", "answer"), OF_KAFKA.values(), ids=OF_KAFKA.keys())
def test_logins_by_plain_are_answered_byte_for_byte_as_by_kafka(
    request_frame: str, answer: str
) -> None:
    offers = {"PLAIN": Offer(lambda: PlainServer(check_of({"carl": "carl-secret"})))}
    its = LoginGate(offers, answer_versions)
    its.receive(handshake(), at(0))

    assert bytes_of(its.receive(b64decode(request_frame), at(0))) == b64decode(answer)


def test_a_login_goes_through_versions_handshake_and_token() -> None:
    its = gate()
    steps = [its.receive(f, at(0)) for f in (versions(9), versions(), handshake(), authenticate())]

    assert [step.outcome for step in steps] == [Outcome.ANSWERED] * 3 + [Outcome.LOGGED_IN]
    assert steps[2].answer == mechanisms_answer(["PLAIN", "SCRAM-SHA-256"])
    assert (its.identity, its.session_ends_ms) == (Identity("ann"), None)
    # without sessions that end, the requests of a login are those of other stages, which refuse
    assert outcomes(its, produce(), handshake(), authenticate(), b"") == [Outcome.PASSED] * 4


def mechanisms_answer(mechanisms: list[str], code: int = 0) -> Message:
    return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)


def test_after_handshake_0_tokens_are_frames_of_their_own() -> None:
    its = gate()
    its.receive(handshake(version=0), at(0))

    assert its.receive(ANN, at(0)) == (Outcome.LOGGED_IN, None, b"", "")
    assert outcomes(its, produce()) == [Outcome.PASSED]
    for token in (WRONG, authenticate(), produce(), b""):
        refusing = gate()
        refusing.receive(handshake(version=0), at(0))
        step = refusing.receive(token, at(0))
        assert (step.outcome, step.answer) == (Outcome.FAILED, None)


def test_a_login_by_scram_is_none_before_its_last_message() -> None:
    first, last = scram_tokens("ann")
    for version, tokens in ((0, [first, last]), (1, [authenticate(first), authenticate(last)])):
        its = gate()
        its.receive(handshake("SCRAM-SHA-256", version), at(0))

        assert outcomes(its, tokens[0]) == [Outcome.ANSWERED]
        assert its.identity is None
        assert outcomes(its, tokens[1], produce()) == [Outcome.LOGGED_IN, Outcome.PASSED]
        assert its.identity == Identity("ann")

        its = gate()
        its.receive(handshake("SCRAM-SHA-256", version), at(0))
        assert outcomes(its, tokens[0], produce()) == [Outcome.ANSWERED, Outcome.FAILED]


@pytest.mark.parametrize("sent", [[], [versions()], [versions(9)]], ids=len)
@pytest.mark.parametrize(
    "stray",
    [produce(), authenticate(), ANN, b"", b"\x60\x82", b"\x7f\xff" * 8, handshake()[:-2]],
    ids=range(7),
)
def test_what_is_sent_before_a_handshake_ends_the_connection(
    sent: list[bytes], stray: bytes
) -> None:
    its = gate()
    outcomes(its, *sent)

    step = its.receive(stray, at(0))

    assert (step.outcome, step.answer) == (Outcome.FAILED, None)
    assert step.reason
    assert outcomes(its, versions(), handshake(), authenticate(), produce()) == [Outcome.FAILED] * 4
    assert its.identity is None


def test_versions_are_asked_for_once_as_in_kafka() -> None:
    assert outcomes(gate(), versions(), versions()) == [Outcome.ANSWERED, Outcome.FAILED]


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    its = gate()

    step = its.receive(handshake("GSSAPI" * 99), at(0))

    assert step.outcome is Outcome.FAILED
    assert step.answer == mechanisms_answer(["PLAIN", "SCRAM-SHA-256"], 33)
    assert len(step.reason) < 200
    assert outcomes(its, handshake()) == [Outcome.FAILED]
    assert "kbroker doctor asks" in gate().receive(handshake(DOCTORS_MECHANISM), at(0)).reason


@pytest.mark.parametrize("stray", [produce(), handshake(), versions()], ids=range(3))
def test_another_request_amid_a_login_is_answered_in_its_own_form(stray: bytes) -> None:
    its = gate()
    its.receive(handshake(), at(0))

    step = its.receive(stray, at(0))

    assert (step.outcome, step.answer) == (Outcome.FAILED, ErrorCode.ILLEGAL_SASL_STATE)
    assert outcomes(its, authenticate(), produce()) == [Outcome.FAILED] * 2


def test_a_refusal_says_no_more_than_its_mechanism_wants_to() -> None:
    its = gate()
    its.receive(handshake("SCRAM-SHA-256"), at(0))

    step = its.receive(authenticate(b"\xff"), at(0))

    assert step.answer is not None
    assert (
        step.answer.error_message
        == f"Authentication failed during authentication {GENERIC} SCRAM-SHA-256"
    )  # type: ignore[union-attr]
    assert "text" in step.reason


def test_a_session_ends_by_the_steady_clock_and_then_only_a_login_again_helps() -> None:
    for stray in (produce(), versions(), authenticate()):
        its = logged_in()
        assert outcomes(its, stray, now_ms=SESSION_MS - 1) == [Outcome.PASSED]
        assert outcomes(its, stray, now_ms=SESSION_MS) == [Outcome.EXPIRED]
        assert outcomes(its, handshake(), produce(), now_ms=SESSION_MS) == [Outcome.FAILED] * 2

    its = logged_in()
    assert outcomes(its, handshake(), authenticate(), produce(), now_ms=SESSION_MS + 1) == [
        Outcome.ANSWERED,
        Outcome.LOGGED_IN,
        Outcome.PASSED,
    ]
    assert its.session_ends_ms == 2 * SESSION_MS + 1


def test_a_login_again_chooses_again_how_tokens_come() -> None:
    its = logged_in()
    for now_ms, version, token in ((0, 0, ANN), (1_000, 1, authenticate()), (2_000, 0, ANN)):
        assert outcomes(its, handshake(version=version), token, now_ms=now_ms) == [
            Outcome.ANSWERED,
            Outcome.LOGGED_IN,
        ]


def test_a_login_again_that_comes_too_soon_is_left_to_the_other_stages() -> None:
    its = logged_in()

    assert outcomes(its, handshake(), authenticate(), handshake()) == [
        Outcome.ANSWERED,
        Outcome.LOGGED_IN,
        Outcome.PASSED,
    ]
    assert outcomes(its, handshake(), now_ms=1_000) == [Outcome.ANSWERED]


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([handshake(), authenticate(BOB)], "from User.ann: User.bob"),
        ([handshake(), authenticate(WRONG)], "Invalid username or password"),
        ([handshake(), produce()], None),
        ([handshake("SCRAM-SHA-256"), authenticate(scram_tokens("ann")[0])], None),
        ([handshake("SCRAM-SHA-256"), handshake()], None),
        ([handshake("GSSAPI")], None),
        ([handshake(version=0), BOB], None),
        ([handshake()[:-1]], None),
    ],
    ids=range(8),
)
def test_a_login_again_is_by_the_same_user_and_mechanism(
    frames: list[bytes], said: str | None
) -> None:
    its = logged_in()

    steps = [its.receive(one, at(10)) for one in frames]

    assert steps[-1].outcome is Outcome.FAILED
    assert its.identity == Identity("ann")
    if said is not None:
        assert said in steps[-1].answer.error_message  # type: ignore[union-attr]
    assert outcomes(its, produce()) == [Outcome.FAILED]


class GivenIdentity:
    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def receive(self, token: bytes) -> Turn:
        return Turn(b"", self._identity)


@pytest.mark.parametrize(
    ("expires_at_ms", "bound_ms", "lifetime_ms"),
    [(1_000_700, 0, 700), (1_000_700, 500, 500), (1_000_700, 900, 700), (None, 900, 900)],
)
def test_a_session_lasts_as_long_as_its_token_and_the_bound(
    expires_at_ms: int | None, bound_ms: int, lifetime_ms: int
) -> None:
    identity = Identity("ann", expires_at_ms=expires_at_ms)
    its = LoginGate({"X": Offer(lambda: GivenIdentity(identity), bound_ms)}, answer_versions)
    its.receive(handshake("X"), at(0))

    step = its.receive(authenticate(), at(0))

    assert step.answer.session_lifetime_ms == lifetime_ms  # type: ignore[union-attr]
    assert its.session_ends_ms == lifetime_ms


def test_a_token_that_has_expired_lets_nobody_in() -> None:
    identity = Identity("ann", expires_at_ms=1_000_000)
    its = LoginGate({"X": Offer(lambda: GivenIdentity(identity))}, answer_versions)

    assert outcomes(its, handshake("X"), authenticate()) == [Outcome.ANSWERED, Outcome.FAILED]
    assert its.identity is None


def test_nothing_passes_after_an_error_of_a_judge() -> None:
    def broken(_name: str, _password: str) -> bool:
        raise RuntimeError("no database")

    its = LoginGate({"PLAIN": Offer(lambda: PlainServer(broken))}, answer_versions)
    its.receive(handshake(), at(0))

    with pytest.raises(RuntimeError):
        its.receive(authenticate(), at(0))
    assert outcomes(its, authenticate(), produce()) == [Outcome.FAILED] * 2
