"""The authorizer of a broker, if its settings ask for one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.apis.context import Services
from kbroker.clock import Clock
from kbroker.server.broker.broker_storage import BrokerStorage

if TYPE_CHECKING:
    from kbroker.admin.acl_authorizer import AclAuthorizer


def authorized(
    storage: BrokerStorage, services: Services, clock: Clock
) -> tuple[AclAuthorizer | None, Services]:
    """The authorizer, which has to be started, and the services that ask it. Raises ConfigError."""
    if not storage.config.security.authorizer_class_name:
        return None, services
    # Brokers without one do without these.
    from kbroker.admin.acl_admin import AclAdmin
    from kbroker.admin.acl_authorizer import AclAuthorizer
    from kbroker.apis.audit_log import AuditLog
    from kbroker.config.authorizer_settings import super_users_of

    super_users = super_users_of(storage.config)
    authorizer = AclAuthorizer(storage.zk, clock, super_users)
    acls = AclAdmin(storage.zk.tree, authorizer)
    audit = AuditLog(clock)
    return authorizer, replace(services, authorizer=authorizer, acls=acls, audit=audit)
