"""Logs a link in: SaslHandshake, then the messages of the mechanism in SaslAuthenticate (KIP-43,
KIP-152). Brokers before Kafka 1.0 expect other frames and are not served.

Law: a refusal is a ClientError, because a person has to put something right, and no other broker of
the cluster would let us in; it never holds a password.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import MECHANISMS, Login
from kbroker.client.link_refusals import refused
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Message
from kbroker.sasl.plain import plain_token
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS
from kbroker.sasl.scram_messages import ScramError

Ask = Callable[[Message], Any]
"""Sends a request and returns its answer. Raises OSError, and KafkaError UNSUPPORTED_VERSION."""

_NONCE_BYTES = 24


def log_in(ask: Ask, login: Login, address: str) -> float | None:
    """Log in; returns for how many seconds the login is valid, None: as long as the link lasts.

    Raises ClientError, OSError.
    """
    _agree(ask, login, address)
    if login.mechanism == "PLAIN":
        token = plain_token(login.username, login.password)
        return _seconds(_token(ask, token, login, address))
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    mechanism = SCRAM_MECHANISMS[login.mechanism]
    scram = ScramClient(mechanism, login.username, login.password, nonce)
    try:
        challenge = _token(ask, scram.first(), login, address).auth_bytes
        last = _token(ask, scram.final(challenge), login, address)
        scram.check(last.auth_bytes)
    except ScramError as error:
        raise refused(
            address,
            f"the broker does not go through {login.mechanism} as it should: {error}; check that "
            "the address is that of your cluster",
        ) from error
    return _seconds(last)


def _agree(ask: Ask, login: Login, address: str) -> None:
    try:
        answer = ask(SaslHandshakeRequest(mechanism=login.mechanism))
    except KafkaError as error:
        raise _takes_no_login(address) from error
    code = ErrorCode(answer.error_code)
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        ours = [name for name in answer.mechanisms if name in MECHANISMS]
        raise refused(
            address,
            f"the broker does not offer the login {login.mechanism}, but "
            f"{', '.join(answer.mechanisms) or 'none'}: "
            + (
                f"give sasl.mechanism={ours[0]}"
                if ours
                else f"have it offer one of {', '.join(MECHANISMS)}"
            ),
        )
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise _takes_no_login(address)
    if code != ErrorCode.NONE:
        raise refused(address, f"the broker refuses the login with {code.name}")


def _takes_no_login(address: str) -> ClientError:
    return refused(
        address,
        "this port takes no login: give the port that does, or security.protocol=PLAINTEXT (SSL "
        "with TLS)",
    )


def _token(ask: Ask, token: bytes, login: Login, address: str) -> Any:
    answer = ask(SaslAuthenticateRequest(auth_bytes=token))
    if answer.error_code:
        said = answer.error_message or ErrorCode(answer.error_code).name
        raise refused(
            address,
            f"the broker refuses the login of {login.username} with {login.mechanism} "
            f"({said}): check name and password, and that the user has one for this mechanism",
        )
    return answer


def _seconds(answer: Any) -> float | None:
    return answer.session_lifetime_ms / 1000 or None
