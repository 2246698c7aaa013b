"""The mechanisms that a listener offers for logins, made from its settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kbroker.clock import Clock
from kbroker.config.config_values import invalid_value
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.oauthbearer_settings import OAUTHBEARER
from kbroker.config.sasl_settings import MechanismSettings, sasl_settings
from kbroker.errors import ConfigError
from kbroker.python_names import loaded
from kbroker.sasl.exchange import Exchange, LoginRefusedError
from kbroker.sasl.login_gate import Offer
from kbroker.sasl.made_up_users import MadeUpUsers
from kbroker.sasl.plain import Check, PlainServer, check_of
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from kbroker.sasl.scram_server import ScramServer, ScramUser
from kbroker.server.system_clock import SystemClock

if TYPE_CHECKING:
    from kbroker.tokens.listener_judge import ListenerJudge

_NONCE_BYTES = 20
_HANDLER = "sasl.server.callback.handler.class"
# Kafka's own, which do what is done here without any.
_KAFKAS_HANDLERS = {
    "PLAIN": "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
    **dict.fromkeys(
        SCRAM_MECHANISMS,
        "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
    ),
}
_NOT_SERVED = ("GSSAPI",)


_TOKEN_SIGN = b"tokenauth="  # in the first message of SCRAM, by a delegation token (KIP-48)

FindToken = Callable[[ScramMechanism, str], ScramUser | None]
"""Finds a delegation token by its id; takes its time."""


class LoginMeans(NamedTuple):
    """The means of a broker that logins at all its listeners need."""

    find_user: Callable[[str, str], ScramUser | None]  # by mechanism and name
    make_up: Callable[[ScramMechanism, str], ScramCredential]  # for names without one
    judge: Callable[[str], ListenerJudge]  # of the tokens of a listener; raises ConfigError
    find_token: FindToken | None = None  # given if there are delegation tokens


def check_logins(config: KafkaConfig, listener: str) -> None:
    """Raise ConfigError if the logins of a listener cannot be offered as its settings want it."""

    def judge(listener: str) -> ListenerJudge:
        return judge_of(config, listener, SystemClock())

    make_up = partial(MadeUpUsers().credential, b"")
    offers_of(config, listener, LoginMeans(lambda _mechanism, _name: None, make_up, judge))


def judge_of(config: KafkaConfig, listener: str, clock: Clock) -> ListenerJudge:
    """Make the judge of a listener's tokens. Raises ConfigError."""
    from kbroker.tokens import listener_judge  # few brokers take tokens

    return listener_judge.judge_of(config, listener, clock)


def offers_of(config: KafkaConfig, listener: str, means: LoginMeans) -> Mapping[str, Offer]:
    """The offers of a listener by mechanism. Raises ConfigError."""
    return {
        mechanism: _offer(listener, mechanism, settings, means)
        for mechanism, settings in sasl_settings(config, listener).mechanisms.items()
    }


def _offer(listener: str, mechanism: str, settings: MechanismSettings, means: LoginMeans) -> Offer:
    if mechanism in _NOT_SERVED:
        raise ConfigError(
            f"listener {listener} offers logins by {mechanism}, which kbroker does not serve: set "
            f"{listener_prefix(listener)}sasl.enabled.mechanisms to PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512 or OAUTHBEARER"
        )
    if mechanism == OAUTHBEARER:
        return _bearer_offer(means.judge(listener), settings)
    handler = settings.handler if settings.handler != _KAFKAS_HANDLERS[mechanism] else None
    name = f"{listener_prefix(listener, mechanism)}{_HANDLER}"
    if mechanism != "PLAIN":
        if handler is not None:
            raise invalid_value(name, handler, "SCRAM checks logins by the users of the cluster")
        has_tokens = means.find_token is not None
        begin = partial(_begin_scram, mechanism, means)
        return Offer(begin, settings.max_reauth_ms, has_tokens, slow_sign=_TOKEN_SIGN)
    if handler is None:
        check = check_of(settings.passwords())
    else:
        check = partial(_checked, loaded(name, handler))
    return Offer(partial(PlainServer, check), settings.max_reauth_ms, is_slow=handler is not None)


def _bearer_offer(judge: ListenerJudge, settings: MechanismSettings) -> Offer:
    from kbroker.sasl.oauthbearer import OauthBearerServer

    begin = partial(OauthBearerServer, judge.judge)
    return Offer(begin, settings.max_reauth_ms, is_slow=judge.takes_time)


def _begin_scram(mechanism: str, means: LoginMeans) -> Exchange:
    scram, nonce = SCRAM_MECHANISMS[mechanism], secrets.token_urlsafe(_NONCE_BYTES)

    def find(name: str, is_token: bool) -> ScramUser | None:
        if not is_token:
            return means.find_user(mechanism, name)
        return None if means.find_token is None else means.find_token(scram, name)

    return ScramServer(scram, find, nonce, partial(means.make_up, scram))


def _checked(check: Check, username: str, password: str) -> bool:
    try:
        verdict: object = check(username, password)
    except BaseException as error:  # `sys.exit` of a check would end the broker
        # Not its text, which may have the password.
        raise LoginRefusedError(f"the check of passwords ended by {type(error).__name__}") from None
    if not isinstance(verdict, bool):  # most other values count as true: a coroutine does
        kind = type(verdict).__name__
        raise LoginRefusedError(f"the check of passwords gave a {kind}, neither True nor False")
    return verdict
