"""What kbroker shows of a load, beside what Apache Kafka 3.9.2 with jmx_exporter has shown of it, and
the queries of others' boards over it. `python -m compat_tests.metrics` and `... .boards` do the same
beside a running Apache Kafka, and over three brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.metrics.boards import asked, configured, wait_for_scrapes, wrong
from compat_tests.metrics.comparing import OWN, differences, observed
from compat_tests.metrics.load import TOPICS
from compat_tests.metrics.reasons import NOT_IN_APACHE, NOT_IN_KBROKER
from compat_tests.metrics.recorded import read
from compat_tests.metrics.sides import KBROKER, Side, running
from compat_tests.running.prometheus import running_prometheus
from compat_tests.running.shared_zookeeper import shared_zookeeper


@pytest.fixture(scope="module")
def side(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Two brokers over a ZooKeeper."""
    if target != "kbroker":
        pytest.skip("starts brokers of its own")
    with running(tmp_path_factory.mktemp("metrics"), shared_zookeeper(), KBROKER) as side:
        yield side


def test_names_are_those_of_apache_kafka_and_boards_of_others_find_data(
    side: Side, tmp_path: Path
) -> None:
    seen = observed(side, rounds=2)

    apache, kbroker = read(), seen.after.shown
    lacking = differences(apache, kbroker, NOT_IN_KBROKER)
    more = differences(kbroker, apache, NOT_IN_APACHE)
    assert [each.shown for each in (*lacking, *more) if each.why is None] == []
    assert {
        key: seen.after.value("kafka_consumergroup_lag", **dict(zip(OWN, key, strict=True)))
        for key in seen.lags
    } == seen.lags
    assert len(seen.lags) == sum(TOPICS.values())
    with running_prometheus(configured(tmp_path, side.addresses)) as at:
        wait_for_scrapes(at, 2)
        assert [f"{each}: {how}" for each, how in wrong(at, asked())] == []
