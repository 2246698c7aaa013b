"""OauthBearerServer: the server's side of OAUTHBEARER (RFC 7628), and the client's message. Pure.

Law: this file takes messages apart; whether a token is good is for a Judge to say. Tokens are in no
reason and in no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kbroker.sasl.exchange import Identity, LoginRefusedError, Turn
from kbroker.sasl.sasl_names import SASL_NAME, escaped, unescaped

_SEPARATOR = "\x01"
_AUTH = "auth"
_NO_EXTENSIONS: Mapping[str, str] = MappingProxyType({})
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{SASL_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_BEARER = re.compile(r"bearer +(?P<token>[A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)  # RFC 6750


class BearerLogin(NamedTuple):
    """A token as a client presents it."""

    token: str
    authzid: str = ""  # empty: none
    extensions: Mapping[str, str] = _NO_EXTENSIONS


class TokenRefusal(NamedTuple):
    """A token that is not taken, as RFC 7628 has it answered."""

    status: str  # such as "invalid_token", of RFC 6750
    reason: str  # for the log
    scope: str = ""  # that a token would need
    openid_configuration: str = ""  # address

    def as_json(self) -> str:
        """Write the answer to the client."""
        fields = {
            "status": self.status,
            "scope": self.scope,
            "openid-configuration": self.openid_configuration,
        }
        given = {name: value for name, value in fields.items() if value}
        return json.dumps(given, separators=(", ", ":"))  # as Kafka writes it


Judge = Callable[[BearerLogin], Identity | TokenRefusal]
"""Says who a token is for, or why it is not taken."""


class OauthBearerServer:
    """An exchange of one message, or of two where the first is refused: the client takes note."""

    def __init__(self, judge: Judge) -> None:
        """`judge` is asked once, about a token that is not empty."""
        self._judge = judge
        self._refusal: TokenRefusal | None = None

    def receive(self, token: bytes) -> Turn:
        """Take a message. Raises LoginRefusedError."""
        if self._refusal is not None:
            # Apache would take another token instead of the byte that RFC 7628 asks for.
            raise LoginRefusedError(self._refusal.reason, said=self._refusal.as_json())
        login = parse_bearer_login(token)
        verdict = self._judge(login)
        if isinstance(verdict, TokenRefusal):
            self._refusal = verdict
            return Turn(verdict.as_json().encode())
        if login.authzid not in ("", verdict.name):
            raise LoginRefusedError(
                "it asks to act for another",
                said="Authentication failed: Client requested an authorization id "
                f"({login.authzid}) that is different from the token's principal name "
                f"({verdict.name})",
            )
        return Turn(b"", verdict)


def parse_bearer_login(message: bytes) -> BearerLogin:
    """Read the client's message. Raises LoginRefusedError."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise LoginRefusedError("its message is not text") from None
    if found is None:
        raise LoginRefusedError("its message is not one of OAUTHBEARER")
    pairs = [pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR)[:-1]]
    extensions = dict(pairs)
    bearer = _BEARER.fullmatch(extensions.pop(_AUTH, ""))
    if bearer is None:
        raise LoginRefusedError("its message has no bearer token")
    if len(pairs) != len(extensions) + 1:
        raise LoginRefusedError("its message names something twice")
    return BearerLogin(bearer["token"], unescaped(found["authzid"] or ""), extensions)


def bearer_message(login: BearerLogin) -> bytes:
    """Make the client's message. Raises ValueError if no broker could read it."""
    authzid = f"a={escaped(login.authzid)}" if login.authzid else ""
    pairs = {_AUTH: f"Bearer {login.token}", **login.extensions}
    text = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
    message = f"n,{authzid},{_SEPARATOR}{text}{_SEPARATOR}".encode()
    try:
        is_whole = parse_bearer_login(message) == login
    except LoginRefusedError:
        is_whole = False
    if not is_whole:
        raise ValueError("a token or an extension has a sign that OAUTHBEARER cannot carry")
    return message
