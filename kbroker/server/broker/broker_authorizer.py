"""The authorizer of a broker, if its settings ask for one: Kafka's, or one of the operator's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.apis.context import Services
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.python_names import loaded
from kbroker.server.broker.broker_storage import BrokerStorage
from kbroker.server.broker.operators_code import made

if TYPE_CHECKING:
    from kbroker.admin.acl_authorizer import AclAuthorizer
    from kbroker.admin.own_authorizer import OwnAuthorizer


def check_authorizer(config: KafkaConfig) -> None:
    """Raise ConfigError for settings of an authorizer that cannot be used."""
    from kbroker.config.authorizer_settings import AUTHORIZER, names_own, super_users_of

    if names_own(config):
        loaded(AUTHORIZER, config.security.authorizer_class_name)
    super_users_of(config)


def authorized(
    storage: BrokerStorage, services: Services, clock: Clock
) -> tuple[AclAuthorizer | OwnAuthorizer | None, Services]:
    """The authorizer, which has to be started, and the services that ask it. Raises ConfigError."""
    config = storage.config
    if not config.security.authorizer_class_name:
        return None, services
    # Brokers without one do without these.
    from kbroker.admin.acl_admin import AclAdmin
    from kbroker.admin.acl_authorizer import AclAuthorizer
    from kbroker.apis.audit_log import AuditLog
    from kbroker.config.authorizer_settings import names_own, super_users_of

    if names_own(config):
        own = _own(config, super_users_of(config).names, clock)
        return own, replace(services, authorizer=own, audit=AuditLog(clock))
    authorizer = AclAuthorizer(storage.zk, clock, super_users_of(config))
    acls = AclAdmin(storage.zk.tree, authorizer)
    audit = AuditLog(clock, authorizer.reason)
    return authorizer, replace(services, authorizer=authorizer, acls=acls, audit=audit)


def _own(config: KafkaConfig, super_users: frozenset[str], clock: Clock) -> OwnAuthorizer:
    from kbroker.admin.own_authorizer import ANSWER_S, OwnAuthorizer
    from kbroker.config.authorizer_settings import AUTHORIZER

    name = config.security.authorizer_class_name
    decider = made(AUTHORIZER, name, config, ("authorize",))
    return OwnAuthorizer(name, decider, super_users, clock, ANSWER_S)
