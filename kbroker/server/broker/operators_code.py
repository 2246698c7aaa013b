"""Objects of the operator's own, made by what a setting names in Python."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from kbroker.config.config_values import invalid_value
from kbroker.config.kafka_config import KafkaConfig
from kbroker.python_names import loaded

QUOTA_CALLBACK = "client.quota.callback.class"


def check_quota_callback(config: KafkaConfig) -> None:
    """Raise ConfigError for a class of quotas that is not there."""
    name = config.quota.client_quota_callback_class
    if name is not None:
        loaded(QUOTA_CALLBACK, name)


def made(setting: str, name: str, config: KafkaConfig, methods: tuple[str, ...]) -> Any:
    """Return the object with these methods that a function or class makes of the broker's settings,
    texts by name. Raises ConfigError.
    """
    make = loaded(setting, name)
    try:
        found = make(MappingProxyType(dict(config.texts)))
    except BaseException as error:  # whatever it raises, `sys.exit` too
        raise invalid_value(setting, name, f"it cannot be made: {error!r}") from error
    for method in methods:
        if not callable(getattr(found, method, None)):
            raise invalid_value(setting, name, f"what it makes has no method {method}")
    return found
