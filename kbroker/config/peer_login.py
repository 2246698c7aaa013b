"""PeerLogin: what a broker logs in with at the others of its cluster, as Kafka 3.9 reads it: the
mechanism is that of `sasl.mechanism.inter.broker.protocol`, and what it needs stands in the JAAS
entry by which the own listener lets others in. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.config.config_values import invalid_value
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.listener_overrides import listener_prefix
from kbroker.config.sasl_settings import sasl_settings
from kbroker.errors import ConfigError

MECHANISM = "sasl.mechanism.inter.broker.protocol"
_OF_TOKENS = "OAUTHBEARER"
_SERVED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _OF_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLogin:
    """A mechanism, and the options of its JAAS entry; `setting` has them."""

    mechanism: str
    options: Mapping[str, str] = field(repr=False)
    setting: str

    @property
    def is_by_token(self) -> bool:
        return self.mechanism == _OF_TOKENS


def peer_login(config: KafkaConfig, listener: str) -> PeerLogin:
    """The login at the listener of that name of other brokers. Raises ConfigError."""
    mechanism = config.sasl.sasl_mechanism_inter_broker_protocol
    offered = sasl_settings(config, listener).mechanisms
    if mechanism not in offered:
        enabled, _ = config.listener_setting("sasl.enabled.mechanisms", listener)
        raise invalid_value(
            MECHANISM, mechanism, f"it has to be one of {enabled}, {', '.join(offered) or 'none'}"
        )
    if mechanism not in _SERVED:
        raise invalid_value(
            MECHANISM, mechanism, f"brokers log in at each other by {', '.join(_SERVED)}"
        )
    login = PeerLogin(
        mechanism=mechanism,
        options=offered[mechanism].options,
        setting=f"{listener_prefix(listener, mechanism)}sasl.jaas.config",
    )
    has_user = bool(login.options.get("username")) and "password" in login.options
    if not has_user and not login.is_by_token:
        raise ConfigError(
            f"{login.setting} has no user by whom this broker logs in at others: add "
            'username="NAME" password="PASSWORD"'
        )
    return login
