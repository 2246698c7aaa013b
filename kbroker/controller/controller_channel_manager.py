"""ControllerChannelManager: carries the controller's requests to the brokers, in order.

Law: requests of one broker are sent one after the other, each after the answer to the one before; a
request that could not be sent is sent again until the broker is removed. The queue of a broker is
not bounded, as in Kafka: dropping one request would leave that broker with a wrong picture for
good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from kbroker.controller.machines.request_batch import ControlRequest
from kbroker.model import Broker
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataResponse

log = logging.getLogger(__name__)

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
ResponseHandler = Callable[[int, ControlRequest, ControlResponse], None]
RETRY_BACKOFF_S = 0.1


class BrokerChannel(Protocol):
    """The way to one broker: a connection, or a call in this process."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Send and return the answer.

        Raises OSError or TimeoutError when the broker could not be reached.
        """
        ...


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
        self._senders[broker.broker_id] = _Sender(broker.broker_id, channel, self._on_response)

    async def remove_broker(self, broker_id: int) -> None:
        """Stop sending to a broker; what is queued for it is dropped."""
        sender = self._senders.pop(broker_id, None)
        if sender is not None:
            await sender.stop()

    def send(self, requests: Iterable[tuple[int, ControlRequest]]) -> None:
        """Queue requests; those for unknown brokers are dropped."""
        for broker_id, request in requests:
            sender = self._senders.get(broker_id)
            if sender is None:
                log.warning("no channel to broker %d, request dropped", broker_id)
            else:
                sender.put(request)

    async def stop(self) -> None:
        """Stop sending to all brokers."""
        for broker_id in list(self._senders):
            await self.remove_broker(broker_id)


class _Sender:
    """Queue and task of one broker."""

    def __init__(
        self, broker_id: int, channel: BrokerChannel, on_response: ResponseHandler
    ) -> None:
        self._broker_id = broker_id
        self._channel = channel
        self._on_response = on_response
        self._queue: asyncio.Queue[ControlRequest] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(), name=f"controller to broker {broker_id}")

    def put(self, request: ControlRequest) -> None:
        self._queue.put_nowait(request)

    async def stop(self) -> None:
        if self._task is asyncio.current_task():
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            request = await self._queue.get()
            try:
                self._on_response(self._broker_id, request, await self._send(request))
            except Exception:
                log.exception("broker %d failed on %s", self._broker_id, type(request).__name__)

    async def _send(self, request: ControlRequest) -> ControlResponse:
        while True:
            try:
                return await self._channel.send(request)
            except (OSError, TimeoutError) as error:
                log.warning("broker %d cannot be reached: %r", self._broker_id, error)
                await asyncio.sleep(RETRY_BACKOFF_S)
