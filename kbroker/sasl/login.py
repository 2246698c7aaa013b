"""Login: what a client has to log in with. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.sasl.oauthbearer import BearerLogin

TokenSource = Callable[[], "BearerLogin"]
"""Gives a token that is valid for now; it may take its time. Raises NoTokenError."""


class NoTokenError(OSError):
    """A login for which no token is to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user, and the mechanism by which the user logs in: with a name and a password, with the id
    of a delegation token and its signature in their place (SCRAM), or for OAUTHBEARER with what the
    source of tokens gives.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    is_by_delegation: bool = False  # the name is that of a token (KIP-48)
    tokens: TokenSource | None = field(default=None, repr=False)
