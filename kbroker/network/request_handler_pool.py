"""Runs requests: calls the handler, sends the answer, and owns the tasks of requests that wait.

A handler that answers directly costs no task and no turn of the loop. One that has to wait returns
an awaitable; such a request holds no slot: it has left the queue, like a request in Kafka's
purgatory, and others go on. One whose answer is `Coming` takes no task either, and one that is
`Accepted` does not even keep its own connection.

While a broker starts, it must hear its controller before it may answer anybody else: then the pool
runs the requests of some keys, and keeps the others; each connection has one of them at most.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from kbroker.counters import Counter
from kbroker.errors import ProtocolError
from kbroker.network.request_channel import Replier, RequestChannel
from kbroker.protocol.request import Accepted, Coming, FutureLike, NoResponse, Request, Response

_log = logging.getLogger(__name__)

_KEPT_UNTIL_LOOKED_THROUGH = 256  # then those of closed connections go

Result = Response | NoResponse
Later = Awaitable[Result | Coming[Result]]
Handle = Callable[[Request], Result | Later]


class KafkaRequestHandlerPool:
    """Takes requests from a RequestChannel and sees each of them to its end."""

    __slots__ = (
        "_admitted_keys",
        "_handle",
        "_is_down",
        "_is_serving",
        "_kept",
        "_kept_max",
        "_request_channel",
        "_takes_short_ways",
        "_waiting",
        "waited",
    )

    def __init__(self, handle: Handle, request_channel: RequestChannel) -> None:
        self._handle = handle
        self._request_channel = request_channel
        self._waiting: set[FutureLike] = set()
        self._admitted_keys: frozenset[int] = frozenset()
        self._kept: list[tuple[Replier, Request]] = []
        self._kept_max = _KEPT_UNTIL_LOOKED_THROUGH
        self._is_serving = False  # all requests, whoever asks
        self._takes_short_ways = True
        self._is_down = False
        self.waited = Counter()  # requests that could not be answered directly

    def start_for(self, keys: frozenset[int]) -> None:
        """Serve requests of these API keys; keep the others until `start`."""
        self._admitted_keys = keys
        self._request_channel.attach(self._run_or_keep)

    def start(self) -> None:
        """Begin with the requests that have been waiting, then serve."""
        self._is_serving = True
        self._request_channel.attach(self._run, self._settle if self._takes_short_ways else None)
        kept, self._kept = self._kept, []
        for replier, request in kept:
            self._run(replier, request)

    def use(self, handle: Handle, *, takes_short_ways: bool = True) -> None:
        """Answer with `handle` from the next request on; without short ways, all go through it.
        What is in work ends as it began.
        """
        self._handle = handle
        self._takes_short_ways = takes_short_ways
        if self._is_serving:
            self._request_channel.settle = self._settle if takes_short_ways else None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def shutdown(self) -> None:
        """Take no more requests and cancel those that wait."""
        self._request_channel.detach()
        self._is_serving = False
        self._is_down = True
        self._kept.clear()
        tasks = [each for each in self._waiting if isinstance(each, asyncio.Task)]
        for each in list(self._waiting):
            each.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _run_or_keep(self, replier: Replier, request: Request) -> None:
        if request.header.api_key in self._admitted_keys:
            self._run(replier, request)
            return
        if len(self._kept) >= self._kept_max:
            # A client that gives up and comes again must not leave a request behind each time.
            self._kept = [entry for entry in self._kept if not entry[0].is_closed]
            self._kept_max = max(_KEPT_UNTIL_LOOKED_THROUGH, 2 * len(self._kept))
        self._kept.append((replier, request))

    def _run(self, replier: Replier, request: Request) -> None:
        try:
            result = self._handle(request)
        except ProtocolError as error:
            replier.fail(error)
            return
        self._settle(replier, result)

    def _settle(self, replier: Replier, result: Result | Later) -> None:
        """Answer a request, or see that it is answered."""
        if isinstance(result, Response) or isinstance(result, NoResponse):  # noqa: SIM101  twice as fast as a tuple
            replier.complete(result)
            return
        self.waited.value += 1
        if isinstance(result, Coming):
            self._expect(replier, result)
            return
        task = asyncio.get_running_loop().create_task(
            self._finish(replier, result), name="request-to-come"
        )
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _expect(self, replier: Replier, answer: Coming[Result]) -> None:
        outcome = answer.outcome
        self._waiting.add(outcome)
        if isinstance(answer, Accepted):
            replier = replier.accept(outcome)
        outcome.add_done_callback(partial(self._answer, replier, answer))

    def _answer(self, replier: Replier, answer: Coming[Result], outcome: FutureLike) -> None:
        self._waiting.discard(outcome)
        if outcome.cancelled():
            if not self._is_down:  # else a connection that is still there would wait for ever
                replier.fail(ProtocolError("its request was given up"))
            return
        try:
            replier.complete(answer.finish())
        except Exception as error:
            _fail(replier, error)

    async def _finish(self, replier: Replier, answer: Later) -> None:
        try:
            result = await answer
            if isinstance(result, Coming):
                self._expect(replier, result)
            else:
                replier.complete(result)
        except Exception as error:
            _fail(replier, error)


def _fail(replier: Replier, error: Exception) -> None:
    if not isinstance(error, ProtocolError):
        _log.error("a waiting request ended by a bug", exc_info=error)
        error = ProtocolError("its request could not be answered")
    replier.fail(error)
