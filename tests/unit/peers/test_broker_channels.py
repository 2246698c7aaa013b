"""The ways from one broker to the others."""

from __future__ import annotations

import asyncio

from kbroker.model import Broker, EndPoint
from kbroker.peers.broker_channels import (
    BrokerChannels,
    answers,
    inter_broker_end_point,
)
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.update_metadata import UpdateMetadataResponse
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse


class Local:
    async def send(self, request: ControlRequest) -> ControlResponse:
        return UpdateMetadataResponse()


def end_point(name: str, port: int, host: str = "h") -> EndPoint:
    return EndPoint(listener_name=name, host=host, port=port)


async def test_a_broker_calls_itself_and_connects_to_the_others() -> None:
    local = Local()
    channels = BrokerChannels(1, local, ("INTERNAL", None), 1_000)
    points = (end_point("CLIENTS", 1), end_point("INTERNAL", 2))

    other = channels.connect(Broker(broker_id=2, end_points=points))

    assert channels.connect(Broker(broker_id=1, end_points=points)) is local
    assert isinstance(other, BrokerClient)
    assert other.end_point == end_point("INTERNAL", 2)


async def test_the_controllers_orders_have_a_way_of_their_own_where_it_is_named() -> None:
    channels = BrokerChannels(1, Local(), ("INTERNAL", "ORDERS"), 1_000)
    points = (end_point("ORDERS", 1), end_point("INTERNAL", 2))
    other = Broker(broker_id=2, end_points=points)

    orders, requests = channels.connect(other), channels.client(other)

    assert isinstance(orders, BrokerClient)
    assert (orders.end_point.port, requests.end_point.port) == (1, 2)


def test_a_broker_without_that_listener_is_reached_on_its_first() -> None:
    assert inter_broker_end_point([end_point("A", 1), end_point("B", 2)], "C").port == 1


def test_a_listener_without_host_is_in_this_process() -> None:
    assert inter_broker_end_point([end_point("A", 1, host="")], "A").host == "127.0.0.1"


async def test_nobody_answers_where_nobody_listens() -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    assert not await answers(end_point("A", port, "127.0.0.1"))
    server.close()
    await server.wait_closed()
    assert not await answers(end_point("A", port, "127.0.0.1"))
