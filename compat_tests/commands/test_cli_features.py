"""`kbroker cluster features`, against kbroker and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from compat_tests.commands.command_line import CANNOT_CONNECT, FINE, ITEM_FAILED, UNUSED, Run, run
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka

FEATURE = "transaction.version"
KAFKA_FEATURES = "org.apache.kafka.tools.FeatureCommand"


@pytest.fixture
def address(target: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a broker whose levels may change."""
    if target == "kafka":
        with apache_kafka.broker() as (address, _):
            yield address
    else:
        own_broker: Callable[..., BrokerProcess] = request.getfixturevalue("own_broker")
        yield own_broker().bootstrap


@pytest.fixture
def features(address: str) -> Run:
    return partial(run, "cluster", "features", bootstrap=address)


def shown(features: Run) -> dict[str, Any]:
    rows = map(json.loads, features("--output", "jsonl").lines())
    return next(row for row in rows if row["feature"] == FEATURE)


def test_a_level_is_lowered_and_raised(features: Run) -> None:
    assert features("--set", f"{FEATURE}=0", "--downgrade").code == FINE
    before = shown(features)

    asked = features("--set", f"{FEATURE}=2", "--dry-run")
    level_asked = shown(features)["finalized_level"]
    raised = features("--set", f"{FEATURE}=2")
    after = shown(features)
    again = features("--set", f"{FEATURE}=2")

    assert (before["supported_min"], before["supported_max"]) == (0, 2)
    assert (before["finalized_level"], level_asked, after["finalized_level"]) == (0, 0, 2)
    assert after["epoch"] > before["epoch"]
    assert (asked.code, asked.err) == (FINE, f"{FEATURE}: would be raised from 0 to 2\n")
    assert (raised.code, raised.err) == (FINE, f"{FEATURE}: raised from 0 to 2\n")
    assert (again.code, again.err) == (FINE, f"{FEATURE} is 2 already\n")


def test_a_level_is_not_lowered_by_chance(features: Run) -> None:
    features("--set", f"{FEATURE}=2")

    refused = features("--set", f"{FEATURE}=1").refused(ITEM_FAILED)
    lowered = features("--set", f"{FEATURE}=1", "--downgrade")

    assert "add --downgrade" in refused
    assert lowered.err == f"{FEATURE}: lowered from 2 to 1\n"
    assert shown(features)["finalized_level"] == 1


def test_only_levels_that_there_are_can_be_set(features: Run) -> None:
    too_high = features("--set", f"{FEATURE}=3").refused(ITEM_FAILED)
    unknown = features("--set", "no.version=1").refused(ITEM_FAILED)

    assert "all support 0 to 2" in too_high
    assert "no such feature: no.version (brokers have " in unknown
    assert FEATURE in unknown


@pytest.mark.java
def test_kafka_features_shows_the_level_that_was_set(features: Run, address: str) -> None:
    features("--set", f"{FEATURE}=0", "--downgrade")
    features("--set", f"{FEATURE}=1")

    done = run_tool(KAFKA_FEATURES, "--bootstrap-server", address, "describe")

    (line,) = (line for line in done.stdout.splitlines() if f"Feature: {FEATURE}" in line)
    words = line.split()
    assert words[words.index("FinalizedVersionLevel:") + 1] == "1"


def test_a_broker_without_the_feature_refuses_it(target: str) -> None:
    if target != "kafka":
        pytest.skip("starts Apache Kafka")
    with apache_kafka.broker(version=apache_kafka.ZOOKEEPER_LINE) as (address, _):
        shown = run("cluster", "features", bootstrap=address)
        refused = run("cluster", "features", "--set", f"{FEATURE}=2", bootstrap=address)

    assert "metadata.version" in shown.out
    assert f"no such feature: {FEATURE}" in refused.refused(ITEM_FAILED)


def test_where_nobody_listens_there_are_no_features() -> None:
    done = run("cluster", "features", "--bootstrap", UNUSED)

    assert UNUSED in done.refused(CANNOT_CONNECT)
