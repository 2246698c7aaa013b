"""What a broker asks its controller, in this process or over a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.controller.kafka_controller import KafkaController
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.server.broker_channels import BrokerChannels
from kbroker.zk.tree import SessionState, TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils


class ControllerRequests:
    """Owned by the event loop."""

    def __init__(
        self,
        controller: KafkaController,
        metadata: MetadataCache,
        channels: BrokerChannels,
        zk: ZkUtils,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._channels = channels
        self._zk = zk
        self._broker_epoch = broker_epoch

    async def controlled_shutdown(self) -> Sequence[TopicPartition]:
        """Have leaderships moved away from this broker; those that stay come back.

        Raises OSError, TimeoutError, KafkaError or TreeError when there was no answer.
        """
        broker_id = self._metadata.broker_id
        if self._controller.is_active:
            return await self._controller.controlled_shutdown(broker_id)
        if self._zk.tree.state is not SessionState.CONNECTED:
            raise TreeUnavailableError("/controller")  # no broker can act as controller now
        controller = self._metadata.broker(self._controller.controller_id)
        if controller is None or controller.broker_id == broker_id:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller now")
        client = self._channels.client(controller)
        try:
            answer: ControlledShutdownResponse = await client.send(
                ControlledShutdownRequest(broker_id=broker_id, broker_epoch=self._broker_epoch())
            )
        finally:
            client.close()
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), f"{controller.broker_id} refused")
        return [
            TopicPartition(p.topic_name, p.partition_index) for p in answer.remaining_partitions
        ]
