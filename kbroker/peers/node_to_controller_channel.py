"""NodeToControllerChannel: a broker's way to the controller, whichever broker that is.

Law: the controller is looked up for every attempt, and while an answer is waited for: when another
broker takes the seat, or the one asked is not controller, the question goes to the next. It is
asked at least once if a controller can be reached in time; a question whose answer was lost is
asked again, as in Kafka, so it may be carried out twice.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import Broker
from kbroker.protocol.schema import Message

_log = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.1
LOOK_INTERVAL_S = 0.1  # how soon a change of controllers is noticed while one is being asked
CONNECTIONS_MAX = 8  # a broker answers one request of a connection after the other
ANSWER_MARGIN_MS = 1_000.0  # an answer that says "not in time" comes after the time


class PeerClient(Protocol):
    """A connection to another broker (a BrokerClient)."""

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        """Send and return the answer. Raises OSError, TimeoutError or KafkaError."""
        ...

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        """True if the other broker lists that version of an API. Raises as `send` does."""
        ...

    def close(self) -> None: ...


class ControllerView(Protocol):
    """The channel's view of this broker's own KafkaController."""

    @property
    def is_active(self) -> bool: ...

    @property
    def controller_id(self) -> int:
        """The controller's id, -1 if there is none."""
        ...


Question = Callable[[PeerClient, float], Awaitable[Any]]
"""Asks over a connection, within milliseconds. Raises KafkaError NOT_CONTROLLER if the answer
says so."""


class NodeToControllerChannel:
    """The way from one broker to the controller."""

    def __init__(
        self,
        broker_id: int,
        seat: ControllerView,
        live_broker: Callable[[int], Broker | None],
        open_client: Callable[[Broker], PeerClient],
    ) -> None:
        """`live_broker` looks a broker up in this broker's metadata."""
        self._broker_id = broker_id
        self._seat = seat
        self._live_broker = live_broker
        self._open_client = open_client
        self._target: Broker | None = None  # the broker that `_idle` leads to
        self._idle: list[PeerClient] = []
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)

    @property
    def target(self) -> Broker | None:
        """The controller's registration, None while it is unknown or this broker itself."""
        controller_id = self._seat.controller_id
        return None if controller_id == self._broker_id else self._live_broker(controller_id)

    async def ask(self, question: Question, timeout_ms: float) -> Any:
        """The controller's answer; None if this broker has become controller itself.

        Raises KafkaError NOT_CONTROLLER if nobody could be asked in time, REQUEST_TIMED_OUT if an
        answer was lost or did not come: the request may have been carried out.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        lost: OSError | None = None  # the cause of the last missing answer
        while not self._seat.is_active:
            target = self.target
            if target is not None:
                left_ms = (deadline - loop.time()) * 1000 + ANSWER_MARGIN_MS
                try:
                    async with asyncio.timeout(left_ms / 1000), self._places:
                        return await self._ask(target, question, left_ms)
                except KafkaError as error:
                    if error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                except OSError as error:  # TimeoutError too
                    lost = error
                    _log.debug("controller %d gave no answer: %r", target.broker_id, error)
            if loop.time() + RETRY_BACKOFF_S >= deadline:
                raise self._unanswered(timeout_ms, lost)
            await asyncio.sleep(RETRY_BACKOFF_S)
        return None

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._keep_connections_to(None)

    def _unanswered(self, timeout_ms: float, lost: OSError | None) -> KafkaError:
        asked_s = timeout_ms / 1000
        if lost is None:
            message = f"No controller could be asked within {asked_s:g} s. Ask again."
            return KafkaError(ErrorCode.NOT_CONTROLLER, message)
        controller_id = self._seat.controller_id
        _log.warning("controller %d gave no answer within %g s: %r", controller_id, asked_s, lost)
        message = f"The controller gave no answer within {asked_s:g} s. Look, or ask again."
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)

    async def _ask(self, target: Broker, question: Question, timeout_ms: float) -> Any:
        """One attempt. Raises as `question`; ConnectionAbortedError if the seat changes hands."""
        self._keep_connections_to(target)
        client = self._idle.pop() if self._idle else self._open_client(target)
        asking = asyncio.ensure_future(question(client, timeout_ms))
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_INTERVAL_S))[0]:
                if self.target != target:
                    raise ConnectionAbortedError(f"{target.broker_id} is no longer the controller")
            answer = asking.result()
        except BaseException:
            asking.cancel()
            client.close()
            raise
        if self._target == target:
            self._idle.append(client)
        else:
            client.close()
        return answer

    def _keep_connections_to(self, target: Broker | None) -> None:
        if self._target != target:
            self._target = target
            while self._idle:
                self._idle.pop().close()
