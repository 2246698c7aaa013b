"""`kbroker cluster elect` and `reassign` on three brokers with replicated topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.commands.command_line import FINE, Done, run
from tests.fakes.running.forked_broker import Broker

RECORDS = "".join(f"{number}\n" for number in range(1_000))


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """The addresses of three brokers, 0 to 2."""
    # A new controller looks after 5 s, however far we are.
    with Broker(brokers=3, settings={"auto.leader.rebalance.enable": False}) as running:
        yield running.bootstrap


@pytest.fixture
def orders(brokers: str, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions with two replicas each, and records."""
    name = request.node.name.replace("_", "-")
    made = run(
        "topic", "create", name, "--partitions", "3", "--replication-factor", "2",
        bootstrap=brokers,
    )  # fmt: skip
    assert made.code == FINE, made
    assert run("produce", name, stdin=RECORDS, bootstrap=brokers).code == FINE
    return name


def partitions(brokers: str, topic: str) -> list[dict[str, Any]]:
    done = run("topic", "describe", topic, "--output", "json", bootstrap=brokers)
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def records(brokers: str, topic: str) -> list[str]:
    done = run("consume", topic, bootstrap=brokers)
    assert done.code == FINE, done
    return sorted(done.lines())


def reassign(brokers: str, *arguments: str) -> Done:
    return run("cluster", "reassign", *arguments, "--output", "json", bootstrap=brokers)


def test_replicas_move_with_their_records_and_leaders_are_elected(
    brokers: str, orders: str
) -> None:
    everywhere = reassign(brokers, "--topic", orders, "--to", "0,1,2", "--wait")
    replicated = partitions(brokers, orders)
    moved = reassign(brokers, "--topic", orders, "--to", "2,0", "--wait")
    elected = run("cluster", "elect", orders, bootstrap=brokers)

    assert (everywhere.code, moved.code, elected.code) == (FINE, FINE, FINE), moved
    assert moved.err.splitlines() == [
        "3 partitions will have fewer replicas than before",
        "3 partitions have moved",
    ]
    assert [sorted(each["isr"]) for each in replicated] == [[0, 1, 2]] * 3
    assert [each["replicas"] for each in partitions(brokers, orders)] == [[2, 0], [0, 2], [2, 0]]
    assert [each["leader"] for each in partitions(brokers, orders)] == [2, 0, 2]
    assert records(brokers, orders) == sorted(RECORDS.split())


def test_after_a_wait_nothing_moves_and_the_same_wish_changes_nothing(
    brokers: str, orders: str
) -> None:
    reassign(brokers, "--topic", orders, "--partition", "1", "--to", "1", "--wait")

    again = reassign(brokers, "--topic", orders, "--partition", "1", "--to", "1")
    listed = reassign(brokers, "--list", "--topic", orders)

    assert (again.code, again.err) == (FINE, "1 partition had these replicas before\n")
    assert (json.loads(listed.out), listed.err) == ([], "no partition is moving\n")


def test_a_leader_is_elected_where_the_first_replica_does_not_lead(
    brokers: str, orders: str
) -> None:
    (first, *_) = partitions(brokers, orders)
    leader, follower = first["replicas"]
    turned = f"{follower},{leader}"
    reassign(brokers, "--topic", orders, "--partition", "0", "--to", turned, "--wait")

    done = run("cluster", "elect", orders, "--output", "json", bootstrap=brokers)

    assert json.loads(done.out) == [
        {"topic": orders, "partition": 0, "old_leader": leader, "leader": follower}
    ]
    assert partitions(brokers, orders)[0]["leader"] == follower


def test_a_drained_broker_holds_nothing_and_no_record_is_lost(brokers: str, orders: str) -> None:
    planned = run("cluster", "drain", "2", "--dry-run", "--output", "json", bootstrap=brokers)
    done = run("cluster", "drain", "2", "--wait", "--output", "json", bootstrap=brokers)

    assert done.code == FINE, done
    assert done.err.endswith("broker 2 holds no replicas: it can be stopped\n")
    assert json.loads(planned.out) == json.loads(done.out)
    assert [set(each["replicas"]) for each in partitions(brokers, orders)] == [{0, 1}] * 3
    assert records(brokers, orders) == sorted(RECORDS.split())
