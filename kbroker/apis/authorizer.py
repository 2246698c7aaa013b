"""Authorizer: who may do what, in Kafka's words (KIP-11).

Whoever asks is a principal at an address; what is asked for is an operation on a resource. What a
request needs is said by its handler's registration; what a principal has been granted is known to
an implementation of `Authorizer` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kbroker.protocol.request import ConnectionInfo


class AclOperation(IntEnum):
    """The operations of ACLs; the values are those on the wire."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclResourceType(IntEnum):
    """The kinds of resources of ACLs; the values are those on the wire."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class AclResource(NamedTuple):
    """A thing that operations are done to."""

    type: AclResourceType
    name: str


CLUSTER = AclResource(AclResourceType.CLUSTER, "kafka-cluster")

SUPPORTED_OPERATIONS: Mapping[AclResourceType, frozenset[AclOperation]] = MappingProxyType(
    {
        AclResourceType.TOPIC: frozenset(
            {
                AclOperation.READ,
                AclOperation.WRITE,
                AclOperation.CREATE,
                AclOperation.DELETE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            }
        ),
        AclResourceType.GROUP: frozenset(
            {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}
        ),
        AclResourceType.CLUSTER: frozenset(
            {
                AclOperation.CREATE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.CLUSTER_ACTION,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
                AclOperation.IDEMPOTENT_WRITE,
            }
        ),
        AclResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.WRITE, AclOperation.DESCRIBE}),
    }
)
"""The operations that answers may list for a resource (KIP-430)."""


class Authorizer(Protocol):
    """Decides at once, on the event loop."""

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        ...

    def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether it may do this to at least one resource of that type (KIP-679)."""
        ...


class AllowAll:
    """Everybody may do everything: Kafka without `authorizer.class.name`."""

    def authorize(
        self,
        connection: ConnectionInfo,  # noqa: ARG002  everybody
        operation: AclOperation,  # noqa: ARG002  everything
        resource: AclResource,  # noqa: ARG002  to everything
    ) -> bool:
        return True

    def authorize_by_resource_type(
        self,
        connection: ConnectionInfo,  # noqa: ARG002  everybody
        operation: AclOperation,  # noqa: ARG002  everything
        resource_type: AclResourceType,  # noqa: ARG002  to everything
    ) -> bool:
        return True


ALLOW_ALL = AllowAll()


@cache
def operation_bits(operations: frozenset[AclOperation]) -> int:
    """Operations as answers have them: bit n stands for the operation n.

    >>> operation_bits(SUPPORTED_OPERATIONS[AclResourceType.TOPIC])
    3576
    """
    return sum(1 << operation for operation in operations)
