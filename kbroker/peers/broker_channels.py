"""The ways to the brokers of the cluster: a call to this one, a connection to each other one.

Connections go to the listener that brokers use among themselves (`inter.broker.listener.name`). The
controller's orders go to the control plane's, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from kbroker.errors import KafkaError
from kbroker.model import Broker, EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.api_versions import ApiVersionsRequest

LOCAL_HOST = "127.0.0.1"  # of a listener announced under the address that a client connected to
PROBE_TIMEOUT_MS = 1_500.0

LocalT = TypeVar("LocalT")


class BrokerChannels(Generic[LocalT]):
    """Opens channels for the controller, and for questions to it. Owned by the event loop."""

    def __init__(
        self,
        broker_id: int,
        local: LocalT,
        listener_names: tuple[str, str | None],
        timeout_ms: float,
    ) -> None:
        """`local` carries out requests to this broker itself. `listener_names` are the brokers'
        listener and the one of the controller's orders, None for the same. `timeout_ms` bounds one
        request.
        """
        self._broker_id = broker_id
        self._local = local
        self._listener_name, control_plane = listener_names
        self._orders_listener_name = control_plane or self._listener_name
        self._timeout_ms = timeout_ms

    def connect(self, broker: Broker) -> LocalT | BrokerClient:
        """The channel of the controller's orders to a broker."""
        if broker.broker_id == self._broker_id:
            return self._local
        return self._client(broker, self._orders_listener_name)

    def client(self, broker: Broker) -> BrokerClient:
        return self._client(broker, self._listener_name)

    def _client(self, broker: Broker, listener_name: str) -> BrokerClient:
        end_point = inter_broker_end_point(broker.end_points, listener_name)
        return BrokerClient(end_point, str(self._broker_id), self._timeout_ms)


def inter_broker_end_point(end_points: Iterable[EndPoint], listener_name: str) -> EndPoint:
    """The address at which brokers reach a broker: its first listener if it lacks theirs."""
    known = list(end_points)
    found = next((e for e in known if e.listener_name == listener_name), known[0])
    return reachable(found)


def reachable(end_point: EndPoint) -> EndPoint:
    """The end point with a host to connect to."""
    if end_point.host:
        return end_point
    return EndPoint(
        listener_name=end_point.listener_name,
        host=LOCAL_HOST,
        port=end_point.port,
        security_protocol=end_point.security_protocol,
    )


async def answers(end_point: EndPoint) -> bool:
    """True when a broker answers there: one that runs, not one whose registration outlived it.

    A process that is stopped but has not ended accepts connections and says nothing.
    """
    client = BrokerClient(reachable(end_point), "", PROBE_TIMEOUT_MS)
    try:
        await client.send(ApiVersionsRequest())
    except (OSError, TimeoutError, KafkaError):
        return False
    finally:
        client.close()
    return True
