"""The queue of complete requests between the Processors and the KafkaRequestHandlerPool.

As long as the pool runs, a request goes straight through: there is one event loop, so a request is
either being handled or waits in its own connection's buffer. Requests wait here while the pool is
not attached (connections are accepted before the broker is ready). The queue is bounded by
`queued.max.requests`; when it is full, connections keep their frames and stop reading.

Owned by the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from kbroker.counters import Counter
from kbroker.errors import ProtocolError
from kbroker.protocol.request import FutureLike, NoResponse, Request, Response


class Replier(Protocol):
    """The connection a request came from."""

    @property
    def is_closed(self) -> bool: ...

    def complete(self, result: Response | NoResponse) -> None:
        """Send the answer; the next request of the connection may start."""
        ...

    def accept(self, outcome: FutureLike) -> Replier:
        """The request has been carried out, and its answer is to come: give it to the Replier that
        this returns. The next request of the connection may start; `outcome` is cancelled when the
        connection goes.
        """
        ...

    def fail(self, error: ProtocolError) -> None:
        """Close the connection: what it sent cannot be answered."""
        ...


Receiver = Callable[[Replier, Request], None]
Settle = Callable[[Replier, Any], None]
"""Sees a request to its end whose handler was called already, and has returned this."""


class RequestChannel:
    """A bounded queue of requests with a way around it."""

    __slots__ = (
        "_max_requests",
        "_queue",
        "_receiver",
        "_waiters",
        "is_full",
        "requests",
        "settle",
    )

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._queue: deque[tuple[Replier, Request]] = deque()
        self._waiters: deque[Callable[[], None]] = deque()
        self._receiver: Receiver | None = None
        self.settle: Settle | None = None  # for requests that take the short way
        # A connection must keep its next request; asked before each.
        self.is_full = max_requests <= 0
        self.requests = Counter()  # requests that came through

    def __len__(self) -> int:
        return len(self._queue)

    def wait_for_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the queue has been emptied."""
        self._waiters.append(callback)

    def send(self, replier: Replier, request: Request) -> None:
        """Hand a request to the pool, or keep it until there is one."""
        self.requests.value += 1
        if self._receiver is not None:
            self._receiver(replier, request)
            return
        assert not self.is_full, "the connection did not look for room"
        self._queue.append((replier, request))
        self.is_full = len(self._queue) >= self._max_requests

    def attach(self, receiver: Receiver, settle: Settle | None = None) -> None:
        """Let requests flow to `receiver`, the waiting ones first; with `settle`, those that a
        connection knows may take the short way.
        """
        self._receiver = receiver
        self.settle = settle
        while self._queue:
            replier, request = self._queue.popleft()
            self.is_full = False
            receiver(replier, request)
        for _ in range(len(self._waiters)):
            self._waiters.popleft()()

    def detach(self) -> None:
        """Stop the flow; requests wait again."""
        self._receiver = self.settle = None
