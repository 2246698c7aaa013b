"""RequestLane: questions of many to one other broker, sent together.

Law: one request is in flight; questions that come meanwhile go together in the next one. Every
question gets an answer, even if the broker gives none. When nobody waits any more, nothing is asked
any more.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from kbroker.errors import KafkaError
from kbroker.model import Broker
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.protocol.schema import Message

_log = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")
AskedT_contra = TypeVar("AskedT_contra", contravariant=True)
AnsweredT_co = TypeVar("AnsweredT_co", covariant=True)


class Asks(Protocol[AskedT_contra, AnsweredT_co]):
    """A kind of questions: how they become one request, and its response their answers."""

    def name_of(self, question: AskedT_contra) -> Hashable:
        """The name that tells its answer apart from others in one response."""
        ...

    def request(self, questions: Sequence[AskedT_contra]) -> Message:
        """One request for these questions, no two of one name."""
        ...

    def answers(self, response: Any) -> Mapping[Hashable, AnsweredT_co]:
        """The answers in a response, by name."""
        ...

    def unanswered(self, question: AskedT_contra, error: Exception | None) -> AnsweredT_co:
        """The answer if the response has none, or if there was no response because of `error`."""
        ...


class _Order(Generic[QuestionT, AnswerT]):
    __slots__ = ("answered", "name", "question")

    def __init__(self, question: QuestionT, name: Hashable) -> None:
        self.question = question
        self.name = name
        # Cancelled when nobody waits for it any more.
        self.answered: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()


class RequestLane(Generic[QuestionT, AnswerT]):
    """The way to one broker, as it is registered."""

    def __init__(
        self,
        asks: Asks[QuestionT, AnswerT],
        broker: Broker,
        client: PeerClient,
        timeout_ms: float,
    ) -> None:
        """`timeout_ms` bounds one request."""
        self.broker = broker
        self._asks = asks
        self._client = client
        self._timeout_ms = timeout_ms
        self._in_flight: list[_Order[QuestionT, AnswerT]] = []
        self._waiting: list[_Order[QuestionT, AnswerT]] = []
        self._askers = 0  # the waiting ones: searching all orders at each end takes too long
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: QuestionT) -> AnswerT:
        """Ask, and return the broker's answer."""
        order: _Order[QuestionT, AnswerT] = _Order(question, self._asks.name_of(question))
        self._waiting.append(order)
        self._askers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"requests to {self.broker}")
        try:
            return await order.answered
        finally:
            self._askers -= 1
            if not self._askers:
                self._stop()

    def close(self) -> None:
        """Ask nothing any more: questions that wait get no answer."""
        self._stop()
        self._client.close()

    def _stop(self) -> None:
        task, self._task = self._task, None
        orders = (*self._in_flight, *self._waiting)
        self._in_flight, self._waiting = [], []
        if task is not None:
            task.cancel()
        self._answer(orders, {}, None)

    async def _run(self) -> None:
        while self._take():
            answers, error = await self._asked([order.question for order in self._in_flight])
            orders, self._in_flight = self._in_flight, []
            self._answer(orders, answers, error)
        self._task = None

    async def _asked(
        self, questions: Sequence[QuestionT]
    ) -> tuple[Mapping[Hashable, AnswerT], Exception | None]:
        try:
            request = self._asks.request(questions)
            response = await self._client.send(request, timeout_ms=self._timeout_ms)
            return self._asks.answers(response), None
        except Exception as error:
            if isinstance(error, (OSError, KafkaError)):  # TimeoutError too
                _log.debug("broker %d gave no answer: %r", self.broker.broker_id, error)
            else:  # a code that is none, or a bug
                _log.exception("What broker %d was asked has no answer", self.broker.broker_id)
            return {}, error

    def _take(self) -> bool:
        """Take the waiting questions, one of each name."""
        taken: dict[Hashable, _Order[QuestionT, AnswerT]] = {}
        left = []
        for order in self._waiting:
            if order.answered.done():
                continue
            if taken.setdefault(order.name, order) is not order:
                left.append(order)
        self._in_flight, self._waiting = list(taken.values()), left
        return bool(taken)

    def _answer(
        self,
        orders: Sequence[_Order[QuestionT, AnswerT]],
        answers: Mapping[Hashable, AnswerT],
        error: Exception | None,
    ) -> None:
        for order in orders:
            if not order.answered.done():
                answer = answers.get(order.name)
                if answer is None:
                    answer = self._asks.unanswered(order.question, error)
                order.answered.set_result(answer)


class RequestLanes(Generic[QuestionT, AnswerT]):
    """The lanes to all other brokers, for questions of one kind."""

    def __init__(
        self,
        asks: Asks[QuestionT, AnswerT],
        open_client: Callable[[Broker], PeerClient],
        timeout_ms: float,
    ) -> None:
        """`timeout_ms` bounds one request."""
        self._asks = asks
        self._open_client = open_client
        self._timeout_ms = timeout_ms
        self._lanes: dict[int, RequestLane[QuestionT, AnswerT]] = {}  # by broker

    def to(self, broker: Broker) -> RequestLane[QuestionT, AnswerT]:
        """The lane to the broker's address of now: after another start it may be elsewhere."""
        lane = self._lanes.get(broker.broker_id)
        if lane is None or lane.broker != broker:
            if lane is not None:
                lane.close()
            client = self._open_client(broker)
            lane = RequestLane(self._asks, broker, client, self._timeout_ms)
            self._lanes[broker.broker_id] = lane
        return lane

    def close(self) -> None:
        """Close the connections; questions that still wait get no answer."""
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close()
