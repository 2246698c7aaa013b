"""ControllerChannelManager: carries the controller's requests to the brokers, in order.

Law: requests of one broker are sent one after the other, each after the answer to the one before,
and none overtakes another. A request that could not be sent is sent again until it is answered or
the broker goes: dropping one would leave that broker with a wrong picture for good. Requests that
wait for a broker that cannot be reached are merged (`request_merge`), so they stay bounded by the
number of partitions. A broker that registers again gets an empty queue and another channel:
requests for its earlier life are dropped, and the controller sends it everything again.

Kafka keeps every request in an unbounded queue instead (ControllerChannelManager.scala).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from kbroker.controller.channels.request_queue import RequestQueue
from kbroker.model import Broker
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.turns import turn

_log = logging.getLogger(__name__)

ResponseHandler = Callable[[int, ControlRequest, ControlResponse], None]
RETRY_BACKOFF_S = 0.1  # Kafka's; doubled while nothing gets through
MAX_RETRY_BACKOFF_S = 1.0


class BrokerChannel(Protocol):
    """The way to one broker: a connection, or a call in this process."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Send and return the answer.

        Raises OSError or TimeoutError if the broker could not be reached.
        """
        ...

    def close(self) -> None: ...


class ControllerChannelManager:
    """Queues and sends requests. Owned by the event loop."""

    def __init__(
        self, connect: Callable[[Broker], BrokerChannel], on_response: ResponseHandler
    ) -> None:
        self._connect = connect
        self._on_response = on_response
        self._senders: dict[int, _Sender] = {}

    def add_broker(self, broker: Broker) -> None:
        """Start sending to a broker."""
        assert broker.broker_id not in self._senders
        channel = self._connect(broker)
        self._senders[broker.broker_id] = _Sender(broker, channel, self._on_response)

    def update_broker(self, broker: Broker) -> None:
        """A broker has other end points than before; requests that wait for it go there."""
        sender = self._senders[broker.broker_id]
        if broker.end_points != sender.broker.end_points:
            sender.move(broker, self._connect(broker))

    def expect_end(self, broker_id: int) -> None:
        """Warn no more of a broker that announced its stop, until it registers again."""
        sender = self._senders.get(broker_id)
        if sender is not None:
            sender.is_ending = True

    async def remove_broker(self, broker_id: int) -> None:
        """Stop sending to a broker, and drop its queue."""
        sender = self._senders.pop(broker_id, None)
        if sender is not None:
            await sender.stop()

    async def set_brokers(self, brokers: Iterable[Broker]) -> None:
        """Send to these brokers, each in its present registration, and to no other."""
        wanted = {broker.broker_id: broker for broker in brokers}
        for broker_id, sender in list(self._senders.items()):
            if broker_id not in wanted or wanted[broker_id].epoch != sender.broker.epoch:
                await self.remove_broker(broker_id)
        for broker_id, broker in wanted.items():
            if broker_id in self._senders:
                self.update_broker(broker)
            else:
                self.add_broker(broker)

    def send(self, requests: Iterable[tuple[int, ControlRequest]]) -> None:
        """Queue requests; those for unknown brokers are dropped."""
        for broker_id, request in requests:
            sender = self._senders.get(broker_id)
            if sender is None:
                _log.warning("no channel to broker %d, request dropped", broker_id)
            else:
                sender.put(request)

    @property
    def queue_size(self) -> int:
        """The number of requests that wait to be sent, to all brokers, without those in flight."""
        return sum(len(sender.queue) for sender in self._senders.values())

    def begin_anew(self) -> None:
        """Everything will be sent once more: drop the waiting requests. Those in flight are not
        repeated, and their answers are not reported.
        """
        for sender in self._senders.values():
            sender.begin_anew()

    async def stop(self) -> None:
        """Stop sending to all brokers: at once, even if nobody waits for the end of this."""
        senders = list(self._senders.values())
        self._senders.clear()
        for sender in senders:
            sender.cancel()
        for sender in senders:
            await sender.stop()


class _Sender:
    """Queue and task of one broker."""

    def __init__(
        self, broker: Broker, channel: BrokerChannel, on_response: ResponseHandler
    ) -> None:
        self.broker = broker
        self.is_ending = False
        self._channel = channel
        self._on_response = on_response
        self.queue = RequestQueue()
        self._in_flight: ControlRequest | None = None
        self._is_cancelled = False
        self._is_superseded = False  # the request in flight, with all that it stands for
        self._arrived = asyncio.Event()
        name = f"controller to broker {broker.broker_id}"
        self._task = asyncio.create_task(self._run(), name=name)

    def put(self, request: ControlRequest) -> None:
        self.queue.put(request)
        self._arrived.set()

    def move(self, broker: Broker, channel: BrokerChannel) -> None:
        self._channel.close()
        self.broker, self._channel = broker, channel

    def begin_anew(self) -> None:
        self.queue.clear()
        self._is_superseded = self._in_flight is not None

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self.queue.stop()
            if self._task is not asyncio.current_task():
                self._task.cancel()
            self._channel.close()

    async def stop(self) -> None:
        self.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            while not self.queue:
                self._arrived.clear()
                await self._arrived.wait()
            try:
                answered = await self._deliver_next()
                if answered is not None:
                    self._on_response(self.broker.broker_id, *answered)
                    await turn()
            except Exception:
                # Another try cannot help: the broker or we cannot make sense of it.
                _log.exception("request to broker %d failed", self.broker.broker_id)

    async def _deliver_next(self) -> tuple[ControlRequest, ControlResponse] | None:
        """Send the first of the queue until it is answered. If the broker cannot be reached, the
        queue is merged, and another request may be the first. None if nothing is left to send.
        """
        backoff_s, failures = RETRY_BACKOFF_S, 0
        while (request := await self.queue.take()) is not None:
            self._in_flight = request
            try:
                response = await self._channel.send(request)
            except (OSError, TimeoutError) as error:
                if not self._is_superseded:
                    self.queue.put_back(request)
                failures += 1
                self._report(error, failures)
            else:
                if failures:
                    _log.info("broker %d can be reached again", self.broker.broker_id)
                return None if self._is_superseded else (request, response)
            finally:
                self._in_flight = None
                self._is_superseded = False
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, MAX_RETRY_BACKOFF_S)
            await self.queue.merge()
        return None

    def _report(self, error: Exception, failures: int) -> None:
        """One line at the first failure, and again when their number has doubled."""
        if failures & (failures - 1) == 0:
            level = logging.INFO if self.is_ending else logging.WARNING
            _log.log(level, "broker %d cannot be reached: %r", self.broker.broker_id, error)
