"""Sources of tokens to log in with: a web server that is asked, a file that is read, and tokens
that nobody signs.

Law: no error holds a secret or a token. They block, so they are asked on threads.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import random
from typing import Any

from kbroker.errors import ConfigError
from kbroker.sasl.login import NoTokenError
from kbroker.sasl.oauthbearer import BearerLogin
from kbroker.tokens.token_request import (
    IssuedToken,
    RefreshWindow,
    TokenRequest,
    issued_token,
    reason_in,
    token_in,
)
from kbroker.tokens.web_fetch import OK, WebPlace, fetch

_log = logging.getLogger(__name__)

NowMs = Callable[[], int]  # by the clock on the wall
_FAILING = 500  # the server and not us, from this status on


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlace:
    """Where tokens are fetched: `request` is None for a file. A server that fails is asked again
    after `backoff_ms`, which doubles, for `backoff_max_ms` altogether.
    """

    place: WebPlace
    request: TokenRequest | None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    window: Callable[[], RefreshWindow] = RefreshWindow  # that may change
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000


class FetchedTokens:
    """A TokenSource that any thread may ask: it keeps a token, and fetches the next one on a thread
    while that one is good, so that nobody waits for a server then.
    """

    def __init__(
        self, tokens: TokenPlace, now_ms: NowMs, wait: Callable[[float], None] = time.sleep
    ) -> None:
        """`now_ms` is by the clock on the wall; `wait` gets seconds."""
        self._tokens = tokens
        self._now_ms = now_ms
        self._wait = wait
        self._one_at_a_time = threading.Lock()
        self._kept: IssuedToken | None = None
        self._renew_ms = 0.0

    def __call__(self) -> BearerLogin:
        """Return a token that is valid for now. Raises NoTokenError."""
        kept = self._valid()
        if kept is None:
            with self._one_at_a_time:
                kept = self._valid() or self._renewed()
        elif self._now_ms() >= self._renew_ms and self._one_at_a_time.acquire(blocking=False):
            try:
                threading.Thread(target=self._renew, name="kbroker-token", daemon=True).start()
            except RuntimeError:  # the system has no thread for now
                self._one_at_a_time.release()
        return BearerLogin(kept.text, extensions=self._tokens.extensions)

    def _valid(self) -> IssuedToken | None:
        kept = self._kept
        return kept if kept is not None and self._now_ms() < kept.ends_ms else None

    def _renew(self) -> None:
        """Fetch the next token; the lock is held, and is given back."""
        try:
            self._renewed()
        except NoTokenError as error:
            self._renew_ms = self._now_ms() + self._tokens.backoff_max_ms
            _log.warning("the token that is there stays in use until it ends: %s", error)
        finally:
            self._one_at_a_time.release()

    def _renewed(self) -> IssuedToken:
        try:
            text, now_ms = self._fetched(), self._now_ms()
            self._kept = kept = issued_token(text, now_ms)
        except (OSError, ValueError) as error:
            url = self._tokens.place.url
            raise NoTokenError(f"there is no token from {url}: {_said(error)}") from None
        self._renew_ms = self._tokens.window().opens_ms(kept, now_ms, random())
        return kept

    def _fetched(self) -> str:
        """Fetch a token, again and again while the server fails. Raises OSError, ValueError."""
        left_ms, backoff_ms = self._tokens.backoff_max_ms, self._tokens.backoff_ms
        while True:
            try:
                return self._asked()
            except _RefusedError:
                raise
            except OSError:
                if self._tokens.request is None or left_ms < backoff_ms:
                    raise
            self._wait(backoff_ms / 1000)
            left_ms, backoff_ms = left_ms - backoff_ms, 2 * backoff_ms

    def _asked(self) -> str:
        place, request = self._tokens.place, self._tokens.request
        if request is None:
            return fetch(place).content.decode("ascii").strip()
        answer = fetch(place, request.form(), request.headers())
        if answer.status == OK:
            return token_in(answer.content)
        said = f"it answers with status {answer.status}{reason_in(answer.content)}"
        raise OSError(said) if answer.status >= _FAILING else _RefusedError(said)


class _RefusedError(OSError):
    """The server does not give a token to this client, whenever it is asked."""


class UnsecuredTokens:
    """A TokenSource of tokens that nobody signs, by the options of Kafka's
    OAuthBearerUnsecuredLoginCallbackHandler.
    """

    def __init__(
        self, options: Mapping[str, str], extensions: Mapping[str, str], now_ms: NowMs
    ) -> None:
        """Raises ConfigError for options that name no user, or that cannot be read."""
        self._claims: dict[str, Any] = {}
        for name, text in options.items():
            kind, _, claim = name.removeprefix(UNSECURED).partition("Claim_")
            if name.startswith(UNSECURED) and claim and kind in _CLAIMS:
                try:
                    self._claims[claim] = _CLAIMS[kind](text)
                except ValueError:
                    raise ConfigError(f"the option {name} is not a number") from None
        if not self._claims.get(options.get(f"{UNSECURED}PrincipalClaimName", "sub")):
            raise ConfigError(f'there is no user: add {UNSECURED}StringClaim_sub="NAME"')
        seconds = options.get(f"{UNSECURED}LifetimeSeconds", "3600")
        if not (seconds.isascii() and seconds.isdecimal()):
            raise ConfigError(f"the option {UNSECURED}LifetimeSeconds is not a number")
        self._life_s = int(seconds)
        self._extensions = extensions
        self._now_ms = now_ms

    def __call__(self) -> BearerLogin:
        """Return a token that begins now."""
        now_s = self._now_ms() / 1000
        claims = {"iat": now_s, "exp": now_s + self._life_s, **self._claims}
        parts = [_url64(json.dumps(each).encode()) for each in ({"alg": "none"}, claims)]
        return BearerLogin(f"{parts[0]}.{parts[1]}.", extensions=self._extensions)


UNSECURED = "unsecuredLogin"
_CLAIMS: dict[str, Callable[[str], Any]] = {
    "String": str,
    "Number": float,
    "List": lambda text: text[1:].split(text[0]) if text else [],  # the first sign parts the rest
}


def _url64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
