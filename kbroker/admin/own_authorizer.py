"""OwnAuthorizer: decides by code of the operator, which `authorizer.class.name` names.

Law: nothing but a True that comes in time grants anything: what raises, returns something else or
takes longer than `ANSWER_S` is a refusal, which the log names. The code runs on a thread of its
own, so that it holds up the broker for no longer, however many questions one turn of the loop has;
while it is still at a former question, all others are refused at once. Super users are not asked
about.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, NamedTuple

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType, label_of
from kbroker.clock import Clock
from kbroker.ip_addresses import address_in_rules
from kbroker.own_code import Call, OwnCode
from kbroker.protocol.request import ConnectionInfo
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

ANSWER_S: Final = 0.25
_ERROR_CHARACTERS: Final = 200


class AclQuestion(NamedTuple):
    """A question as the operator's code gets it, in Kafka's words."""

    principal: str  # as in User:ann
    host: str  # the client's address
    listener_name: str
    operation: str  # as in Read
    resource_type: str  # as in Topic
    resource_name: str  # empty: any of that type


Decide = Callable[[AclQuestion], object]


class OwnAuthorizer:
    """An authorizer with code of the operator's."""

    def __init__(
        self, name: str, decider: Any, super_users: frozenset[str], clock: Clock, answer_s: float
    ) -> None:
        """`decider` has `authorize`, and may have `authorize_by_resource_type`."""
        self._name = name
        self._authorize: Decide = decider.authorize
        self._by_type: Decide | None = getattr(decider, "authorize_by_resource_type", None)
        self._super_users = super_users
        self._clock = clock
        self._answer_s = answer_s
        self._took_all = f"it has taken {answer_s:g} s for questions of one turn of the loop"
        self._lines = RareLines()
        self._code = OwnCode("authorizer")
        self.late: Call | None = None
        """The question that has not been answered in time, whether or not it has been since."""
        self._left_s: float | None = None  # for questions of this turn of the loop; None: a new one

    async def start(self) -> None:
        """Nothing has to be read."""

    async def stop(self) -> None:
        """Let the thread end after the question that it is at; nobody waits for it."""
        self._code.stop()

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        if connection.principal in self._super_users:
            return True
        return self._is_granted(self._authorize, connection, operation, resource)

    async def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether it may do this to at least one resource of that type."""
        if connection.principal in self._super_users:
            return True
        if self._by_type is None:
            return False
        return self._is_granted(
            self._by_type, connection, operation, AclResource(resource_type, "")
        )

    def _is_granted(
        self,
        decide: Decide,
        connection: ConnectionInfo,
        operation: AclOperation,
        resource: AclResource,
    ) -> bool:
        if self.late is not None and not self.late.done.is_set():
            self._tell("it is still at a former question")
            return False
        self.late = None
        if self._left_s is None:
            self._left_s = self._answer_s
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._left_s <= 0:
            self._tell(self._took_all)
            return False
        question = AclQuestion(
            principal=connection.principal,
            host=address_in_rules(connection.peer_host),
            listener_name=connection.listener_name,
            operation=label_of(operation),
            resource_type=label_of(resource.type),
            resource_name=resource.name,
        )
        return self._is_true(decide, question, self._left_s)

    def _next_turn(self) -> None:
        self._left_s = None

    def _is_true(self, decide: Decide, question: AclQuestion, left_s: float) -> bool:
        began_s = perf_counter()
        asked = self._code.call(decide, question)
        if asked is None:
            self._tell("there is no thread for it")
            return False
        is_answered = asked.done.wait(left_s)
        self._left_s = left_s - (perf_counter() - began_s)
        if not is_answered:
            self.late = asked
            is_first = left_s == self._answer_s
            late = f"it has not answered within {self._answer_s:g} s"
            self._tell(late if is_first else self._took_all)
            return False
        if asked.error is not None:
            self._tell(f"it raised {asked.error!r}"[:_ERROR_CHARACTERS])
        elif not isinstance(asked.answer, bool):
            self._tell(f"it answered with {type(asked.answer).__name__}, and not True or False")
        return asked.answer is True

    def _tell(self, reason: str) -> None:
        left_out = self._lines.left_out("refused", reason, self._clock.monotonic_ms())
        if left_out is not None:
            _log.error(
                "what authorizer.class.name=%s was asked is refused: %s%s",
                self._name,
                reason,
                note_of(left_out),
            )
