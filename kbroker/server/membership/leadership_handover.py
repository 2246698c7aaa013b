"""Asks the controller to move leaderships away from this broker, wherever the controller is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.controller.kafka_controller import KafkaController
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.peers.node_to_controller_channel import (
    NodeToControllerChannel,
    PeerClient,
)
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kbroker.zk.tree import SessionState, Tree, TreeUnavailableError

ANSWER_TIMEOUT_MS = 2_000.0


class LeadershipHandover:
    """One broker's question. Owned by the event loop."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: KafkaController,
        way: NodeToControllerChannel,
        tree: Tree,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._way = way
        self._tree = tree

    async def ask(self) -> Sequence[TopicPartition]:
        """Return the partitions that this broker still leads although others have replicas of them.

        Raises KafkaError, OSError or TreeUnavailableError when there was no answer.
        """
        if self._tree.state is not SessionState.CONNECTED:
            raise TreeUnavailableError("/controller")  # no broker can act as controller now
        if not self._controller.is_active:
            answer = await self._way.ask(self._question, ANSWER_TIMEOUT_MS)
            if answer is not None:
                return list(answer)
        return await self._controller.controlled_shutdown(self._broker_id, self._broker_epoch())

    async def _question(self, client: PeerClient, timeout_ms: float) -> Sequence[TopicPartition]:
        request = ControlledShutdownRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        answer: ControlledShutdownResponse = await client.send(request, timeout_ms=timeout_ms)
        if answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:  # it is not the controller
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return [
            TopicPartition(left.topic_name, left.partition_index)
            for left in answer.remaining_partitions
        ]
