"""`kbroker top` and the list of connections, at a running broker that goes away and comes back."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer

from benchmarks import top_cost
from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.top.command import top
from kbroker.cli.top.look import Look, Trouble
from kbroker.cli.top.watch import Watch
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import commit_offsets
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.model import TopicPartition
from tests.faults.running_broker import RunningBroker

EVIL = "\x1b[2Jwriter"
GROUP = "billing\x1b[31m"
PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    data = tmp_path_factory.mktemp("top") / "data"
    running = RunningBroker(data, "--override", "kbroker.http.listeners=127.0.0.1:0").start()
    yield running
    running.end()


def address_of(broker: RunningBroker) -> str:
    return f"127.0.0.1:{broker.port}"


def url_of(broker: RunningBroker) -> str:
    return re.findall(r"console at (http://\S+)/\n", broker.said())[-1]


@contextmanager
def writing(broker: RunningBroker) -> Iterator[None]:
    """Somebody writes records for as long as the block lasts."""
    has_ended = threading.Event()

    def write() -> None:
        while not has_ended.is_set():
            producer.send(PLACE.topic, b"x" * 100).get(30)

    with KafkaProducer(bootstrap_servers=address_of(broker), client_id=EVIL) as producer:
        producer.send(PLACE.topic, b"first").get(30)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            has_ended.set()
            writer.join()


def printed(broker: RunningBroker, *options: str) -> tuple[str, str]:
    """Standard output and standard error of `kbroker top --once`."""
    words = ["--once", "--interval", "0.5", "--bootstrap", address_of(broker), *options]
    ended = CliRunner().invoke(top, words, standalone_mode=False, catch_exceptions=False)
    return ended.stdout, ended.stderr


def test_it_shows_once_what_is_written_and_read_and_who_is_connected(
    broker: RunningBroker,
) -> None:
    with closing(KafkaConsumer(bootstrap_servers=address_of(broker), client_id="reader")):
        with writing(broker):
            with closing(ClusterLinks(address_of(broker))) as links:
                commit_offsets(links, GROUP, {PLACE: 1})
            said, _ = printed(broker, "--output", "json", "--url", url_of(broker))
            seen: Any = json.loads(said)
        table, notes = printed(broker, "--internal")

        (topic,), (group,), (only,) = seen["topics"], seen["groups"], seen["brokers"]
        assert (topic["topic"], topic["partitions"], topic["leaderless"]) == ("orders", 1, 0)
        assert topic["records_per_s"] > 0
        assert topic["bytes_per_s"] > 100 * topic["records_per_s"]
        assert (group["group"], group["state"], group["members"]) == (GROUP, "Empty", 0)
        assert group["lag"] > 1
        assert (group["read_per_s"], group["pace"], group["catch_up_s"]) == (0.0, "unknown", None)
        assert group["written_per_s"] > 0
        assert group["most_behind"] == {"topic": "orders", "partition": 0}
        assert (only["controller"], only["leaders"] >= 1, only["silent"]) == (True, True, None)
        assert seen["gaps"] == []
        clients = {row["client_id"]: row for row in seen["connections"]}
        assert {EVIL, "reader", "kbroker-cli"} <= set(clients)
        assert clients[EVIL]["software"].startswith("kafka-python")
        assert clients[EVIL]["requests"] > 1
        assert "Produce" in clients[EVIL]["apis"]

        assert "__consumer_offsets" in table
        assert "billing\\x1b[31m" in table
        assert "\x1b" not in table
        assert notes == ""


def test_what_is_not_there_is_named(broker: RunningBroker) -> None:
    table, notes = printed(broker, "--filter", "nothing", "--url", "http://127.0.0.1:1")

    connection = HTTPConnection(url_of(broker).removeprefix("http://"), timeout=30)
    connection.request("GET", "/api/connections?a=b")
    status = connection.getresponse().status
    connection.close()

    assert table == ""
    assert "cannot connect to http://127.0.0.1:1" in notes
    assert status == 400


def test_the_screen_runs_on_a_terminal_and_ends_by_its_key() -> None:
    few = ["--topics", "2", "--partitions", "2", "--groups", "1", "--seconds", "0.4"]

    ended = CliRunner().invoke(top_cost.main, few, catch_exceptions=False)

    assert re.search(r"4 partitions, 2 topics, 1 groups: [\d.]+% of a core", ended.stdout)


async def test_the_screen_hears_that_a_broker_is_away_and_that_it_is_back(
    broker: RunningBroker,
) -> None:
    cluster = ConsoledCluster(address_of(broker))
    looks = Watch(cluster, 0.01, None).looks()
    try:
        first = await anext(looks)
        second = await anext(looks)
        broker.stop()
        away = await anext(looks)
        still_away = await anext(looks)
        broker.start()
        back = await anext(looks)
        again = await anext(looks)
    finally:
        cluster.close()

    assert isinstance(first, Look)
    assert isinstance(second, Look)
    assert (first.seconds, second.seconds is None) == (None, False)
    assert isinstance(away, Trouble)
    assert isinstance(still_away, Trouble)
    assert "cannot connect to" in still_away.sentence
    assert isinstance(back, Look)
    assert isinstance(again, Look)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a terminal"),
        (["--output", "json"], "--output needs --once"),
        (["--once", "--bootstrap", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(words: list[str], said: str) -> None:
    ended = CliRunner().invoke(top, words, standalone_mode=False)

    assert said in str(ended.exception)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.cli.top.command.find_spec", lambda _: None)

    with pytest.raises(CommandError, match=r"pip install 'kbroker\[top\]'") as refused:
        top.main([], standalone_mode=False)

    assert refused.value.code == ExitCode.USAGE
