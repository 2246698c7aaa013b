"""A broker's HTTP address through its life: recovery, service, stop; and how it is asked for."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.status import health
from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import EndPoint
from kbroker.server.broker.broker_state import BrokerState
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.membership.controlled_shutdown import ControlledShutdown
from kbroker.server.start.launch import Hearer, StartOptions, prepared, run_until_signal
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from tests.fakes.running.waiting import until
from tests.faults.running_broker import RunningBroker

ASKED = ("--override", "kbroker.http.listeners=127.0.0.1:0")


def get(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    status, text = answer.status, answer.read().decode()
    connection.close()
    return status, text


async def ill(server: KafkaServer) -> tuple[int, dict[str, str]]:
    """The status of /readyz, and what it says is wrong, by check."""
    status, text = await asyncio.to_thread(get, server.http_end_points[0].port, "/readyz")
    return status, {
        row["name"]: row["problem"] for row in json.loads(text)["checks"] if not row["ok"]
    }


def settings(data: Path, **more: str) -> KafkaConfig:
    values = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "kbroker.http.listeners": "127.0.0.1:0",
        **more,
    }
    return KafkaConfig.for_profile("dev", values)


async def test_a_broker_is_alive_and_not_ready_while_its_logs_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = KafkaServer(settings(tmp_path))
    await first.startup()
    await first.kill()
    may_load, load = threading.Event(), LogManager.load

    def held(*arguments: Any) -> Any:
        may_load.wait()
        return load(*arguments)

    monkeypatch.setattr(LogManager, "load", held)
    server = KafkaServer(settings(tmp_path))
    starting = asyncio.create_task(server.startup())
    recovering = BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN
    await until(lambda: server.lifecycle.state is recovering)

    assert (await asyncio.to_thread(get, server.http_end_points[0].port, "/livez"))[0] == 200
    assert await ill(server) == (
        503,
        {
            "recovery": "logs are recovered after an unclean stop",
            "membership": "the broker has not joined its cluster yet",
        },
    )
    port = server.http_end_points[0].port
    status, page = await asyncio.to_thread(get, port, "/metrics")
    assert (status, f"brokerstate {recovering.value}\n" in page) == (200, True)
    may_load.set()
    await starting
    assert await ill(server) == (200, {})
    await server.shutdown()


async def test_a_broker_is_not_ready_from_the_moment_it_is_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, may_stop = asyncio.Event(), asyncio.Event()

    async def held(_self: object, **_: object) -> None:
        stopping.set()
        await may_stop.wait()

    monkeypatch.setattr(ControlledShutdown, "run", held)
    server = KafkaServer(settings(tmp_path))
    await server.startup()
    end = asyncio.create_task(server.shutdown())
    await stopping.wait()

    assert await ill(server) == (503, {"stopping": "the broker is stopping"})

    may_stop.set()
    await end
    with pytest.raises(ConnectionRefusedError):
        get(server.http_end_points[0].port, "/readyz")


def test_a_broker_is_not_ready_from_sigterm_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_stop = threading.Event()
    heard: list[tuple[int, str]] = []

    async def held(_self: object, **_: object) -> None:
        await asyncio.to_thread(may_stop.wait)

    def terminate(port: int) -> None:
        heard.append(get(port, "/readyz"))
        os.kill(os.getpid(), signal.SIGTERM)
        while (answer := get(port, "/readyz"))[0] == 200:  # the signal is on its way
            pass
        heard.append(answer)
        may_stop.set()

    def ask(end_points: Sequence[EndPoint]) -> None:
        threading.Thread(target=terminate, args=(end_points[0].port,)).start()

    monkeypatch.setattr(ControlledShutdown, "run", held)
    options = StartOptions(listen=["127.0.0.1:0"], data=str(tmp_path / "d"), overrides=ASKED[1:])
    with prepared(options, {}) as launch:
        run_until_signal(launch, Hearer(ready=lambda _: None, http=ask))

    assert [status for status, _ in heard] == [200, 503]
    assert "the broker is stopping" in heard[1][1]


async def test_each_broker_of_a_process_has_an_address_of_its_own(
    tmp_path: Path,
) -> None:
    cluster = LocalCluster(configs_of_brokers(settings(tmp_path), 2), str(tmp_path))
    await cluster.startup()
    one, other = cluster.servers
    assert one is not None
    assert other is not None
    assert len({e.port for e in cluster.http_end_points}) == 2
    for server in (one, other):
        (got,) = server.http_end_points  # those that were asked for had port 0
        assert server.parts.storage.config.value("kbroker.http.listeners") == (
            f"127.0.0.1:{got.port}",
        )
    assert await ill(one) == await ill(other) == (200, {})
    await cluster.shutdown()


async def test_all_brokers_of_a_process_that_stops_are_not_ready_though_some_stop_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, may_stop = asyncio.Event(), asyncio.Event()

    async def held(_self: object, **_: object) -> None:
        stopping.set()
        await may_stop.wait()

    monkeypatch.setattr(ControlledShutdown, "run", held)
    cluster = LocalCluster(configs_of_brokers(settings(tmp_path), 2), str(tmp_path))
    await cluster.startup()
    servers = [server for server in cluster.servers if server is not None]
    end = asyncio.create_task(cluster.shutdown())
    await stopping.wait()

    assert [await ill(server) for server in servers] == [
        (503, {"stopping": "the broker is stopping"})
    ] * 2

    may_stop.set()
    await end


def test_an_address_that_is_asked_for_and_taken_leaves_no_directory_behind(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"kbroker.http.listeners=127.0.0.1:{taken.getsockname()[1]}"
        broker = RunningBroker(tmp_path / "data", "--override", listener)
        with pytest.raises(AssertionError, match=r"Error: kbroker\.http\.listeners: cannot listen"):
            broker.start()
    assert not broker.data.exists()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path / "data", *ASKED)
    yield running
    running.end()


def address_of(broker: RunningBroker) -> str:
    """Where it says that its health is; people read that after programs read where it listens."""
    while not (found := re.findall(r"console at (http://\S+)/\n", broker.said())):
        assert broker.process is not None
        assert broker.process.poll() is None
    return str(found[0])


def test_a_restart_has_the_port_again_and_a_stop_does_not_wait_for_clients(
    tmp_path: Path, broker: RunningBroker
) -> None:
    broker.start()
    address = address_of(broker)
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as idle:
        assert get(port, "/livez")[0] == 200
        assert broker.stop() == 0
        assert idle.recv(1) == b""

    again = RunningBroker(tmp_path / "data", "--override", f"kbroker.http.listeners=:{port}")
    again.options += ("--override", "kbroker.http.token=geheim")
    again.start()
    try:
        assert get(port, "/livez")[0] == 200
    finally:
        assert again.stop(signal.SIGINT) == 0


def test_the_command_says_what_the_broker_says(broker: RunningBroker) -> None:
    broker.start()
    address = address_of(broker)

    well = CliRunner().invoke(health, ["--url", address], standalone_mode=False)
    assert (well.exception, well.output) == (None, f"{address} is ready\n")
    broker.stop()
    gone = CliRunner().invoke(health, ["--url", address], standalone_mode=False).exception
    assert isinstance(gone, CommandError)
    assert gone.code == ExitCode.CANNOT_CONNECT
    assert gone.message == f"cannot connect to {address}: Connection refused"
