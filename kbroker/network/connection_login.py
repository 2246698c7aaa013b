"""ConnectionLogin: the login of one connection, between its Channel and its gate.

Law: what the gate does not pass goes no further, and after an error nothing passes. A judge that
takes its time is asked on a thread: its connection waits, and no other.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.protocol.codec import encode
from kbroker.protocol.header import API_VERSIONS_KEY, RequestHeader, encode_response_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.request import ConnectionInfo, FutureLike
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Identity
from kbroker.sasl.login_gate import LoginGate, Moment, Outcome, Step

_log = logging.getLogger(__name__)


class Reply(NamedTuple):
    """A frame for the client, None for none. With a `refusal` the connection ends after it."""

    frame: bytes | None
    refusal: str = ""
    is_last: bool = False  # of a login that is done now


Answer = Callable[[Reply | ProtocolError], None]


class ListenerLogins(NamedTuple):
    """The means of all logins at one listener."""

    begin: Callable[[ConnectionInfo], LoginGate]
    let_in: Callable[[ConnectionInfo, Identity], None]
    """Gives a connection the principal of its user."""
    refuse: Callable[[RequestHeader, memoryview, ErrorCode], Message | None]
    """Answers the request in a frame in its own form; None: it gets no answer. Raises
    ProtocolError.
    """
    run: Callable[[str, Callable[[], Step]], FutureLike]
    """Does work for an address on a thread."""
    now: Callable[[], Moment]
    steady_ms: Callable[[], float]
    max_frame_bytes: int

    def login_of(self, connection: ConnectionInfo) -> ConnectionLogin:
        """Begin the login of a new connection."""
        return ConnectionLogin(self, connection)


class ConnectionLogin:
    """The gate of one connection, which is asked for each frame while it is in the way."""

    __slots__ = ("_connection", "_gate", "_logins", "is_done")

    def __init__(self, logins: ListenerLogins, connection: ConnectionInfo) -> None:
        self._logins = logins
        self._connection = connection
        self._gate = logins.begin(connection)
        self.is_done = False  # a user is known, though the session may end

    @property
    def max_frame_bytes(self) -> int:
        """The size of the largest frame before a login."""
        return self._logins.max_frame_bytes

    @property
    def is_in_the_way(self) -> bool:
        """True while there are frames that do not pass."""
        return not self.is_done or self._gate.session_ends_ms is not None

    def takes(self, frame: memoryview, answer: Answer) -> bool:
        """Take a frame, and call `answer` with what it comes to, at once or later; False, and
        nothing is done, if it passes.
        """
        gate, logins = self._gate, self._logins
        if gate.passes(frame, logins.steady_ms()):
            return False
        now = logins.now()
        if gate.asks_slow_judge:
            kept = bytes(frame)  # the buffer need not stay
            work = partial(self._judged, kept, now)
            judged = logins.run(self._connection.peer_host, work)
            judged.add_done_callback(partial(self._answer_judged, memoryview(kept), answer))
            return True
        try:
            step = gate.receive(frame, now)
        except Exception as error:
            answer(_broken(error))
            return True
        if step.outcome is Outcome.PASSED:
            return False
        answer(self._reply(step, frame))
        return True

    def _judged(self, frame: bytes, now: Moment) -> Step:
        if self._connection.is_closed:  # while it waited for a thread
            return Step(Outcome.EXPIRED, reason="its client is gone")
        return self._gate.receive(frame, now)

    def _answer_judged(self, frame: memoryview, answer: Answer, judged: FutureLike) -> None:
        try:
            step = judged.result()
        except Exception as error:
            answer(_broken(error))
        else:
            answer(self._reply(step, frame))

    def _reply(self, step: Step, frame: memoryview) -> Reply | ProtocolError:
        try:
            if step.outcome is Outcome.EXPIRED:
                return ProtocolError(step.reason)
            if step.outcome is Outcome.LOGGED_IN and self._gate.identity is not None:
                self._logins.let_in(self._connection, self._gate.identity)
                self.is_done = True
            is_last = step.outcome is Outcome.LOGGED_IN
            return Reply(self._frame(step, frame), step.reason, is_last)
        except ProtocolError as error:
            return error
        except Exception as error:
            return _broken(error)

    def _frame(self, step: Step, frame: memoryview) -> bytes | None:
        header, answer = step.header, step.answer
        if isinstance(answer, ErrorCode) and header is not None:
            answer = self._logins.refuse(header, frame, answer)
        if header is None or not isinstance(answer, Message):
            return answer if isinstance(answer, bytes) else None
        key, version = header.api_key, header.api_version
        if key == API_VERSIONS_KEY and version not in ApiVersionsRequest.spec.served:
            version = 0  # which any client can read (KIP-511)
        head = encode_response_header(key, version, header.correlation_id)
        return encode(answer, version, head)


def _broken(error: Exception) -> ProtocolError:
    if isinstance(error, ProtocolError):
        return error
    # Not its text: a judge may have put a secret there.
    _log.error("a login ended by a bug: %s in %s", type(error).__name__, _place(error))
    return ProtocolError("its login could not be checked")


def _place(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
