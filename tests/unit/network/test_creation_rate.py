from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from kbroker.config.config_values import MAX_INT
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.model import EndPoint
from kbroker.network import creation_rate
from kbroker.network.creation_rate import CreationRate
from kbroker.network.socket_server import SocketServer
from kbroker.network.unserved_clients import UnservedClients
from kbroker.server.system_clock import SystemClock
from tests.fakes.running.waiting import until


def test_as_many_come_at_once_as_in_a_second_and_then_one_after_the_other() -> None:
    rate, came, now_s = CreationRate(10), [], 5.0
    while now_s < 7.0:
        wait_s = rate.wait_s(now_s)
        if wait_s <= 0:
            rate.count(now_s)
            came.append(now_s)
        now_s += max(wait_s, 0.0001)

    assert len([at for at in came if at < 5.01]) == 10
    assert 29 <= len(came) <= 30
    assert rate.wait_s(100.0) == 0


async def test_a_listener_that_may_take_none_lets_them_wait_until_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(creation_rate, "BLOCKED_S", 0.001)
    listeners = [
        EndPoint(listener_name=name, host="127.0.0.1", port=0, security_protocol="PLAINTEXT")
        for name in ("BROKERS", "CLIENTS", "OWN")
    ]
    server = SocketServer(
        SocketServerConfig(), listeners, lambda _: None, SystemClock(), unserved=UnservedClients()
    )  # type: ignore[arg-type,return-value]
    bound = await server.start()
    server.put_creation_rates(0, dict.fromkeys(("BROKERS", "CLIENTS", "OWN"), MAX_INT), "BROKERS")
    async with AsyncExitStack() as stack:
        for end_point in reversed(bound):
            _, writer = await asyncio.open_connection("127.0.0.1", end_point.port)
            stack.callback(writer.close)
        await until(lambda: server.processor.connections == 1)
        (channel,) = server.processor.channels
        assert channel.connection.listener_name == "BROKERS"

        server.put_creation_rates(MAX_INT, {"BROKERS": 9, "CLIENTS": MAX_INT, "OWN": 0})
        await until(lambda: server.processor.connections == 2)
        server.put_creation_rates(MAX_INT, dict.fromkeys(("BROKERS", "CLIENTS", "OWN"), 9))
        await until(lambda: server.processor.connections == 3)
    await server.shutdown()
