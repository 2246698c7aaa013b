"""OauthbearerSettings: the judge of the tokens of OAUTHBEARER at a listener.

Law: nothing is taken on trust because a setting is missing: without keys, issuer or audience the
broker does not start, and unsigned tokens need a setting of their own and a listener that only this
machine reaches. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from kbroker.config.config_values import ConfigValue, invalid_value
from kbroker.config.http_addresses import is_loopback
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.sasl_settings import sasl_settings
from kbroker.config.web_urls import check_web_url
from kbroker.errors import ConfigError

OAUTHBEARER = "OAUTHBEARER"
UNSECURED = "kbroker.oauthbearer.unsecured"
_HANDLER = "sasl.server.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_SIGNED = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
_UNSIGNED = (
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    f"{_PACKAGE}OAuthBearerUnsecuredValidatorCallbackHandler",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    """Where the keys of the issuer are, and what its tokens have to say."""

    jwks_url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    connect_timeout_ms: int | None
    read_timeout_ms: int | None
    issuer: str
    audiences: frozenset[str]
    skew_ms: int
    sub_claim: str
    scope_claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthbearerSettings:
    """The judge of a listener's tokens: the keys of an issuer, a `handler` of Python
    (`module:name`), or with neither of them nobody: tokens are unsigned. `options` are those of the
    JAAS entry.
    """

    issuer: IssuerSettings | None
    handler: str | None
    options: Mapping[str, str] = field(repr=False)


class _Settings:
    """The settings for OAUTHBEARER of one listener, with the names that they are set by."""

    def __init__(self, config: KafkaConfig, listener: str) -> None:
        self._config, self._listener = config, listener

    def name(self, base: str) -> str:
        return self._get(base)[0]

    def text(self, base: str) -> str:
        return cast("str | None", self._get(base)[1]) or ""

    def number(self, base: str, least: int = 1) -> int:
        name, value = self._get(base)
        number = cast("int", value)
        if number < least:
            raise invalid_value(name, number, f"it is at least {least}")
        return number

    def time_limit(self, base: str) -> int | None:
        return cast("int | None", self._get(base)[1])

    def texts(self, base: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._get(base)[1])

    def is_set(self, base: str) -> bool:
        return self._get(base)[1] not in (None, "", (), ("",))

    def _get(self, base: str) -> tuple[str, ConfigValue]:
        return self._config.listener_setting(base, self._listener, OAUTHBEARER)


def oauthbearer_settings(config: KafkaConfig, listener: str) -> OauthbearerSettings:
    """The judge of a listener, by its name. Raises ConfigError with a sentence."""
    mechanism = sasl_settings(config, listener).mechanisms[OAUTHBEARER]
    settings, handler = _Settings(config, listener), mechanism.handler
    handler_name = f"{listener_prefix(listener, OAUTHBEARER)}{_HANDLER}"
    options = mechanism.options
    if handler is not None and ":" in handler:
        return OauthbearerSettings(issuer=None, handler=handler, options=options)
    if handler is not None and handler not in (*_SIGNED, *_UNSIGNED):
        raise invalid_value(
            handler_name,
            handler,
            f"classes of Java are not run here: give {_SIGNED[0]}, which means the judge of signed "
            "tokens that is built in, or module:name of Python",
        )
    takes_unsigned = config.kbroker.kbroker_oauthbearer_unsecured
    if handler in _UNSIGNED and not takes_unsigned:
        raise invalid_value(
            handler_name,
            handler,
            f"it takes tokens that nobody signed: {UNSECURED}=true says that this is meant",
        )
    # A listener that was given a part of its issuer is one for signed tokens.
    has_issuer = any(settings.is_set(f"{_BASE}{base}") for base in _OF_ISSUER)
    if handler in _UNSIGNED or (handler is None and takes_unsigned and not has_issuer):
        _check_loopback(config, listener)
        return OauthbearerSettings(issuer=None, handler=None, options=options)
    return OauthbearerSettings(issuer=_issuer(settings), handler=None, options=options)


def _issuer(settings: _Settings) -> IssuerSettings:
    for base, what in _OF_ISSUER.items():
        if not settings.is_set(f"{_BASE}{base}"):
            raise ConfigError(
                f"OAUTHBEARER takes no token without {settings.name(f'{_BASE}{base}')}: set it to "
                f"{what}"
            )
    url = settings.text(f"{_BASE}jwks.endpoint.url")
    check_web_url(settings.name(f"{_BASE}jwks.endpoint.url"), url)
    return IssuerSettings(
        jwks_url=url,
        refresh_ms=settings.number(f"{_BASE}jwks.endpoint.refresh.ms"),
        retry_backoff_ms=settings.number(f"{_BASE}jwks.endpoint.retry.backoff.ms"),
        retry_backoff_max_ms=settings.number(f"{_BASE}jwks.endpoint.retry.backoff.max.ms"),
        connect_timeout_ms=settings.time_limit("sasl.login.connect.timeout.ms"),
        read_timeout_ms=settings.time_limit("sasl.login.read.timeout.ms"),
        issuer=settings.text(f"{_BASE}expected.issuer"),
        audiences=frozenset(filter(None, settings.texts(f"{_BASE}expected.audience"))),
        skew_ms=1000 * settings.number(f"{_BASE}clock.skew.seconds", least=0),
        sub_claim=settings.text(f"{_BASE}sub.claim.name"),
        scope_claim=settings.text(f"{_BASE}scope.claim.name"),
    )


def _check_loopback(config: KafkaConfig, listener: str) -> None:
    for end_point in config.end_points():
        if end_point.listener_name == listener and not is_loopback(end_point.host):
            raise ConfigError(
                f"{UNSECURED}=true is for listeners that only this machine reaches, and "
                f"{end_point} is open to others: there, tokens have to be signed"
            )


_BASE = "sasl.oauthbearer."
_OF_ISSUER = {
    "jwks.endpoint.url": "the address of the issuer's keys, https://HOST/PATH or file:///PATH",
    "expected.issuer": "the iss of its tokens",
    "expected.audience": "the aud of tokens that are meant for this cluster",
}
