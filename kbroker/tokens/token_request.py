"""TokenRequest: a client's request for a token by its own credentials (RFC 6749, section 4.4), and
the time at which the next one is fetched. Pure.

Law: no error holds a secret or a token.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

from kbroker.tokens.json_token import parse_token, seconds_as_ms

_SAID_MAX = 200  # characters of what a server says


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """The credentials of a client, and the scope it asks for; empty: the usual one. `is_encoded`:
    they are written as the RFC has it, which some servers do not read.
    """

    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    is_encoded: bool = False

    def form(self) -> bytes:
        """Return the content of the request."""
        fields = {"grant_type": "client_credentials"}
        if self.scope:
            fields["scope"] = self.scope
        return urlencode(fields).encode()

    def headers(self) -> dict[str, str]:
        """Return the headers of the request, which have the credentials."""
        parts = (self.client_id, self.client_secret)
        text = ":".join(map(quote_plus, parts) if self.is_encoded else parts)
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {b64encode(text.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }


class IssuedToken(NamedTuple):
    """A token and its life, in milliseconds of the clock on the wall."""

    text: str
    begins_ms: int
    ends_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshWindow:
    """When a token is old: the `sasl.login.refresh.` settings, as shares of its life and in ms."""

    factor: float = 0.8
    jitter: float = 0.05
    min_period_ms: int = 60_000
    buffer_ms: int = 300_000

    def opens_ms(self, token: IssuedToken, now_ms: int, random: float) -> float:
        """Return from when on the next token is wanted; `random` is from 0 to 1. As in Kafka a life
        that is too short for the period and the buffer counts without them.
        """
        life_ms = token.ends_ms - token.begins_ms
        wanted_ms = token.begins_ms + life_ms * (self.factor + self.jitter * random)
        earliest_ms, latest_ms = now_ms + self.min_period_ms, token.ends_ms - self.buffer_ms
        if earliest_ms > latest_ms:
            return wanted_ms
        return min(max(wanted_ms, earliest_ms), latest_ms)


def issued_token(text: str, now_ms: int) -> IssuedToken:
    """Read when a token ends. Raises ValueError for one that says nothing of it."""
    claims = parse_token(text).claims
    ends_ms = seconds_as_ms(claims.get("exp"))
    if ends_ms is None:
        raise ValueError("it does not say when it ends (exp)")
    begins_ms = seconds_as_ms(claims.get("iat"))
    return IssuedToken(text, now_ms if begins_ms is None else begins_ms, ends_ms)


def token_in(answer: bytes) -> str:
    """Return the token in a server's answer. Raises ValueError."""
    token = _fields(answer).get("access_token")
    if not isinstance(token, str) or not token.strip():
        raise ValueError("its answer has no access_token")
    return token.strip()


def reason_in(answer: bytes) -> str:
    """Return the reason in a server's refusal (RFC 6749, section 5.2), in brackets; empty if it has
    none.
    """
    fields = _fields(answer)
    texts = [fields.get(name) for name in ("error", "error_description")]
    said = ": ".join(each for each in texts if isinstance(each, str))
    return f" ({''.join(filter(str.isprintable, said))[:_SAID_MAX]})" if said else ""


def _fields(answer: bytes) -> dict[str, object]:
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
