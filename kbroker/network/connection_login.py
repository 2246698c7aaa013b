"""ConnectionLogin: the login of one connection, between its Channel and its gate.

Law: what the gate does not pass goes no further, and after an error nothing passes. A judge that
takes its time is asked on a thread: its connection waits, and no other.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.network.strangers import network_of
from kbroker.protocol.codec import encode
from kbroker.protocol.header import API_VERSIONS_KEY, RequestHeader, encode_response_header
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.request import ConnectionInfo, FutureLike, NoResponse, Response
from kbroker.protocol.schema import Message
from kbroker.sasl.exchange import Identity
from kbroker.sasl.login_gate import LoginGate, Moment, Outcome, Step

_log = logging.getLogger(__name__)


class Entrant(Protocol):
    """A connection as its login sees it."""

    def let_in(self) -> None:
        """Note that the client is known."""

    def complete(self, result: Response | NoResponse) -> None:
        """Send the answer to a frame of the login; then the next one may come."""

    def refuse(self, reason: str, answer: bytes | None) -> None:
        """End the connection, after a last answer if there is one."""

    def fail(self, error: ProtocolError) -> None:
        """End the connection without an answer."""


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
    """Does work for a network on a thread; networks take turns."""
    now: Callable[[], Moment]
    steady_ms: Callable[[], float]
    max_frame_bytes: int


class ConnectionLogin:
    """The gate of one connection, which is asked for each frame while it is in the way."""

    __slots__ = ("_connection", "_gate", "_judged", "_logins", "is_done")

    def __init__(self, logins: ListenerLogins, connection: ConnectionInfo) -> None:
        self._logins = logins
        self._connection = connection
        self._gate = logins.begin(connection)
        self._judged: FutureLike | None = None  # as long as a thread is asked
        self.is_done = False  # a user is known, though the session may end

    @property
    def max_frame_bytes(self) -> int:
        """The size of the largest frame before a login."""
        return self._logins.max_frame_bytes

    @property
    def is_in_the_way(self) -> bool:
        """True while there are frames that do not pass."""
        return not self.is_done or self._gate.session_ends_ms is not None

    def takes(self, frame: memoryview, entrant: Entrant) -> bool:
        """Take a frame, and have its connection do what it comes to, at once or later; False, and
        nothing is done, if it passes.
        """
        gate, logins = self._gate, self._logins
        if gate.passes(frame, logins.steady_ms()):
            return False
        now = logins.now()
        if gate.asks_slow_judge(frame):
            kept = bytes(frame)  # the buffer need not stay
            work = partial(self._step_of_judge, kept, now)
            judged = logins.run(network_of(self._connection.peer_host), work)
            self._judged = judged
            judged.add_done_callback(partial(self._take_judged, memoryview(kept), entrant))
            return True
        try:
            step = gate.receive(frame, now)
        except Exception as error:
            entrant.fail(_broken(error))
            return True
        if step.outcome is Outcome.PASSED:
            return False
        self._take(step, frame, entrant)
        return True

    def leave(self) -> None:
        """Give up what waits for a thread: the client has gone."""
        if self._judged is not None:
            self._judged.cancel()

    def _step_of_judge(self, frame: bytes, now: Moment) -> Step:
        if self._connection.is_closed:  # a moment ago
            return Step(Outcome.EXPIRED, reason="its client is gone")
        return self._gate.receive(frame, now)

    def _take_judged(self, frame: memoryview, entrant: Entrant, judged: FutureLike) -> None:
        self._judged = None
        if judged.cancelled():
            return
        try:
            step = judged.result()
        except Exception as error:
            entrant.fail(_broken(error))
        else:
            self._take(step, frame, entrant)

    def _take(self, step: Step, frame: memoryview, entrant: Entrant) -> None:
        identity = self._gate.identity if step.outcome is Outcome.LOGGED_IN else None
        try:
            if step.outcome is Outcome.EXPIRED:
                raise ProtocolError(step.reason)
            if identity is not None:
                self._logins.let_in(self._connection, identity)
                self.is_done = True
            answer = self._frame(step, frame)
        except Exception as error:
            entrant.fail(_broken(error))
            return
        if step.outcome is Outcome.FAILED:
            entrant.refuse(step.reason, answer)
            return
        if identity is not None:
            entrant.let_in()
        entrant.complete(NoResponse() if answer is None else Response([answer]))

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
