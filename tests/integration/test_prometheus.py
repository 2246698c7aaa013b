"""A real Prometheus reads the metrics of a cluster, and evaluates the board and the alerts that
`kbroker metrics` prints.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from compat_tests.running.prerequisites import NotAvailableError, require_program
from compat_tests.running.prometheus import Prometheus, promtool, running_prometheus
from kbroker.cli.metrics.alert_rules import ALERTS
from kbroker.cli.metrics.board import board
from kbroker.cli.metrics.commands import metrics
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from tests.fakes.running.waiting import until
from tests.integration.alert_situations import PLANTED, situations
from tests.integration.local_cluster_client import Cluster, running

BROKERS = 3
MOST_CONNECTIONS = 40
TOKEN = "a-secret-of-two"
SETTINGS = {
    "kbroker.http.listeners": "127.0.0.1:0",
    "kbroker.http.token": TOKEN,
    "max.connections.per.ip": str(MOST_CONNECTIONS),
    "min.insync.replicas": "2",
    "kbroker.metrics.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
}
RULES = "kbroker-alerts.yml"
# What can be brought about in a moment; promtool brings about the others, and these too.
REAL = (
    "KafkaBrokerDown",
    "KafkaPartitionsOffline",
    "KafkaPartitionsUnderMinIsr",
    "KafkaPartitionsUnderReplicated",
    "KafkaProduceFails",
    "KafkaGroupStuck",
    "KafkaConnectionsRejected",
    "KafkaMetricsIncomplete",
)
OWN = ("kbroker_", "process_", "python_")
AGAINST_CONVENTIONS = (
    'non-summary metrics should not have "quantile" label',  # jmx_exporter knows no summaries
    "label names should be written in 'snake_case' not 'camelCase'",  # as Kafka writes them
    'non-summary metrics should not have "_count" suffix',
    'non-summary metrics should not have "_sum" suffix',  # kafka_exporter's
    'non-counter metrics should not have "_total" suffix',  # Confluent's rules know no counters
)
VARIABLES = {"$job": "kbroker", "$broker": ".+", "$topic": ".+", "$group": ".+"}


@pytest.fixture(autouse=True, scope="module")
def _program() -> None:
    try:
        require_program("prometheus", "Debian package prometheus")
    except NotAvailableError as error:
        pytest.skip(str(error))


def printed(*words: str) -> str:
    done = CliRunner().invoke(metrics, list(words), standalone_mode=False)
    assert done.exception is None
    return done.stdout


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / RULES
    path.write_text(printed("alerts"))
    return path


def test_each_situation_sets_off_its_alert_and_no_other(rules: Path) -> None:
    file = rules.with_name("tests.yml")
    file.write_text(json.dumps(situations(RULES)))

    promtool("check", "rules", str(rules))
    promtool("test", "rules", str(file))
    assert set(PLANTED) == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("job", ["kbroker", 'it\'s "mine" \\ {{x}} é'])
def test_rules_and_configuration_are_sound(rules: Path, job: str) -> None:
    urls = ("--url", "https://a:8443/metrics", "--url", "https://[::1]:8080")
    rules.write_text(printed("alerts", "--job", job))
    rules.with_name("a: token").touch()
    config = rules.with_name("prometheus.yml")
    config.write_text(printed("prometheus", *urls, "--token-file", "a: token", "--job", job))

    promtool("check", "config", str(config))


class Observed:
    """A cluster, and the Prometheus that observes it."""

    def __init__(self, cluster: Cluster, prometheus: Prometheus) -> None:
        self.cluster = cluster
        self.prometheus = prometheus

    async def query(self, expr: str) -> list[Any]:
        return await asyncio.to_thread(self.prometheus.query, expr)

    async def scrapes(self, more: int = 2) -> None:
        """Return when each broker that answers has been scraped so many times more."""
        expr = "min(count_over_time(kafka_server_kafkaserver_brokerstate[5m]))"
        begun = await self.query(expr)
        before = begun[0].value if begun else 0

        async def enough() -> bool:
            found = await self.query(expr)
            return bool(found) and found[0].value >= before + more

        await until(enough)

    async def commit(self, offset: int) -> None:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="whole", partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, topics=[topic]
        )
        number = await self.cluster.coordinator(0, "g")

        async def is_committed() -> bool:
            answer = await self.cluster.ask(number, request, 8)
            return not answer.topics[0].partitions[0].error_code

        await until(is_committed)


def configure(cluster: Cluster, config: Path) -> None:
    config.with_name("token").write_text(f"{TOKEN}\n")
    urls = [f"http://127.0.0.1:{end_point.port}" for end_point in cluster.local.http_end_points]
    words = ("--token-file", "token", *(word for url in urls for word in ("--url", url)))
    text = printed("prometheus", *words)
    config.write_text(re.sub(r"_interval: \w+", "_interval: 500ms", text))


def unanswered(exprs: dict[str, str], prometheus: Prometheus) -> Iterator[str]:
    """Names of those expressions that have no value."""
    for name, expr in exprs.items():
        for variable, text in VARIABLES.items():
            expr = expr.replace(variable, text)
        found = prometheus.query(expr.replace("$__rate_interval", "1m"))
        if all(math.isnan(sample.value) for sample in found):
            yield name


def exprs_of_board() -> dict[str, str]:
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board()["panels"]
        for target in panel.get("targets", ())
    }


def page_of(cluster: Cluster, kind: str) -> str:
    port = cluster.local.http_end_points[0].port
    headers = {"Authorization": f"Bearer {TOKEN}"}
    request = Request(f"http://127.0.0.1:{port}/metrics?dialect={kind}", headers=headers)
    with urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def doubts(page: str) -> list[str]:
    """Doubts of promtool about a page, but for conventions that names of others are against."""
    said = promtool("check", "metrics", stdin=page, may_doubt=True)
    return [
        line
        for line in said.splitlines()
        if line.startswith(OWN) or not any(each in line for each in AGAINST_CONVENTIONS)
    ]


async def test_no_panel_of_the_board_is_empty_and_planted_troubles_set_off_alerts(
    tmp_path: Path, rules: Path
) -> None:
    async with running(tmp_path / "data", brokers=BROKERS, **SETTINGS) as cluster:
        config = rules.with_name("prometheus.yml")
        configure(cluster, config)
        with running_prometheus(config) as prometheus:
            observed = Observed(cluster, prometheus)
            for topic, partitions, replicas in (("whole", 1, 3), ("alone", BROKERS, 1)):
                created = await cluster.create(topic, partitions, replicas=replicas)
                assert created is ErrorCode.NONE
            leader = (await cluster.leaders(0, "whole"))[0]
            await cluster.produce(leader, "whole", 0, b"a")
            await observed.commit(0)
            await observed.scrapes()
            await cluster.produce(leader, "whole", 0, b"b")
            await cluster.end_offset(leader, "whole", 0)
            await observed.commit(1)
            await observed.scrapes(1)

            empty = await asyncio.to_thread(lambda: list(unanswered(exprs_of_board(), prometheus)))
            assert empty == []
            for kind in ("kafka", "confluent", "redpanda"):
                page = await asyncio.to_thread(page_of, cluster, kind)
                assert await asyncio.to_thread(lambda p=page: doubts(p)) == []

            connections = await plant(cluster, leader)
            silent = set(REAL)

            async def all_fire() -> bool:
                for alert in ALERTS:
                    expr = alert.expr.replace("JOB", "kbroker").replace("[15m]", "[2s]")
                    if alert.name in silent and await observed.query(expr):
                        silent.remove(alert.name)
                return not silent

            try:
                await until(all_fire)
            except TimeoutError:
                assert silent == set()
            for connection in connections:
                connection.close()


async def plant(cluster: Cluster, leader: int) -> list[socket.socket]:
    """Let only the leader of the topic be left, refuse a producer there, and leave too many
    connections open.
    """
    for number in range(BROKERS):
        if number != leader:
            await cluster.local.kill_broker(number)

    async def is_refused() -> bool:
        code = await cluster.produce(leader, "whole", 0, b"c")
        return code is ErrorCode.NOT_ENOUGH_REPLICAS

    await until(is_refused)
    port = cluster.server(leader).end_points[0].port
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_CONNECTIONS + 5)]
