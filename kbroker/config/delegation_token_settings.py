"""The settings of delegation tokens: there are some if brokers have a secret to sign them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbroker.config.kafka_config import KafkaConfig
from kbroker.delegation_tokens.delegation_token import Lifetimes


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenSettings:
    """`secret` is the same at all brokers of a cluster."""

    secret: bytes = field(repr=False)
    lifetimes: Lifetimes
    check_interval_ms: int


def delegation_token_settings(config: KafkaConfig) -> DelegationTokenSettings | None:
    """The settings; None if there are no tokens, as nobody could sign them."""
    security = config.security
    secret = security.secret_of_tokens
    if not secret:
        return None
    return DelegationTokenSettings(
        secret=secret.encode(),
        lifetimes=Lifetimes(
            security.delegation_token_expiry_time_ms, security.delegation_token_max_lifetime_ms
        ),
        check_interval_ms=security.delegation_token_expiry_check_interval_ms,
    )
