"""The listeners of a broker that its HTTP address follows: whose certificate it shows, and whose
users it asks for. Pure.

Law: if a listener has TLS, that address is https; if a listener takes names and passwords, that
address does. So nobody gets at a broker there who would not at its listeners.
"""

from __future__ import annotations

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.sasl_settings import sasl_settings
from kbroker.model import WITH_LOGINS, WITH_TLS, EndPoint

PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def login_listener(config: KafkaConfig) -> EndPoint | None:
    """The first listener that takes names and passwords; None if no listener does. Raises
    ConfigError.
    """
    return next(
        (
            each
            for each in config.end_points()
            if each.security_protocol in WITH_LOGINS
            and not sasl_settings(config, each.listener_name)
            .mechanisms.keys()
            .isdisjoint(PASSWORD_MECHANISMS)
        ),
        None,
    )


def tls_listener(config: KafkaConfig) -> EndPoint | None:
    """The listener whose certificate is shown: that of the logins, else the first with TLS; None if
    no listener has TLS. Raises ConfigError.
    """
    of_logins = login_listener(config)
    candidates = ([] if of_logins is None else [of_logins]) + list(config.end_points())
    return next((each for each in candidates if each.security_protocol in WITH_TLS), None)
