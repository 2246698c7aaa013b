"""The ways to the brokers of the cluster: a call to this one, a connection to each other one.

Connections go to the listener that brokers use among themselves (`inter.broker.listener.name`). The
controller's orders go to the control plane's, if there is one. Whoever connects speaks there as the
own listener of that name does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kbroker.errors import KafkaError
from kbroker.model import Broker, EndPoint
from kbroker.peers.broker_client import BrokerClient
from kbroker.peers.way import PLAIN_WAY, NotLetInError, Way
from kbroker.protocol.header import API_VERSIONS_KEY
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

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
        way_into: Callable[[str], Way] = lambda _: PLAIN_WAY,
    ) -> None:
        """`local` carries out requests to this broker itself. `listener_names` are the brokers'
        listener and the one of the controller's orders, None for the same. `timeout_ms` bounds one
        request. `way_into` is asked once for each of the listeners.
        """
        self._broker_id = broker_id
        self._local = local
        self._listener_name, control_plane = listener_names
        self._orders_listener_name = control_plane or self._listener_name
        self._timeout_ms = timeout_ms
        names = {self._listener_name, self._orders_listener_name}
        self._ways = {name: way_into(name)._replace(on_refused=self._on_refused) for name in names}
        self._lines = RareLines()

    def connect(self, broker: Broker) -> LocalT | BrokerClient:
        """The channel of the controller's orders to a broker."""
        if broker.broker_id == self._broker_id:
            return self._local
        return self._client(broker, self._orders_listener_name)

    def client(self, broker: Broker) -> BrokerClient:
        return self._client(broker, self._listener_name)

    def _client(self, broker: Broker, listener_name: str) -> BrokerClient:
        end_point = inter_broker_end_point(broker.end_points, listener_name)
        way = self._ways[listener_name]
        return BrokerClient(end_point, str(self._broker_id), self._timeout_ms, way=way)

    def _on_refused(self, error: NotLetInError) -> None:
        """Several connections hear the same, again and again."""
        now_ms = asyncio.get_running_loop().time() * 1000
        left_out = self._lines.left_out("refused", str(error), now_ms)
        if left_out is not None:
            _log.warning("no connection: %s%s", error, note_of(left_out))


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

    A process that is stopped but has not ended accepts connections and says nothing. What a broker
    answers before a login is enough, also that it trusts nobody without a certificate.
    """
    way = PLAIN_WAY
    if end_point.security_protocol.endswith("SSL"):
        from kbroker.peers.tls_connect import connect_unverified  # ssl takes memory

        way = Way(connect_unverified)
    client = BrokerClient(reachable(end_point), "", PROBE_TIMEOUT_MS, way=way)
    try:
        await client.serves(API_VERSIONS_KEY, 0)  # only once may a client ask for it before a login
    except NotLetInError:
        return True
    except (OSError, TimeoutError, KafkaError):
        return False
    finally:
        client.close()
    return True
