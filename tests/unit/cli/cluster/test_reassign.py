"""What `kbroker cluster reassign` asks the controller, and says of each move."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster import partition_moves
from kbroker.cli.cluster import reassign as module
from kbroker.cli.cluster.partition_moves import wait_for_moves
from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from tests.fakes.clusters.moving_cluster import MovingCluster

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
MOVE = ReplicaAssignment(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1,))


def of_three(**moving: ReplicaAssignment) -> MovingCluster:
    moves = {FIRST: moving["first"]} if moving else {}
    return MovingCluster(
        {"orders": [(1, 2), (2, 3), (3, 1)]}, dict.fromkeys((1, 2, 3)), moving=moves
    )


def reassign(monkeypatch: pytest.MonkeyPatch, cluster: MovingCluster, *options: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[MovingCluster]:
        yield cluster

    monkeypatch.setattr(module, "cluster_links", connected)
    arguments = [*options, "--output", "jsonl"]
    return CliRunner().invoke(module.reassign, arguments, standalone_mode=False)


def test_each_broker_comes_first_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three()

    result = reassign(monkeypatch, cluster, "--topic", "orders", "--to", "1, 3")

    assert result.exception is None
    assert cluster.wishes == {FIRST: (1, 3), SECOND: (3, 1), THIRD: (1, 3)}
    assert [json.loads(line) for line in result.stdout.splitlines()][1] == {
        "topic": "orders", "partition": 1, "replicas": [2, 3], "target": [3, 1],
    }  # fmt: skip
    assert result.stderr.startswith("3 partitions are moving; ")


def test_what_is_there_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three()

    result = reassign(
        monkeypatch, cluster, "--topic", "orders", "--partition", "0", "--to", "1,2", "--wait"
    )

    assert (cluster.wishes, result.stdout, result.exception) == ({}, "", None)
    assert result.stderr == "1 partition had these replicas before\n"


def test_a_move_under_way_is_turned_even_to_replicas_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = of_three(first=MOVE)
    cluster.looks_until_over = 9

    reassign(monkeypatch, cluster, "--topic", "orders", "--partition", "0", "--to", "1,2")

    assert cluster.wishes == {FIRST: (1, 2)}


def test_a_plan_moves_what_it_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = of_three()
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "orders", "partition": 2, "replicas": [2]}]}')

    result = reassign(monkeypatch, cluster, "--file", str(plan), "--wait")

    assert (result.exception, cluster.wishes) == (None, {THIRD: (2,)})
    assert result.stderr == (
        "1 partition will have fewer replicas than before\n1 partition has moved\n"
    )


def test_brokers_and_partitions_that_are_not_there_are_refused_before_anything_moves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = of_three()
    plan = tmp_path / "plan.json"
    rows = [
        {"topic": topic, "partition": number, "replicas": [1]}
        for topic, number in (("orders", 0), ("orders", 7), ("ordes", 0))
    ]
    plan.write_text(json.dumps({"partitions": rows}))

    unknown = reassign(monkeypatch, cluster, "--file", str(plan))
    away = reassign(monkeypatch, cluster, "--topic", "orders", "--to", "1,9")

    assert unknown.stderr == "Error: no such topic: ordes, did you mean orders?\n"
    assert str(unknown.exception) == "no such partition: orders-7 (the topic has 3 partitions)"
    assert str(away.exception) == "broker 9 is not in the cluster (online: brokers 1, 2, 3)"
    assert cluster.wishes == {}


def test_several_topics_move_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    desks = TopicPartition("desks", 0)
    cluster = MovingCluster({"orders": [(1, 2)], "desks": [(1, 2)]}, dict.fromkeys((1, 2, 3)))

    both = reassign(monkeypatch, cluster, "--topic", "orders", "--topic", "desks", "--to", "2,3")
    unknown = reassign(monkeypatch, cluster, "--topic", "orders", "--topic", "desk", "--to", "1")

    assert (both.exception, cluster.wishes) == (None, {FIRST: (2, 3), desks: (3, 2)})
    assert str(unknown.exception) == "no such topic: desk, did you mean desks or orders?"


def test_a_broker_that_is_away_may_keep_its_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three()
    cluster.online = dict.fromkeys((1, 2))

    reassign(monkeypatch, cluster, "--topic", "orders", "--partition", "1", "--to", "3,1")

    assert cluster.wishes == {SECOND: (3, 1)}


def test_one_partition_that_is_refused_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = of_three()
    cluster.refusals = {SECOND: ErrorCode.INVALID_REPLICA_ASSIGNMENT}

    result = reassign(monkeypatch, cluster, "--topic", "orders", "--to", "1", "--wait")

    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == "orders-1 does not move: INVALID_REPLICA_ASSIGNMENT"
    assert sorted(cluster.wishes) == [FIRST, THIRD]
    assert result.stderr.endswith("2 partitions have moved\n")


def test_moves_are_listed_with_what_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three(first=MOVE)

    shown = reassign(monkeypatch, cluster, "--list")
    other = reassign(monkeypatch, cluster, "--list", "--topic", "orders", "--partition", "1")

    assert json.loads(shown.stdout) == {
        "topic": "orders", "partition": 0, "replicas": [3, 1, 2], "adding": [3], "removing": [1],
    }  # fmt: skip
    assert (other.stdout, other.stderr) == ("", "no partition is moving\n")


def test_moves_are_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = of_three(first=MOVE)

    result = reassign(monkeypatch, cluster, "--cancel", "--wait")

    assert (result.exception, cluster.wishes, cluster.moving) == (None, {FIRST: None}, {})
    assert json.loads(result.stdout)["target"] == [1, 2]
    assert result.stderr == "1 move called off\n"


def test_a_move_that_ends_while_it_is_called_off_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = of_three(first=MOVE)
    cluster.refusals = {FIRST: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    result = reassign(monkeypatch, cluster, "--cancel")

    assert (result.exception, result.stdout) == (None, "")
    assert result.stderr == "0 moves called off\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "give one of --to, --file, --cancel, --list"),
        (("--list", "--cancel"), "give only one of --to, --file, --cancel, --list"),
        (("--to", "1"), "--to needs --topic"),
        (("--cancel", "--partition", "1"), "--partition needs --topic"),
        (
            ("--cancel", "--topic", "orders", "--topic", "desks", "--partition", "1"),
            "--partition is for one topic: give --topic once, or a --file",
        ),
        (("--file", __file__, "--topic", "orders"), "--file names the topics: leave out --topic"),
        (("--list", "--wait"), "--list waits for nothing: leave out --wait"),
        (
            ("--topic", "orders", "--to", "1;2"),
            "--to '1;2' does not list broker ids, such as 1,2,3",
        ),
        (("--topic", "orders", "--to", "1,1"), "--to '1,1': broker 1 is in it twice"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], reason: str
) -> None:
    result = reassign(monkeypatch, of_three(), *options)

    assert isinstance(result.exception, click.UsageError)
    assert result.exception.message == reason


def test_a_wait_goes_on_while_the_controller_changes(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = of_three(first=MOVE)
    cluster.wishes = {FIRST: (3, 2)}
    cluster.looks_until_over = 5
    cluster.troubles = [ConnectionResetError("gone")]
    pauses: list[float] = []
    cluster.sleep = pauses.append

    failures = wait_for_moves(cluster, {FIRST: (3, 2)})  # type: ignore[arg-type]

    assert (failures, cluster.looks, len(pauses)) == ([], 6, 5)
    assert capsys.readouterr().err == "1 partition has moved\n"


def test_ctrl_c_ends_the_wait_and_says_that_the_moves_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = of_three(first=MOVE)
    cluster.looks_until_over = 5

    def interrupt(_pause_s: float) -> None:
        raise KeyboardInterrupt

    cluster.sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        wait_for_moves(cluster, {FIRST: (3, 2)})  # type: ignore[arg-type]

    assert capsys.readouterr().err.startswith("interrupted: what has begun to move goes on; ")


def test_a_wait_ends_with_its_reason_where_no_controller_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_moves, "NO_ANSWER_S", -1.0)
    cluster = of_three(first=MOVE)
    cluster.troubles = [ConnectionResetError("gone")]

    with pytest.raises(ConnectionResetError):
        wait_for_moves(cluster, {FIRST: (3, 2)})  # type: ignore[arg-type]


def test_a_move_that_ended_elsewhere_and_a_topic_that_went_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_moves, "SHOWN_S", -1.0)
    cluster = of_three()
    targets = {FIRST: (3, 2), TopicPartition("gone", 0): (1,)}

    failures = wait_for_moves(cluster, targets)  # type: ignore[arg-type]

    assert failures == [
        "gone-0 is gone: its topic was deleted",
        "orders-0 is on brokers 1, 2, not 3, 2: its move was changed or called off",
    ]
