"""How brokers of kbroker start at a ZooKeeper: the ids they get, and what is refused in a
sentence.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.processes import SESSION_TIMEOUT_MS, ZookeeperView
from compat_tests.commands.command_line import run as command
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers
from compat_tests.wire.wire_client import WireClient

TIMEOUT = ("--override", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}")
Starts = Callable[..., BrokerProcess]


@pytest.fixture
def connect(kind: str, zookeeper: ZooKeeperServers) -> str:
    """A cluster that nobody has used."""
    if kind != "kbroker":
        pytest.skip("looks at what kbroker says")
    return zookeeper.connect(f"/{uuid.uuid4().hex}")


@pytest.fixture
def tree(connect: str) -> Iterator[ZookeeperView]:
    """Yield a view of the cluster in ZooKeeper."""
    view = ZookeeperView(connect)
    yield view
    view.close()


@pytest.fixture
def make(tmp_path: Path, connect: str) -> Iterator[Starts]:
    """Make a broker; brokers that still run end with the test."""
    made: list[BrokerProcess] = []

    def broker(name: str, *options: str, where: str = "") -> BrokerProcess:
        at = ("--zookeeper", where or connect)
        made.append(BrokerProcess(tmp_path / name / "data", (*at, *TIMEOUT, *options)))
        return made[-1]

    yield broker
    for broker_process in made:
        process = broker_process.process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(30)


def refusal(broker: BrokerProcess) -> str:
    """The sentence of a broker that does not start: its last line but for the command that says
    more.
    """
    broker.launch()
    assert broker.process is not None
    assert broker.process.wait(60) == 1, broker.log_text()
    assert "Traceback" not in broker.log_text()
    return [line for line in broker.log_text().splitlines() if "See kbroker help" not in line][-1]


def test_brokers_without_an_id_get_one_and_keep_it(make: Starts, tree: ZookeeperView) -> None:
    first, second = make("first"), make("second")
    first.start()
    second.start()
    assert tree.broker_ids() == [1001, 1002]

    assert (first.stop(), second.stop()) == (0, 0)

    assert tree.broker_ids() == []  # at once, not when the sessions would have timed out
    second.start()
    assert tree.broker_ids() == [1002]


def test_three_brokers_of_one_process_have_a_session_each(
    make: Starts, tree: ZookeeperView
) -> None:
    brokers = make("three", "--brokers", "3", "--override", "broker.id=4")

    brokers.start()

    assert tree.broker_ids() == [4, 5, 6]
    assert len({tree.session_id(number) for number in (4, 5, 6)}) == 3
    assert brokers.stop() == 0
    assert tree.broker_ids() == []


def test_an_id_in_use_is_refused_while_its_broker_answers(make: Starts) -> None:
    first = make("first", "--override", "broker.id=7")
    first.start()

    said = refusal(make("second", "--override", "broker.id=7"))

    assert said == (
        f"Error: broker.id 7 is in use by a running broker of this cluster "
        f"(PLAINTEXT://{first.bootstrap}): give this one another broker.id, or stop the other"
    )
    again = make("second", "--override", "broker.id=8")  # as the sentence says
    again.start()
    assert again.stop() == 0


def test_the_status_is_told_while_a_dead_broker_is_still_registered(make: Starts) -> None:
    first = make("first", "--override", "zookeeper.session.timeout.ms=60000")
    second = make("second", "--override", "zookeeper.session.timeout.ms=60000")
    first.start()
    second.start()
    assert second.process is not None
    second.process.kill()
    second.process.wait(30)

    for _ in range(8):  # the client library asks any broker that it is told of
        told = command("cluster", "status", bootstrap=first.bootstrap)
        assert (told.code, "2 brokers" in told.err) == (0, True), told


def test_what_a_killed_broker_left_is_waited_for(
    make: Starts, tree: ZookeeperView, zookeeper: ZooKeeperServers
) -> None:
    broker = make("killed", "--override", "zookeeper.session.timeout.ms=60000")
    broker.start()
    epoch, session_id = tree.broker_epoch(1001), tree.session_id(1001)
    assert broker.process is not None
    assert epoch is not None
    assert session_id is not None
    broker.process.kill()
    broker.process.wait(30)

    broker.launch()
    sentence = "broker.id 1001 is still registered by an earlier run"
    until(lambda: sentence in broker.log_text())
    zookeeper.expire_session(session_id)

    assert broker.process.stdout is not None
    assert "listening on" in broker.process.stdout.readline()
    assert (tree.broker_epoch(1001) or 0) > epoch


def test_topics_that_nobody_can_serve_hold_no_start_up(make: Starts, tree: ZookeeperView) -> None:
    broker = make("broker", "--override", "broker.id=1")
    broker.start()
    client = WireClient(broker.bootstrap)
    client.create_topic("served")
    client.close()
    broker.stop()
    away = b'{"version":3,"topic_id":"8DKYx1t3SBmC6lgbKhSJSQ","partitions":{"0":[99]}}'
    for topic in ("away", "state.spoilt", "no topic"):
        tree.create(
            f"/brokers/topics/{topic}", away if topic == "away" else away.replace(b"99", b"1")
        )
    for part in ("partitions", "partitions/0", "partitions/0/state"):
        tree.create(f"/brokers/topics/state.spoilt/{part}", b"{" if "state" in part else b"")

    broker.start()

    client = WireClient(broker.bootstrap)
    assert client.list_offsets("served", -1).startswith("0 ")
    client.close()
    assert broker.stop() == 0
    said = broker.log_text()
    assert "/brokers/topics/state.spoilt/partitions/0/state" in said
    assert "has not yet sent the metadata" not in said
    assert "serving without" not in said


def test_the_directory_of_another_cluster_is_refused(
    make: Starts, zookeeper: ZooKeeperServers
) -> None:
    there = make("broker")
    there.start()
    there.stop()
    elsewhere = zookeeper.connect(f"/{uuid.uuid4().hex}")

    said = refusal(make("broker", where=elsewhere))

    assert re.match(
        rf"Error: Data directory \S+ belongs to cluster \S+, but ZooKeeper at {elsewhere} holds no "
        r"cluster yet: check the address \(with its chroot\)",
        said,
    )


def test_a_broker_waits_for_a_server_that_starts_late(make: Starts) -> None:
    with zookeeper_servers() as own:
        own.stop()
        wait = ("--override", "zookeeper.connection.timeout.ms=60000")
        broker = make("early", *wait, where=own.connect("/late"))
        broker.launch()
        until((broker.data / ".lock").exists)
        own.start()

        assert broker.process is not None
        assert broker.process.stdout is not None
        assert "listening on" in broker.process.stdout.readline()
        assert broker.stop() == 0
