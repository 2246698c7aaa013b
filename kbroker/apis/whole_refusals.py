"""The code and the text of a request that an error has ended, counted and logged.

A KafkaError is a refusal, a tree that cannot be reached becomes one. Anything else is a bug: its
client gets UNKNOWN_SERVER_ERROR, and the log the traceback.
"""

from __future__ import annotations

from kbroker.admin.tree_unavailable import tree_refusal
from kbroker.apis.bug_lines import BugLines
from kbroker.apis.request_counters import RequestStats
from kbroker.apis.served_api import Served
from kbroker.clock import Clock
from kbroker.errors import ErrorCode, KafkaError
from kbroker.peers.cluster_action import Sender
from kbroker.protocol.request import Request
from kbroker.protocol.schema import Message
from kbroker.zk.tree import TreeUnavailableError

Refusal = tuple[ErrorCode, str | None]


class WholeRefusals:
    """Owned by the event loop."""

    __slots__ = ("_bugs", "_stats")

    def __init__(self, stats: RequestStats, clock: Clock) -> None:
        """`stats` counts the codes."""
        self._stats = stats
        self._bugs = BugLines(clock)

    def told(self, served: Served, request: Request, message: Message, error: Exception) -> Refusal:
        """Return what the client of a request hears, and tell the log."""
        if isinstance(error, TreeUnavailableError):
            error = tree_refusal(error)
        if not isinstance(error, KafkaError):
            note_code(served, request, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._stats.bugs.value += 1
            self._stats.refused(served.key, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._bugs.tell(served, error)
            return ErrorCode.UNKNOWN_SERVER_ERROR, None
        note_code(served, request, error.code)
        refusal = error.code, error.message
        refusals = served.services.refusals
        if refusals is not None and served.sender is Sender.ANYBODY:
            refusals.tell_whole(request.header, request.connection, message, refusal)
        else:
            self._stats.refused(served.key, error.code)
        return refusal


def note_code(served: Served, request: Request, code: ErrorCode) -> None:
    """Write down, for those who follow requests, that all of one is refused."""
    tracer = served.services.tracer
    if tracer is not None:
        tracer.note_code(request.header, code)
