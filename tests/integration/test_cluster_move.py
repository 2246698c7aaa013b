"""A directory that began standalone is exported into a ZooKeeper ensemble, runs there as a broker
of a cluster, and comes back: topics, settings, groups and records go along, and at no time does it
start where its metadata is not.
"""

from __future__ import annotations

import re
import signal
from itertools import count
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from compat_tests.commands.command_line import completed
from compat_tests.conftest import BrokerProcess
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from kbroker.model import TopicPartition
from tests.integration.client_reads import read_committed_offsets, read_rows
from tests.integration.test_apache_takes_over_a_broker import (
    GROUP,
    PLACES,
    PLAIN,
    RECORDS,
    SETTINGS,
    settings_of,
    use,
    write,
)

pytestmark = pytest.mark.java

_chroots = (f"/move/{number}" for number in count())


@pytest.fixture(scope="module")
def servers() -> ZooKeeperServers:
    try:
        return shared_zookeeper()
    except NotAvailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def connect(servers: ZooKeeperServers) -> str:
    return servers.connect(next(_chroots))


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    done = completed(arguments)
    return done.returncode, done.stderr


def move(direction: str, data: Path, connect: str, *options: str) -> tuple[int, str]:
    return run("cluster", direction, "--data", str(data), "--zookeeper", connect, *options)


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    options = ("--partitions", str(partitions), "--bootstrap", bootstrap)
    assert run("topic", "create", name, *options)[0] == 0


def refusal(broker: BrokerProcess) -> str:
    """Return the words of a start that must fail."""
    with pytest.raises(RuntimeError) as raised:
        broker.start()
    assert broker.process is not None
    assert broker.process.stdout is not None
    broker.process.stdout.close()
    return str(raised.value)


def test_a_directory_goes_into_an_ensemble_and_comes_back(tmp_path: Path, connect: str) -> None:
    alone = BrokerProcess(tmp_path / "data")
    alone.start()
    use(alone.bootstrap)
    rows = read_rows(alone.bootstrap, PLACES, "read_uncommitted")
    alone.stop(signal.SIGKILL)
    member = BrokerProcess(alone.data, ("--zookeeper", connect), alone.port)

    assert "cluster export --data" in refusal(member)
    tree_before = (alone.data / "kbroker-tree.journal").read_bytes()
    code, said = move("export", alone.data, connect, "--dry-run")
    assert (code, "nodes would be created" in said) == (0, True)
    assert "cluster export --data" in refusal(member)
    code, said = move("export", alone.data, connect)
    assert (code, f"--zookeeper {connect}" in said) == (0, True), said
    assert (alone.data / "kbroker-tree.journal").read_bytes() == tree_before
    assert f"is in ZooKeeper at {connect}" in refusal(alone)
    assert "was exported already" in move("export", alone.data, connect)[1]

    member.start()
    assert "is in use by a running broker" in move("import", alone.data, connect)[1]
    served = read_rows(member.bootstrap, PLACES, "read_uncommitted")
    settings = settings_of(member.bootstrap)
    offsets = read_committed_offsets(member.bootstrap, GROUP, PLACES)
    write(member.bootstrap, "none")
    after = read_rows(member.bootstrap, PLACES, "read_uncommitted")
    create_topic(member.bootstrap, "made-there", 2)
    assert member.stop() == 0, member.log_text()

    code, said = move("import", alone.data, connect)
    assert (code, "warning" in said) == (0, False), said
    assert "has a tree of its own, with topics such as" in refusal(member)
    alone.start()
    served_again = read_rows(alone.bootstrap, PLACES, "read_uncommitted")
    made_there = [TopicPartition("made-there", p) for p in range(2)]
    empty = read_rows(alone.bootstrap, made_there, "read_uncommitted")
    offsets_again = read_committed_offsets(alone.bootstrap, GROUP, PLACES)
    code, said = run("cluster", "status", "--bootstrap", alone.bootstrap)
    assert (code, "0 without leader" in said) == (0, True), said
    assert alone.stop() == 0

    assert [len(rows[place]) for place in PLACES] == [RECORDS] * len(PLACES)
    assert served == rows
    assert settings == SETTINGS
    assert offsets == offsets_again == {TopicPartition(PLAIN, p): 17 for p in range(3)}
    assert served_again == after
    assert empty == {place: [] for place in made_there}

    code, said = move("export", alone.data, connect)
    assert (code, "--replace" in said) == (1, True)
    assert move("export", alone.data, connect, "--replace")[0] == 0


def test_several_brokers_of_one_directory_go_and_come_back(tmp_path: Path, connect: str) -> None:
    together = BrokerProcess(tmp_path / "data", ("--brokers", "2"))
    together.start()
    create_topic(together.bootstrap, "T", 4)
    assert together.stop() == 0, together.log_text()
    port = together.port

    code, said = move("export", together.data, connect)
    assert code == 0
    assert f"kbroker start --brokers 2 --data {together.data} --zookeeper" in said
    assert "is in ZooKeeper at" in refusal(together)
    alone = BrokerProcess(together.data, ("--zookeeper", connect))
    assert "start them with --brokers 2" in refusal(alone)
    first = BrokerProcess(together.data / "broker-0", ("--zookeeper", connect))
    first.start()
    code, said = run("cluster", "status", "--bootstrap", first.bootstrap)
    assert (code, "2 without leader" in said) == (1, True), said
    assert first.stop() == 0

    code, said = move("import", first.data, connect)
    assert (code, "2 partitions have no replica in" in said) == (0, True), said
    assert move("import", together.data, connect)[0] == 0
    together.port = port
    together.start()
    code, said = run("cluster", "status", "--bootstrap", together.bootstrap)
    assert (code, "2 brokers, 1 topic, 4 partitions, 0 without leader" in said) == (0, True), said
    assert together.stop() == 0


def test_what_cannot_be_moved_is_refused_with_one_sentence(tmp_path: Path, connect: str) -> None:
    (tmp_path / "empty").mkdir()
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    in_use = move("export", broker.data, connect)
    assert broker.stop() == 0

    outcomes = [
        in_use,
        move("export", tmp_path / "empty", connect),
        move("export", tmp_path / "absent", connect),
        move("import", tmp_path / "empty", connect),
        move("import", broker.data, connect),
        move("export", broker.data, "127.0.0.1:x/y"),
    ]
    lines = [
        (code, re.sub(r"^See kbroker help .*\n", "", said, flags=re.M).count("\n"))
        for code, said in outcomes
    ]
    assert lines == [(1, 1)] * 5 + [(2, 1)]
    sentences = [
        "is in use by a running broker", "has no tree to export",
        "is not a directory", "is not a broker's data directory", "the source holds no cluster",
        "--zookeeper '127.0.0.1:x/y' is not HOST:PORT",
    ]  # fmt: skip
    assert [s in said for s, (_, said) in zip(sentences, outcomes, strict=True)] == [True] * 6


def test_a_path_that_was_mistyped_is_not_made(tmp_path: Path, servers: ZooKeeperServers) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    assert broker.stop() == 0
    path = next(_chroots)
    mistyped = servers.connect(path)

    imported = move("import", broker.data, mistyped)
    looked_at = move("export", broker.data, mistyped, "--dry-run")

    assert (imported[0], looked_at[0]) == (1, 0)
    assert "the source holds no cluster" in imported[1]
    assert f"(source: ZooKeeper at {mistyped}, target: {broker.data})" in imported[1]
    client = KazooClient(servers.connect())
    client.start(30)
    try:
        assert client.exists(path) is None
    finally:
        client.stop()
        client.close()
