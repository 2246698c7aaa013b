"""Frames of a client that logs in, and a gate for them."""

from __future__ import annotations

from functools import partial

from kbroker.errors import ErrorCode
from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Exchange, Identity
from kbroker.sasl.login_gate import LoginGate, Moment, Offer
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.plain import PlainServer, check_of, plain_token
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential
from kbroker.sasl.scram_server import ScramServer, ScramUser

USERS = check_of({"ann": "ann-secret", "bob": "bob-secret"})
ANN, BOB = plain_token("ann", "ann-secret"), plain_token("bob", "bob-secret")
WRONG = plain_token("ann", "wrong")
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
SCRAM_USERS = {
    name: ScramUser(
        ScramCredential.of_password(SHA_256, f"{name}-secret", b"salt", 4096), Identity(name)
    )
    for name in ("ann", "bob")
}
PRODUCE = 3


def frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    assert request.spec.key is not None
    header = RequestHeader(request.spec.key, version, correlation_id, "client")
    return encode(request, version, encode_request_header(header))


def versions(version: int = 3) -> bytes:
    if version > 4:
        return encode_request_header(RequestHeader(18, version, 1, "client"))
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return frame(request, version)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes = ANN, version: int = 2) -> bytes:
    return frame(SaslAuthenticateRequest(auth_bytes=token), version)


def produce() -> bytes:
    return frame(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]), PRODUCE)


def answer_versions(header: RequestHeader, _body: memoryview) -> ApiVersionsResponse:
    code = ErrorCode.NONE if header.api_version <= 4 else ErrorCode.UNSUPPORTED_VERSION
    return ApiVersionsResponse(error_code=code)


def scram() -> Exchange:
    make_up = partial(MadeUpUsers().credential, b"key", SHA_256)
    return ScramServer(SHA_256, lambda name, _: SCRAM_USERS.get(name), "theirs", make_up)


def scram_tokens(name: str) -> tuple[bytes, bytes]:
    """Return both messages of a good login, which `scram` gives the same challenge every time."""
    client = ScramClient(SHA_256, name, f"{name}-secret", "ours")
    first = client.first()
    return first, client.final(scram().receive(first).token)


def gate(session_ms_max: int = 0) -> LoginGate:
    offers = {
        "PLAIN": Offer(lambda: PlainServer(USERS), session_ms_max),
        "SCRAM-SHA-256": Offer(scram, session_ms_max),
    }
    return LoginGate(offers, answer_versions)


def at(milliseconds: int) -> Moment:
    return Moment(wall_ms=1_000_000 + milliseconds, steady_ms=milliseconds)
