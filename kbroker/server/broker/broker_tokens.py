"""The delegation tokens of a broker, if its settings have a secret to sign them."""

from __future__ import annotations

from dataclasses import replace

from kbroker.apis.context import Services
from kbroker.clock import ClockWithTimer
from kbroker.server.broker.broker_storage import BrokerStorage


def with_tokens(storage: BrokerStorage, services: Services, clock: ClockWithTimer) -> Services:
    """Return the services with tokens, which have to be started, if there are any."""
    if not storage.config.security.secret_of_tokens:
        return services
    # Few brokers have them.
    from kbroker.admin.delegation_token_manager import DelegationTokenManager
    from kbroker.config.delegation_token_settings import delegation_token_settings

    settings = delegation_token_settings(storage.config)
    assert settings is not None, "they are there with a secret"
    controller = services.controller
    tokens = DelegationTokenManager(storage.zk, clock, settings, lambda: controller.is_active)
    return replace(services, tokens=tokens)
