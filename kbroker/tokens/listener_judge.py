"""The judge of a listener's tokens, made of its settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.oauthbearer_settings import (
    OAUTHBEARER,
    UNSECURED,
    IssuerSettings,
    oauthbearer_settings,
)
from kbroker.errors import ConfigError
from kbroker.python_names import loaded
from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, Judge, TokenRefusal
from kbroker.security_extra import check_security_extra
from kbroker.tokens.reading_schedule import ReadingSchedule
from kbroker.tokens.token_claims import ExpectedClaims
from kbroker.tokens.unsecured_tokens import UnsecuredTokenJudge
from kbroker.tokens.web_fetch import OK, WebPlace, fetch
from kbroker.tokens.web_trust import web_trust

if TYPE_CHECKING:
    from ssl import SSLContext

_log = logging.getLogger(__name__)


class ListenerJudge(NamedTuple):
    """A judge, and the reading of its keys, which goes on from `start` to `close`."""

    judge: Judge
    takes_time: bool = False  # to judge; else it may be asked where nobody may wait
    start: Callable[[], None] = lambda: None
    read_once: Callable[[], None] = lambda: None  # returns when there are keys, or none for now
    close: Callable[[], None] = lambda: None


def judge_of(config: KafkaConfig, listener: str, clock: Clock) -> ListenerJudge:
    """Make the judge of a listener that offers OAUTHBEARER.

    Raises ConfigError with a sentence, also for a file of keys that cannot be used.
    """
    settings = oauthbearer_settings(config, listener)
    prefix = listener_prefix(listener, OAUTHBEARER)
    if settings.handler is not None:
        handler = loaded(f"{prefix}sasl.server.callback.handler.class", settings.handler)
        return ListenerJudge(partial(_judged, handler), takes_time=True)
    try:
        if settings.issuer is None:
            unsecured = UnsecuredTokenJudge(settings.options, clock.now_ms)
            return ListenerJudge(unsecured, start=partial(_warn, listener))
        trust = web_trust(settings.options)
    except ConfigError as error:
        raise ConfigError(f"{prefix}sasl.jaas.config: {error}") from error
    for module in ("cryptography", "jwt"):
        check_security_extra(module, f"{OAUTHBEARER} at listener {listener}")
    return _of_signed_tokens(settings.issuer, trust, clock)


def _of_signed_tokens(
    issuer: IssuerSettings, trust: SSLContext | None, clock: Clock
) -> ListenerJudge:
    # They stand on PyJWT, which is there by now.
    from kbroker.tokens.key_set import KeySet
    from kbroker.tokens.published_keys import PublishedKeys
    from kbroker.tokens.token_judge import SignedTokenJudge

    place = WebPlace.of(issuer.jwks_url, trust, issuer.connect_timeout_ms, issuer.read_timeout_ms)
    schedule = ReadingSchedule(
        issuer.refresh_ms,
        issuer.retry_backoff_ms,
        issuer.retry_backoff_max_ms,
        clock.monotonic_ms(),
    )
    known = None
    if place.is_file:
        try:
            known = KeySet.parse(fetch(place).content)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"the keys of tokens at {place.url} cannot be used: {reason}"
            ) from error
        schedule.succeeded(clock.monotonic_ms())
    keys = PublishedKeys(place.url, lambda: _content(place), schedule, clock, known)
    expected = ExpectedClaims(
        issuer=issuer.issuer,
        audiences=issuer.audiences,
        skew_ms=issuer.skew_ms,
        sub_claim=issuer.sub_claim,
        scope_claim=issuer.scope_claim,
    )
    judge = SignedTokenJudge(keys, expected, clock.now_ms)
    return ListenerJudge(judge, start=keys.start, read_once=keys.read_once, close=keys.close)


def _judged(judge: Judge, login: BearerLogin) -> Identity | TokenRefusal:
    """Ask a judge of Python, whose errors and other values are refusals."""
    try:
        verdict: object = judge(login)
    except BaseException as error:  # `sys.exit` of a judge would end the broker
        # Not its text, which may have the token.
        return TokenRefusal("invalid_token", f"the judge of tokens ended by {type(error).__name__}")
    if not isinstance(verdict, Identity | TokenRefusal):
        return TokenRefusal(
            "invalid_token", "the judge of tokens gave neither Identity nor refusal"
        )
    return verdict


def _warn(listener: str) -> None:
    _log.warning(
        "%s=true: listener %s takes tokens that nobody signed, so that anybody on this machine is "
        "who they say",
        UNSECURED,
        listener,
    )


def _content(place: WebPlace) -> bytes:
    answer = fetch(place)
    if answer.status != OK:
        raise OSError(f"it answers with status {answer.status}")
    return answer.content
