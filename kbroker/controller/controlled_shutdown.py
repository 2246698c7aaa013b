"""Before a broker stops, it asks the controller to let others lead what it leads (KIP-49).

Law: a stop never fails here. What cannot be moved in the given number of attempts goes offline with
the broker, until it comes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kbroker.controller.kafka_controller import KafkaController
from kbroker.controller.node_to_controller_channel import NodeToControllerChannel, PeerClient
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownSettings:
    """How long and how often the controller is asked."""

    attempts: int  # controlled.shutdown.max.retries
    backoff_ms: float  # controlled.shutdown.retry.backoff.ms
    timeout_ms: float  # of one attempt: controller.socket.timeout.ms


class ControlledShutdown:
    """The asking side, in the broker that is about to stop."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: KafkaController,
        channel: NodeToControllerChannel,
    ) -> None:
        """`broker_epoch` gives the epoch of this broker's present registration."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._channel = channel

    async def run(self, settings: ControlledShutdownSettings) -> bool:
        """True when nothing that others could lead is led here any more."""
        for attempt in range(settings.attempts):
            if attempt:
                await asyncio.sleep(settings.backoff_ms / 1000)
            try:
                remaining = await self._ask(settings.timeout_ms)
            except KafkaError as error:
                log.warning("controlled shutdown, attempt %d: %s", attempt + 1, error)
                continue
            if not remaining:
                return True
            log.info("controlled shutdown: still led here: %s", ", ".join(map(str, remaining)))
        if settings.attempts:
            log.warning("stopping although partitions may still be led here")
        return False

    async def _ask(self, timeout_ms: float) -> list[TopicPartition]:
        epoch = self._broker_epoch()
        if self._controller.is_active:
            return await self._controller.controlled_shutdown(self._broker_id, epoch)
        request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=epoch)

        async def question(client: PeerClient, left_ms: float) -> ControlledShutdownResponse:
            answer: ControlledShutdownResponse = await client.send(request, timeout_ms=left_ms)
            if answer.error_code != ErrorCode.NONE:
                code = ErrorCode(answer.error_code)
                # A broker that is not controller says so in its own way here.
                moved = code is ErrorCode.STALE_CONTROLLER_EPOCH
                raise KafkaError(ErrorCode.NOT_CONTROLLER if moved else code)
            return answer

        answer = await self._channel.ask(question, timeout_ms)
        if answer is None:
            return await self._controller.controlled_shutdown(self._broker_id, epoch)
        return [
            TopicPartition(remaining.topic_name, remaining.partition_index)
            for remaining in answer.remaining_partitions
        ]
