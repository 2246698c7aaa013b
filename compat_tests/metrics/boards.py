"""Boards of others over kbroker: every query they have is evaluated by a real Prometheus, over three
brokers on a ZooKeeper under load:

    python -m compat_tests.metrics.boards

`boards.tsv` lists what they ask for: board, metric, the function over a range if there is one, and
the labels that a query chooses by, beside those that say which cluster is meant. Exit code 1 if a
query has no data that should have, or has some that should not.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.metrics.load import Load
from compat_tests.metrics.sides import KBROKER, Side, running
from compat_tests.running.prometheus import Prometheus, Sample, running_prometheus
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import zookeeper_servers

TABLE = Path(__file__).with_name("boards.tsv")
INTERVAL_MS = 1_000
SCRAPES = 3  # at least, before queries
# What no Kafka broker of ours can say, by the names that ask for it.
MISSING: Mapping[str, str] = {
    r"jvm_.*": "there is no JVM",
    r"kafka_log_log_tiersize|kafka_tier_.*": "there is no tiered storage",
    r"container_.*|kubelet_.*": "Kubernetes says it, not the broker",
}
_STRIMZI = 'namespace="kafka",strimzi_io_cluster="main",kubernetes_pod_name=~"main-.*"'
_CONFLUENT = 'job="kafka-broker",env="test",instance=~".*"'
# What is common to the queries of a board: the cluster that is looked at.
CHOSEN: Mapping[str, str] = {
    "strimzi-kafka": _STRIMZI,
    "strimzi-exporter": 'namespace=~"kafka"',
    "confluent-cluster": _CONFLUENT,
    "confluent-topics": _CONFLUENT,
    "exporter": 'job="strimzi"',
}


class Asked(NamedTuple):
    """A query of a board."""

    board: str
    metric: str
    function: str  # over five minutes; "" for the value of now
    labels: tuple[str, ...]  # a name for any value, NAME=VALUE, NAME!=VALUE

    @property
    def expression(self) -> str:
        """The query, as a sum."""
        chosen = ",".join([CHOSEN[self.board], *map(_matcher, self.labels)])
        series = f"{self.metric}{{{chosen}}}"
        return f"sum({self.function}({series}[5m]))" if self.function else f"sum({series})"

    @property
    def missing(self) -> str | None:
        """Why there is no data, None if there should be."""
        return next(
            (why for names, why in MISSING.items() if re.fullmatch(names, self.metric)), None
        )

    def __str__(self) -> str:
        function = f"{self.function} of " if self.function else ""
        labels = f" by {', '.join(self.labels)}" if self.labels else ""
        return f"{self.board}: {function}{self.metric}{labels}"


def asked() -> list[Asked]:
    """The table."""
    rows = (line.split("\t") for line in TABLE.read_text().splitlines())
    return [Asked(board, metric, function, tuple(filter(None, labels.split(","))))
            for board, metric, function, labels in rows]  # fmt: skip


def _matcher(label: str) -> str:
    name, is_unlike, value = label.partition("!=")
    if is_unlike:
        return f'{name}!="{value}"'
    name, is_like, value = label.partition("=")
    return f'{name}="{value}"' if is_like else f'{name}=~".+"'


def jobs(addresses: Mapping[int, str]) -> list[dict[str, Any]]:
    """How Prometheus is to read these brokers: as Strimzi and as Confluent label them."""
    return [
        {
            "job_name": "strimzi",
            "static_configs": [
                {"targets": [address], "labels": {
                    "namespace": "kafka", "strimzi_io_cluster": "main",
                    "kubernetes_pod_name": f"main-kafka-{number}", "container": "kafka"}}
                for number, address in addresses.items()
            ],
        },
        {
            "job_name": "kafka-broker",
            "params": {"dialect": ["confluent"]},
            "static_configs": [
                {"targets": list(addresses.values()), "labels": {"env": "test"}}
            ],
        },
    ]  # fmt: skip


def configured(folder: Path, addresses: Mapping[int, str]) -> Path:
    """A configuration of Prometheus in a file."""
    every = f"{INTERVAL_MS}ms"
    intervals = {"scrape_interval": every, "scrape_timeout": every}
    path = folder / "prometheus.yml"
    path.write_text(json.dumps({"global": intervals, "scrape_configs": jobs(addresses)}))  # is YAML
    return path


def wait_for_scrapes(at: Prometheus, count: int) -> None:
    """Return when every page has been read that often; on a busy machine some take too long."""

    def fewest() -> float:
        return min((each.value for each in at.query("sum_over_time(up[1h])")), default=0)

    until(lambda: fewest() >= count, f"{count} scrapes")


def loaded(side: Side, at: Prometheus) -> None:
    """Put load on brokers that are ready for it, while Prometheus looks."""
    load = Load(side.cluster)
    for count in range(1, SCRAPES + 1):
        load.run()
        wait_for_scrapes(at, count)


def has_data(found: list[Sample]) -> bool:
    """Whether an answer shows a number."""
    return any(not math.isnan(each.value) for each in found)


def wrong(at: Prometheus, table: list[Asked]) -> Iterator[tuple[Asked, str]]:
    """The queries that are not answered as they should be, and how they are."""
    for each in table:
        is_there = has_data(at.query(each.expression))
        if is_there and each.missing:
            yield each, f"has data, though {each.missing}"
        elif not is_there and not each.missing:
            yield each, "no data"


def main() -> int:
    """The exit code."""
    table = asked()
    with (
        tempfile.TemporaryDirectory(prefix="boards-") as folder,
        zookeeper_servers() as zookeeper,
        running(Path(folder), zookeeper, KBROKER, count=3) as side,
        running_prometheus(configured(Path(folder), side.addresses)) as at,
    ):
        Load(side.cluster).prepare()
        loaded(side, at)
        found = list(wrong(at, table))
    for why in dict.fromkeys(MISSING.values()):
        names = sorted({each.metric for each in table if each.missing == why})
        print(f"no data, as {why}: {', '.join(names)}")
    for each, how in found:
        print(f"{each}: {how}")
    there = sum(each.missing is None for each in table)
    print(f"{len(table)} queries: {there - len(found)} of {there} that can have data have it")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
