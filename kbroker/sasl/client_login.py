"""ClientLogin: the client's side of a login, by SaslHandshake and the messages of a mechanism in
SaslAuthenticate (KIP-43, KIP-152): requests out, answers in. Pure.

Law: a server that should prove itself and does not is not believed. No refusal holds a password or
a token.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum, auto
from typing import Any

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kbroker.protocol.schema import Message
from kbroker.sasl.login import Login
from kbroker.sasl.oauthbearer import bearer_message
from kbroker.sasl.plain import plain_token
from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, Derive, ScramMechanism
from kbroker.sasl.scram_messages import ScramError

NONCE_BYTES = 24  # random ones, written as base64 of URLs
_NOTED = b"\x01"  # the answer to a refusal of OAUTHBEARER (RFC 7628)
_Tokens = Generator[bytes, bytes, None]  # tokens out, the server's answers in


class LoginTrouble(Enum):
    """The kinds of logins that fail."""

    NOT_OFFERED = auto()  # the mechanism, by this server
    TAKES_NONE = auto()  # the port is one without logins
    REFUSED = auto()  # the name, the password, the token
    BROKEN = auto()  # the server does not keep to the mechanism, or to the protocol


class LoginFailedError(Exception):
    """A login that fails: trying again does not help until somebody puts something right."""

    def __init__(self, trouble: LoginTrouble, said: str, offered: tuple[str, ...] = ()) -> None:
        """`said` is the cause, from the server where it gave one; `offered` are the mechanisms that
        it has instead of ours.
        """
        super().__init__(said)
        self.trouble = trouble
        self.offered = offered


class ClientLogin:
    """One login: ask `begin()`, then what each `receive` returns, until that is None."""

    def __init__(self, login: Login, nonce: str, derive: Derive = ScramMechanism.salted) -> None:
        """`nonce`: printable, random, without commas. `derive` takes the milliseconds of SCRAM."""
        self.session_ms = 0  # of the login that is done; 0: as long as the connection
        self._login = login
        self._tokens = client_tokens(login, nonce, derive)
        self._is_agreed = False

    def begin(self) -> Message:
        """Return the first request."""
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def receive(self, answer: Any) -> Message | None:
        """Take the answer to the last request. Returns the next one, None if the login is done.

        Raises LoginFailedError, OSError if no token is to be had.
        """
        try:
            if self._is_agreed:
                _check_turn(answer)
                token = self._tokens.send(answer.auth_bytes)
            else:
                self._check_mechanism(answer)
                self._is_agreed = True
                token = next(self._tokens)
        except StopIteration:
            self.session_ms = answer.session_lifetime_ms
            return None
        except (ScramError, ValueError) as error:  # the latter: a message that cannot be made
            raise LoginFailedError(LoginTrouble.BROKEN, str(error)) from error
        return SaslAuthenticateRequest(auth_bytes=token)

    def _check_mechanism(self, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = tuple(answer.mechanisms)
            said = f"it offers {', '.join(offered) or 'none'}, not {self._login.mechanism}"
            raise LoginFailedError(LoginTrouble.NOT_OFFERED, said, offered)
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginFailedError(LoginTrouble.TAKES_NONE, "it takes no login there")
        if code != ErrorCode.NONE:
            raise LoginFailedError(LoginTrouble.BROKEN, code.name)


def _check_turn(answer: Any) -> None:
    if answer.error_code:
        said = answer.error_message or ErrorCode(answer.error_code).name
        raise LoginFailedError(LoginTrouble.REFUSED, said)


def client_tokens(login: Login, nonce: str, derive: Derive) -> _Tokens:
    """Yield the client's messages of a mechanism; each gets the server's answer sent. Raises
    ScramError, ValueError for what no message can hold, OSError if no token is to be had.
    """
    if login.mechanism in SCRAM_MECHANISMS:
        yield from _scram_tokens(login, nonce, derive)
    elif login.tokens is not None:
        if (yield bearer_message(login.tokens())):
            yield _NOTED
    else:
        yield plain_token(login.username, login.password)


def _scram_tokens(login: Login, nonce: str, derive: Derive) -> _Tokens:
    mechanism = SCRAM_MECHANISMS[login.mechanism]
    scram = ScramClient(
        mechanism, login.username, login.password, nonce, derive, is_token=login.is_by_delegation
    )
    challenge = yield scram.first()
    proved = yield scram.final(challenge)
    scram.check(proved)
