"""The rights that Kafka 3.9 gives to nodes under `zookeeper.set.acl`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Rights(Enum):
    """The kinds of rights; "makers" are all those who log in as the one who made the node."""

    OPEN = "everybody may do everything"
    READABLE = "makers may do everything, others read"
    SECRET = "makers may do everything, others nothing"  # noqa: S105  no password


RightsOf = Callable[[str], Rights]  # by the path of a node, without a chroot

# What brokers keep at the top of their tree, which others may share if it has no chroot.
BROKERS_NODES = (
    "/admin", "/brokers", "/cluster", "/config", "/consumers", "/controller", "/controller_epoch",
    "/delegation_token", "/feature", "/isr_change_notification", "/kafka-acl", "/kafka-acl-changes",
    "/kafka-acl-extended", "/kafka-acl-extended-changes", "/kbroker", "/latest_producer_id_block",
    "/log_dir_event_notification", "/migration",
)  # fmt: skip
# Passwords and secrets lie there, if only as hashes or encrypted.
_SECRET = (
    "/config/brokers",
    "/config/users",
    "/delegation_token/tokens",
    "/kbroker/login_secret",  # our own
)
# Consumers of former times write there, with any login.
_OPEN = "/consumers"


def open_rights(_path: str) -> Rights:
    return Rights.OPEN


def secure_rights(path: str) -> Rights:
    """The rights of a node by its path."""
    if path == _OPEN:
        return Rights.OPEN
    return Rights.SECRET if path.startswith(_SECRET) else Rights.READABLE
