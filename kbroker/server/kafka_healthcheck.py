"""KafkaHealthcheck: keeps this broker registered in the tree for as long as its session lives."""

from __future__ import annotations

from kbroker.model import Broker
from kbroker.zk.tree import NodeExistsError
from kbroker.zk.zk_utils import ZkUtils


class BrokerIdInUseError(Exception):
    """Another broker with this id is registered; the message is one sentence for the operator."""


class KafkaHealthcheck:
    """Registers the broker; `broker_epoch` is the creation id of its node, which fences it against
    its past.
    """

    def __init__(self, zk: ZkUtils, broker: Broker) -> None:
        self._zk = zk
        self.broker = broker
        self.broker_epoch = -1

    async def startup(self) -> None:
        """Register. Raises BrokerIdInUseError."""
        try:
            self.broker_epoch = await self._zk.register_broker(self.broker)
        except NodeExistsError as error:
            raise BrokerIdInUseError(
                f"broker.id {self.broker.broker_id} is in use by a running broker of this cluster: "
                "give this one another broker.id, or stop the other"
            ) from error
