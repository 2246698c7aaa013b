"""What `kbroker cluster drain` moves, and what it says of replicas that cannot leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster import drain as module
from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from tests.fakes.clusters.moving_cluster import MovingCluster

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def drain(monkeypatch: pytest.MonkeyPatch, cluster: MovingCluster, *options: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[MovingCluster]:
        yield cluster

    monkeypatch.setattr(module, "cluster_links", connected)
    arguments = [*options, "--output", "jsonl"]
    return CliRunner().invoke(module.drain, arguments, standalone_mode=False)


def of_three() -> MovingCluster:
    return MovingCluster({"orders": [(1, 2), (2, 3)]}, dict.fromkeys((1, 2, 3)))


def test_all_replicas_of_the_broker_move_and_then_it_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = of_three()

    result = drain(monkeypatch, cluster, "1", "--wait")

    assert (result.exception, cluster.wishes) == (None, {FIRST: (3, 2)})
    assert json.loads(result.stdout) == {
        "topic": "orders", "partition": 0, "replicas": [1, 2], "target": [3, 2],
    }  # fmt: skip
    assert result.stderr.splitlines() == [
        "1 partition has moved",
        "broker 1 holds no replicas: it can be stopped",
    ]


def test_without_a_wait_it_is_not_said_to_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    result = drain(monkeypatch, of_three(), "2")

    assert result.exception is None
    assert result.stderr.startswith("2 partitions leave broker 2; ")
    assert "holds no replicas" not in result.stderr


def test_a_dry_run_shows_the_moves_and_begins_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three()

    result = drain(monkeypatch, cluster, "2", "--dry-run", "--wait")

    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "nothing was moved: leave out --dry-run to do it\n"
    assert (cluster.wishes, result.exception) == ({}, None)


@pytest.mark.parametrize(
    ("replicas", "said"),
    [((1, 2, 3), ""), ((2, 3), "broker 1 holds no replicas: it can be stopped\n")],
)
def test_a_dry_run_without_moves_does_not_offer_them(
    replicas: tuple[int, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MovingCluster({"orders": [replicas]}, dict.fromkeys((1, 2, 3)))

    result = drain(monkeypatch, cluster, "1", "--dry-run")

    assert result.stderr == said
    assert (1 in replicas) == ("orders-0 stays" in str(result.exception))


def test_a_replica_without_another_broker_stays_and_the_others_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MovingCluster({"orders": [(1, 2, 3), (1,)]}, dict.fromkeys((1, 2, 3)))

    result = drain(monkeypatch, cluster, "1", "--wait")

    assert str(result.exception) == (
        "orders-0 stays: every other broker has a replica (add a broker, or give the topic fewer "
        "replicas with `kbroker cluster reassign`)"
    )
    assert list(cluster.wishes) == [SECOND]
    assert result.stderr == "1 partition has moved\n"


def test_a_partition_that_nobody_leads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MovingCluster({"orders": [(1,), (1, 2)]}, dict.fromkeys((2, 3)))

    result = drain(monkeypatch, cluster, "1", "--wait")

    assert str(result.exception) == "orders-0 stays: there is no leader to copy from"
    assert cluster.wishes == {SECOND: (3, 2)}


def test_a_move_off_the_broker_that_has_begun_goes_on_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move = ReplicaAssignment(replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
    cluster = MovingCluster({"orders": [(3, 2, 1)]}, dict.fromkeys((1, 2, 3)), moving={FIRST: move})
    cluster.looks_until_over = 1
    cluster.wishes = {FIRST: (3, 2)}  # as the move will end

    result = drain(monkeypatch, cluster, "1", "--wait")

    assert (result.exception, result.stdout) == (None, "")
    assert result.stderr.splitlines() == [
        "1 partition has moved",
        "broker 1 holds no replicas: it can be stopped",
    ]


@pytest.mark.parametrize("brokers", [(1, 2, 3), (1, 2, 3, 4)])
def test_a_move_that_ends_while_the_cluster_is_asked_is_not_taken_for_replicas(
    brokers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    move = ReplicaAssignment(replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,))
    cluster = MovingCluster({"orders": [(3, 2, 1)]}, dict.fromkeys(brokers), moving={FIRST: move})
    cluster.wishes = {FIRST: (3, 2)}  # at the first look

    result = drain(monkeypatch, cluster, "1")

    assert (result.exception, result.stdout) == (None, "")
    assert cluster.replicas == {FIRST: (3, 2)}
    assert cluster.wishes == {FIRST: (3, 2)}


def test_a_move_onto_the_broker_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    move = ReplicaAssignment(replicas=(1, 3, 2), adding_replicas=(1,), removing_replicas=(2,))
    cluster = MovingCluster({"orders": [(1, 3, 2)]}, dict.fromkeys((1, 2, 3)), moving={FIRST: move})
    cluster.looks_until_over = 9

    drain(monkeypatch, cluster, "1")

    assert {place: set(target or ()) for place, target in cluster.wishes.items()} == {FIRST: {2, 3}}


def test_a_move_that_is_refused_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three()
    cluster.refusals = {FIRST: ErrorCode.INVALID_REPLICA_ASSIGNMENT}

    result = drain(monkeypatch, cluster, "1", "--wait")

    assert str(result.exception) == "orders-0 does not move: INVALID_REPLICA_ASSIGNMENT"
    assert (result.stdout, result.stderr) == ("", "")


def test_a_broker_without_replicas_needs_no_move(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MovingCluster({"orders": [(1, 2)]}, dict.fromkeys((1, 2, 3)))

    result = drain(monkeypatch, cluster, "3")

    assert (result.exception, result.stdout) == (None, "")
    assert result.stderr == "broker 3 holds no replicas: it can be stopped\n"


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--wait",)])
def test_a_broker_that_nothing_is_known_of_is_refused(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    cluster = MovingCluster({"orders": [(1, 7), (2, 3)]}, dict.fromkeys((3, 1, 2)))

    result = drain(monkeypatch, cluster, "9", *options)

    assert isinstance(result.exception, CommandError)
    assert result.exception.code == 1
    assert (
        result.exception.message == "no such broker: 9 (online: brokers 1, 2, 3; offline: broker 7)"
    )
    assert (result.stdout, result.stderr) == ("", "")


def test_a_broker_that_is_down_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MovingCluster({"orders": [(1, 2)]}, dict.fromkeys((1, 3)))

    result = drain(monkeypatch, cluster, "2", "--wait")

    assert (result.exception, cluster.wishes) == (None, {FIRST: (1, 3)})
    assert result.stderr.splitlines()[-1] == (
        "broker 2 holds no replicas: it is not in the cluster now"
    )


def test_many_replicas_that_stay_take_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    result = drain(monkeypatch, MovingCluster({"orders": [(1,)] * 12}, {1: None}), "1")

    names = ", ".join(f"orders-{number}" for number in range(10))
    assert str(result.exception) == f"{names} and 2 more stay: no other broker is there"
