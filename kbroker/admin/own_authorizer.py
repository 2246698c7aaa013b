"""OwnAuthorizer: decides by code of the operator, which `authorizer.class.name` names.

Law: nothing but a True that comes in time grants anything: what raises, returns something else or
takes longer than `ANSWER_S` is a refusal, which the log names. The code runs on a thread of its
own, so that it holds up the broker for no longer; while it is still at a former question, all
others are refused at once. Super users are not asked about.

Owned by the event loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType, label_of
from kbroker.clock import Clock
from kbroker.ip_addresses import address_in_rules
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
        self._lines = RareLines()
        self._questions: SimpleQueue[_Asked | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._late: _Asked | None = None  # that has not been answered in time

    async def start(self) -> None:
        """Nothing has to be read."""

    async def stop(self) -> None:
        """Let the thread end after the question that it is at; nobody waits for it."""
        self._questions.put(None)
        self._thread = None

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether the principal of a connection, at its address, may do this."""
        if connection.principal in self._super_users:
            return True
        return self._is_granted(self._authorize, connection, operation, resource)

    def authorize_by_resource_type(
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
        if self._late is not None and not self._late.done.is_set():
            self._tell("it is still at a former question")
            return False
        self._late = None
        if self._thread is None and not self._has_begun():
            return False
        question = AclQuestion(
            principal=connection.principal,
            host=address_in_rules(connection.peer_host),
            listener_name=connection.listener_name,
            operation=label_of(operation),
            resource_type=label_of(resource.type),
            resource_name=resource.name,
        )
        asked = _Asked(decide, question)
        self._questions.put(asked)
        if not asked.done.wait(self._answer_s):
            self._late = asked
            self._tell(f"it has not answered within {self._answer_s:g} s")
            return False
        if asked.error is not None:
            self._tell(f"it raised {asked.error!r}"[:_ERROR_CHARACTERS])
        elif not isinstance(asked.answer, bool):
            self._tell(f"it answered with {type(asked.answer).__name__}, and not True or False")
        return asked.answer is True

    def _has_begun(self) -> bool:
        thread = threading.Thread(
            target=_answer_all, args=(self._questions,), name="authorizer", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system's limit
            self._tell("there is no thread for it")
            return False
        self._thread = thread
        return True

    def _tell(self, reason: str) -> None:
        left_out = self._lines.left_out("refused", reason, self._clock.monotonic_ms())
        if left_out is not None:
            _log.error(
                "what authorizer.class.name=%s was asked is refused: %s%s",
                self._name,
                reason,
                note_of(left_out),
            )


class _Asked:
    """A question on its way to the thread and back."""

    __slots__ = ("answer", "decide", "done", "error", "question")

    def __init__(self, decide: Decide, question: AclQuestion) -> None:
        self.decide = decide
        self.question = question
        self.answer: object = None
        self.error: BaseException | None = None
        self.done = threading.Event()


def _answer_all(questions: SimpleQueue[_Asked | None]) -> None:
    while (asked := questions.get()) is not None:
        try:
            asked.answer = asked.decide(asked.question)
        except BaseException as error:  # `sys.exit` must not end this thread
            asked.error = error
        asked.done.set()
