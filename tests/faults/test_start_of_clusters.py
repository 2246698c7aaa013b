"""Starts and stops of several brokers in one process, and of brokers whose ensemble is not there."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable

import pytest

from tests.faults.running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]

THREE = ("--brokers", "3")
IDLE_STOP_S = 4.0  # a quarter of a second on a machine of one's own


def listening(broker: RunningBroker, count: int) -> list[int]:
    """The ports it tells, as many as it should."""
    process = broker.spawn()
    assert process.stdout is not None
    ports = []
    for line in process.stdout:
        ports.append(int(line.strip().rpartition(":")[2]))
        if len(ports) == count:
            return ports
    raise AssertionError(f"the brokers ended with {process.wait()}: {broker.said()[-2000:]}")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_three_brokers_tell_their_addresses_and_stop_on_one_signal(
    make_broker: MakeBroker, how: signal.Signals
) -> None:
    brokers = make_broker(*THREE)
    ports = listening(brokers, 3)
    assert len(set(ports)) == 3
    for port in ports:
        brokers.port = port
        brokers.assert_serves()
    began_s = time.monotonic()

    assert brokers.stop(how) == 0

    assert time.monotonic() - began_s < IDLE_STOP_S
    for number in range(3):
        assert (brokers.data / f"broker-{number}" / ".kafka_cleanshutdown").exists()
    assert brokers.said().count("-> NOT_RUNNING") == 3
    assert "Traceback" not in brokers.said()
    said = brokers.said().splitlines()
    stops = [line for line in said if line.endswith("-> PENDING_CONTROLLED_SHUTDOWN")]
    assert ["RUNNING_AS_CONTROLLER ->" in line for line in stops] == [False, False, True]


def test_a_port_in_use_is_passed_over_but_for_the_first(make_broker: MakeBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        brokers = make_broker(*THREE)
        brokers.port = taken

        assert brokers.spawn().wait(30) == 1

        *_, last, place = brokers.said().splitlines()
        assert last.startswith(f"Error: listeners: cannot listen on 127.0.0.1:{taken}: ")
        assert "choose another port" in last
        assert place == "See kbroker help port-in-use"


def test_after_a_kill_all_brokers_recover(make_broker: MakeBroker) -> None:
    brokers = make_broker(*THREE)
    listening(brokers, 3)
    brokers.kill()

    listening(brokers, 3)

    assert brokers.said().count("-> RECOVERING_FROM_UNCLEAN_SHUTDOWN") == 3
    assert brokers.stop() == 0


def test_a_stop_during_the_start_stops_all(make_broker: MakeBroker) -> None:
    brokers = make_broker(*THREE)
    process = brokers.spawn()
    while not (brokers.data / "broker-0" / ".lock").exists():
        time.sleep(0.002)

    assert brokers.stop() == 0

    assert process.returncode == 0
    assert "Traceback" not in brokers.said()
    assert len(listening(brokers, 3)) == 3
    assert brokers.stop() == 0


def test_without_an_ensemble_a_broker_says_so_and_ends(make_broker: MakeBroker) -> None:
    timeout = "zookeeper.connection.timeout.ms=300"
    broker = make_broker("--zookeeper", "127.0.0.1:1/kafka", "--override", timeout)

    assert broker.spawn().wait(30) == 1

    *_, last, place = broker.said().splitlines()
    assert place == "See kbroker help no-zookeeper"
    assert last.startswith("Error: no connection to ZooKeeper at 127.0.0.1:1/kafka within 300 ms")
    assert "zookeeper.connect" in last
    assert "Traceback" not in broker.said()


def test_waiting_for_an_ensemble_ends_on_a_signal(make_broker: MakeBroker) -> None:
    timeout = "zookeeper.connection.timeout.ms=120000"
    broker = make_broker("--zookeeper", "127.0.0.1:1/kafka", "--override", timeout)
    broker.spawn()
    while not (broker.data / ".lock").exists():
        time.sleep(0.002)

    assert broker.stop(signal.SIGINT) == 0
    assert "Traceback" not in broker.said()


@pytest.mark.parametrize("option", [THREE, ("--zookeeper", "127.0.0.1:1")])
def test_adoption_is_for_a_broker_of_its_own(
    make_broker: MakeBroker, option: tuple[str, str]
) -> None:
    broker = make_broker("--adopt", *option)

    assert broker.spawn().wait(30) == 2

    assert "leave out --brokers and --zookeeper" in broker.said()


def test_an_address_that_is_none_is_named(make_broker: MakeBroker) -> None:
    broker = make_broker("--zookeeper", "zk:port/kafka")

    assert broker.spawn().wait(30) == 2

    assert broker.said().splitlines()[-1].startswith("Error: --zookeeper 'zk:port/kafka'")
