"""Connections from one address beyond its rate, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.counters import CounterRegistry
from kbroker.model import EndPoint
from kbroker.network import acceptor, address_rates
from kbroker.network.address_rates import AddressRates
from kbroker.network.connection_metrics import ConnectionMetrics
from kbroker.network.socket_server import SocketServer
from kbroker.network.unserved_clients import UnservedClients
from kbroker.quotas.rate import Windows
from kbroker.server.system_clock import SystemClock
from tests.fakes.running.waiting import until

HERE, THERE = "10.0.0.1", "10.0.0.2"
WINDOWS = Windows(11, 1_000)


def taken(rates: AddressRates, address: str, count: int, now_ms: float) -> int:
    return sum(rates.throttle_ms(address, now_ms) == 0 for _ in range(count))


def test_a_burst_may_take_what_all_windows_allow_and_then_the_rate_holds() -> None:
    rates = AddressRates(WINDOWS)
    rates.put(HERE, 5)
    assert taken(rates, HERE, 100, 0.0) == 50  # ten full windows, as Kafka counts them
    assert taken(rates, THERE, 100, 0.0) == 100
    came = sum(taken(rates, HERE, 10, 11_000.0 + at) for at in range(0, 60_000, 100))
    assert came == pytest.approx(5 * 60, rel=0.2)


def test_the_pause_is_what_brings_the_rate_back_and_a_window_at_most() -> None:
    rates = AddressRates(WINDOWS)
    rates.put(HERE, 10)
    assert taken(rates, HERE, 100, 0.0) == 100
    assert rates.throttle_ms(HERE, 0.0) == 100  # 101 in ten seconds: a tenth of a second too many
    assert rates.throttle_ms(HERE, 0.0) == 100  # the former one did not count
    rates.put(HERE, 0)
    assert rates.throttle_ms(HERE, 0.0) == 1_000


def test_an_address_has_its_own_limit_or_that_of_all_others() -> None:
    rates = AddressRates(WINDOWS)
    assert not rates
    rates.put(None, 1)
    rates.put(HERE, 2)
    assert [taken(rates, address, 50, 0.0) for address in (HERE, THERE)] == [20, 10]
    rates.put(HERE, None)
    assert rates.throttle_ms(HERE, 0.0)
    rates.put(None, None)
    assert not rates
    assert taken(rates, HERE, 50, 0.0) == 50


def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_rates, "ADDRESSES_MAX", 3)
    rates = AddressRates(WINDOWS)
    rates.put(None, 1)
    for number in range(5):
        rates.throttle_ms(f"10.0.1.{number}", 0.0)
    assert len(rates.known) == 3
    for _ in range(3):
        rates.throttle_ms(HERE, 4_000_000.0)
    assert rates.known == [HERE]


async def test_a_connection_beyond_the_rate_is_closed_after_a_pause_and_counts_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    end_point = EndPoint(listener_name="A", host="127.0.0.1", port=0, security_protocol="PLAINTEXT")
    server = SocketServer(
        SocketServerConfig(), [end_point], lambda _: None, SystemClock(), unserved=UnservedClients()
    )  # type: ignore[arg-type,return-value]
    (bound,) = await server.start()
    rates = server.quotas.addresses = AddressRates(Windows(2, 20))
    rates.put("127.0.0.1", 50)  # one in a window
    streams = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(3)]
    assert [await reader.read() for reader, _ in streams[1:]] == [b"", b""]  # both are closed
    await until(lambda: server.processor.connections == 1)
    assert server.quotas.total == 1
    began_s = asyncio.get_running_loop().time()
    counters = CounterRegistry()
    ConnectionMetrics(server, began_s, lambda: began_s).register(counters)
    (pauses,) = [
        (tags, values)
        for table, tags, values in filter(None, counters.samples())
        if table.metrics[0].name.name == "ip-connection-accept-throttle-time"
    ]
    assert pauses[0] == ("A",)
    assert 1 <= pauses[1][0] <= 20
    assert re.search(r"closing a connection from 127.0.0.1 in \d+ ms: too many came", caplog.text)

    monkeypatch.setattr(acceptor, "THROTTLED_MAX", 1)
    rates.put("127.0.0.1", 0)
    rates = server.quotas.addresses = AddressRates(Windows(2, 60_000))
    rates.put("127.0.0.1", 0)
    streams += [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(2)]
    assert await streams[-1][0].read() == b""  # the first one waits, until the broker ends
    await server.shutdown()
    assert await streams[-2][0].read() == b""
    for _, writer in streams:
        writer.close()
