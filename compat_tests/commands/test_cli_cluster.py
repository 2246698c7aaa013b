"""`kbroker cluster status`, `elect`, `reassign` and `drain`, against kbroker and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from compat_tests.commands.command_line import CANNOT_CONNECT, FINE, ITEM_FAILED, UNUSED, run
from compat_tests.conftest import BrokerProcess


@pytest.fixture(autouse=True)
def made(request: pytest.FixtureRequest, topic: str) -> None:
    """A topic of one partition."""
    if "bootstrap" in request.fixturenames:
        address = request.getfixturevalue("bootstrap")
        assert run("topic", "create", topic, bootstrap=address).code == FINE


def test_a_broker_is_shown_with_what_it_leads(one_broker: None, bootstrap: str) -> None:
    done = run("cluster", "status", "--output", "json", bootstrap=bootstrap)
    (broker,) = json.loads(done.out)
    assert done.code == FINE, done
    assert (broker["state"], broker["address"].rpartition(":")[2]) == (
        "online",
        bootstrap.rpartition(":")[2],
    )
    assert broker["leads"] == broker["replicas"] >= 1
    assert broker["leaderless"] == 0
    assert "1 broker, " in done.err
    assert ", 0 without leader" in done.err


def test_the_table_has_a_line_per_broker(one_broker: None, bootstrap: str) -> None:
    lines = run("cluster", "status", bootstrap=bootstrap).lines()
    assert lines[0].split() == [
        "BROKER", "STATE", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "LEADERLESS",
    ]  # fmt: skip
    assert len(lines) == 2


def test_a_cluster_without_topics_is_fine(own_broker: Callable[..., BrokerProcess]) -> None:
    broker = own_broker()
    done = run("cluster", "status", "--output", "csv", bootstrap=broker.bootstrap)
    assert (done.code, len(done.lines())) == (FINE, 2)
    assert "1 broker, 0 topics, 0 partitions, 0 without leader" in done.err


def test_where_nobody_listens_there_is_no_status() -> None:
    done = run("cluster", "status", "--bootstrap", UNUSED)
    assert UNUSED in done.refused(CANNOT_CONNECT)


def test_a_leader_that_is_the_first_replica_needs_no_election(bootstrap: str, topic: str) -> None:
    done = run("cluster", "elect", topic, bootstrap=bootstrap)
    assert (done.code, done.out) == (FINE, ""), done
    assert done.err == "0 leaders elected, 1 partition had the right leader before\n"


def test_replicas_that_are_there_do_not_move(one_broker: None, bootstrap: str, topic: str) -> None:
    described = run("topic", "describe", topic, "--output", "json", bootstrap=bootstrap)
    (broker,) = json.loads(described.out)[0]["replicas"]
    moved = run(
        "cluster", "reassign", "--topic", topic, "--to", str(broker), "--wait",
        bootstrap=bootstrap,
    )  # fmt: skip
    listed = run("cluster", "reassign", "--list", bootstrap=bootstrap)
    assert (moved.code, moved.err) == (FINE, "1 partition had these replicas before\n")
    assert (listed.code, listed.err) == (FINE, "no partition is moving\n")


def test_the_only_broker_cannot_be_drained(one_broker: None, bootstrap: str, topic: str) -> None:
    described = run("topic", "describe", topic, "--output", "json", bootstrap=bootstrap)
    (broker,) = json.loads(described.out)[0]["replicas"]
    done = run("cluster", "drain", str(broker), bootstrap=bootstrap)
    assert "no other broker is there" in done.refused(ITEM_FAILED)
