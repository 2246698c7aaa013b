"""Authorizer: who may do what, in Kafka's words (KIP-11).

Whoever asks is a principal at an address; what is asked for is an operation on a resource. What a
request needs is said by its handler's registration; what a principal has been granted is known to
an implementation of `Authorizer` alone.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any, ClassVar, Protocol

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.protocol.request import ConnectionInfo


class Purpose(Enum):
    """The purposes of a question, which say how loud the answer is told (`logIfDenied`)."""

    TO_DO = "do"  # what was asked for
    TO_CHOOSE = "choose"  # what is shown, or which right lets it be done
    TO_SHOW = "show"  # which operations the client could do


class Authorizer(Protocol):
    """Decides at once, on the event loop, but for what many rules may have to be looked at for."""

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        ...

    async def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether it may do this to at least one resource of that type (KIP-679)."""
        ...


class RuledAuthorizer(Authorizer, Protocol):
    """An authorizer whose decisions follow from its rules, and cost little.

    It may be asked by shortcuts, and answers may be kept as long as its rules stay as they are. Any
    other is asked before handlers only, see `ruled`.
    """

    has_rules: ClassVar[bool]
    """True: the mark of such an authorizer."""

    def permits(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether `authorize` would say yes. Who gets a no here leaves the request to its handler,
        which asks that, and tells of the refusal.
        """
        ...

    def rules_for(self, connection: ConnectionInfo) -> object:
        """A key that is equal to another one only if both stand for the same decisions about
        everything; None if nothing that rests on them is to be kept.
        """
        ...


def ruled(authorizer: Authorizer) -> RuledAuthorizer | None:
    """The authorizer as one that shortcuts may ask; None if it is not one that says so."""
    found: Any = authorizer
    return found if getattr(type(authorizer), "has_rules", False) is True else None


class AllowAll:
    """Everybody may do everything: Kafka without `authorizer.class.name`."""

    def authorize(
        self,
        connection: ConnectionInfo,  # noqa: ARG002  everybody
        operation: AclOperation,  # noqa: ARG002  everything
        resource: AclResource,  # noqa: ARG002  to everything
    ) -> bool:
        return True

    async def authorize_by_resource_type(
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
