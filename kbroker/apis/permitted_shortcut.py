"""Shortcuts under an authorizer: all that their requests need is asked before each of them.

Law: no decision is kept. What is kept are the questions: the needs of the API's registration, put
to what all requests of a template repeat. So rules, principal and address are those of the moment,
and whatever is not granted goes to the handler, which refuses it in its own words. An API has no
shortcuts under an authorizer if one of its needs cannot say what it would ask, or looks at a field
that differs from request to request, nor does any under an authorizer that is not `ruled`. While
the audit log hears of grants, all goes to the handlers, which tell it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import Need, Wish
from kbroker.apis.authorizer import ALLOW_ALL, RuledAuthorizer, ruled
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.shortcut import Answered, MakeShortcut, Shortcut
from kbroker.model import new_tuple
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import Coming, ConnectionInfo
from kbroker.protocol.schema import Struct, copied

if TYPE_CHECKING:
    from kbroker.apis.audit_log import AuditLog


class PermittedShortcut:
    """A shortcut, taken for what the client of one connection may do."""

    is_for_all: ClassVar[bool] = False  # its connection is who asks

    __slots__ = ("_answer", "_audit", "_connection", "_permits", "_wishes")

    def __init__(
        self,
        shortcut: Shortcut,
        authorizer: RuledAuthorizer,
        audit: AuditLog | None,
        connection: ConnectionInfo,
        wishes: list[Wish],
    ) -> None:
        self._answer = shortcut.answer
        self._permits = authorizer.permits
        self._audit = audit
        self._connection = connection
        self._wishes = wishes

    def answer(self, values: list[Any]) -> Answered | Coming[Answered] | None:
        """The answer to a request with these values, as `Shortcut` says."""
        if self._audit is not None and self._audit.hears_grants():
            return None
        connection, permits = self._connection, self._permits
        for operation, resource in self._wishes:
            if not permits(connection, operation, resource):
                return None
        return self._answer(values)


def permitted(make: MakeShortcut, needs: tuple[Need, ...]) -> MakeShortcut:
    """Return the maker of an API's shortcuts, each behind the questions of these needs."""

    def make_permitted(
        services: Services, served: Any, request: Any, connection: ConnectionInfo
    ) -> Shortcut | None:
        authorizer = ruled(services.authorizer)
        wishes = _wishes(needs, services, served, request, connection)
        if authorizer is None or wishes is None:
            return None
        shortcut = make(services, served, request, connection)
        if shortcut is None:
            return None
        audit = services.audit if wishes else None  # a shortcut that asks itself looks, too
        return PermittedShortcut(shortcut, authorizer, audit, connection, wishes)

    return make_permitted


class TopicReader:
    """Whether the client of a connection may read topics, for shortcuts that ask themselves."""

    __slots__ = ("_audit", "_connection", "_permits")

    def __init__(
        self, authorizer: RuledAuthorizer, audit: AuditLog | None, connection: ConnectionInfo
    ) -> None:
        self._permits = authorizer.permits
        self._audit = audit
        self._connection = connection

    @classmethod
    def of(cls, services: Services, connection: ConnectionInfo) -> TopicReader | None:
        """The reader of a connection; None if everybody may read everything."""
        if services.authorizer is ALLOW_ALL:
            return None
        authorizer = ruled(services.authorizer)
        assert authorizer is not None, "no shortcut is made under any other"
        return cls(authorizer, services.audit, connection)

    def may_read(self, topics: Iterable[str]) -> bool:
        """Whether it may read all of them, now, and nobody wants to hear of it."""
        if self._audit is not None and self._audit.hears_grants():
            return False
        connection, permits = self._connection, self._permits
        for topic in topics:
            resource: AclResource = new_tuple(AclResource, (_TOPIC, topic))
            if not permits(connection, _READ, resource):
                return False
        return True


_TOPIC, _READ = AclResourceType.TOPIC, AclOperation.READ


class _VariesError(Exception):
    """A need looks at what differs from request to request."""


class _Varying:
    """In the place of a value that differs from request to request: whoever looks at it fails."""

    def _refuse(self, *_: Any) -> Any:
        raise _VariesError

    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __getattr__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __index__ = __int__ = _refuse
    __str__ = __repr__ = __format__ = __bytes__ = __hash__ = __buffer__ = _refuse


_VARYING = _Varying()


def _wishes(
    needs: tuple[Need, ...],
    services: Services,
    served: Any,
    request: Any,
    connection: ConnectionInfo,
) -> list[Wish] | None:
    """All that requests with this shape need; None if they differ in it."""
    header = RequestHeader(served.key, served.version, 0, None)
    ctx = RequestContext(header, connection, services)
    repeated = copied(request)
    _take_out_what_varies(repeated)
    found: list[Wish] = []
    try:
        for need in needs:
            wishes = need.wishes(ctx, repeated)
            if wishes is None:
                return None
            found += wishes
    except _VariesError:
        return None
    named_by_varying = any(type(resource.name) is not str for _, resource in found)
    return None if named_by_varying else found


def _take_out_what_varies(struct: Struct) -> None:
    """Put nothing that can be looked at into the fields that are declared with `varies`."""
    for field in struct.declared_fields:
        value = getattr(struct, field.name)
        if field.varies:
            setattr(struct, field.name, _VARYING)
        elif isinstance(value, Struct):
            _take_out_what_varies(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    _take_out_what_varies(each)
