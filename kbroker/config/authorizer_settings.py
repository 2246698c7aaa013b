"""`authorizer.class.name`, and who needs no rules, as Kafka's authorizers read it. Pure."""

from __future__ import annotations

from kbroker.acl.acl_rules import SuperUsers
from kbroker.config.config_values import ConfigType, invalid_value, parse_text
from kbroker.config.foreign_settings import ALLOW_EVERYONE, SUPER_USERS
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError

AUTHORIZER = "authorizer.class.name"
KAFKAS_AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
_OTHER_TREE = "authorizer.zookeeper."


def names_own(config: KafkaConfig) -> bool:
    """Whether the authorizer is one of the operator's, in Python, as `module:name`. Raises
    ConfigError for one that is neither that nor Kafka's.
    """
    name = config.security.authorizer_class_name
    if name not in KAFKAS_AUTHORIZERS and ":" not in name:
        reason = (
            f"rules are kept here as by {' and '.join(KAFKAS_AUTHORIZERS)}; one of your own is a "
            "class of Python, named as module:name"
        )
        raise invalid_value(AUTHORIZER, name, reason)
    return name not in KAFKAS_AUTHORIZERS


def super_users_of(config: KafkaConfig) -> SuperUsers:
    """The principals that need no rules of the authorizer. Raises ConfigError."""
    for other in config.texts:
        if other.startswith(_OTHER_TREE):
            raise ConfigError(
                f"{other}: the rules of access are read from the tree of this broker alone"
            )
    is_open = parse_text(
        ALLOW_EVERYONE, ConfigType.BOOLEAN, config.texts.get(ALLOW_EVERYONE, "false")
    )
    return SuperUsers(_principals(config.texts.get(SUPER_USERS, "")), is_open is True)


def _principals(text: str) -> frozenset[str]:
    named = [each.strip() for each in text.rstrip(";").split(";")] if text.strip() else []
    for each in named:
        if ":" not in each:
            reason = f"{each!r} is not like User:admin; semicolons stand between several"
            raise invalid_value(SUPER_USERS, text, reason)
    return frozenset(named)
