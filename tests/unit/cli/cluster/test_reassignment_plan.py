"""Plans of moves as kafka-reassign-partitions takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from kbroker.cli.cluster.reassignment_plan import read_plan
from kbroker.model import TopicPartition


def plan_of(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "partitions": list(rows)}


def row(**more: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "replicas": [1, 2], **more}


def read(tmp_path: Path, plan: Any) -> dict[TopicPartition, tuple[int, ...]]:
    path = tmp_path / "plan.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return read_plan(str(path))


def test_a_plan_as_kafkas_tool_prints_it_is_read(tmp_path: Path) -> None:
    plan = plan_of(row(log_dirs=["any", "any"]), row(partition=1, replicas=[3]))

    assert read(tmp_path, plan) == {
        TopicPartition("orders", 0): (1, 2),
        TopicPartition("orders", 1): (3,),
    }


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("{", "plan.json' is not JSON: Expecting property name"),
        ([], "a plan looks like"),
        ({"version": 1}, "a plan looks like"),
        ({"version": 2, "partitions": [row()]}, "version 2 of plans is not known"),
        (plan_of(), "it names no partition"),
        (
            plan_of({"topic": "orders"}),
            '{"topic": "orders"} is not like {"topic": "orders", "partit',
        ),
        (plan_of(row(partition="0")), 'ion": "0", "replicas": [1, 2]} is not like {"topic": "'),
        (plan_of(row(), row()), "orders-0 is in it twice"),
        (plan_of(row(replicas=[])), "orders-0: it needs one broker at least"),
        (plan_of(row(replicas=[1, 1])), "orders-0: broker 1 is in it twice"),
        (plan_of(row(replicas=["1"])), "orders-0: replicas are ids of brokers"),
        (plan_of(row(log_dirs=["any", "/disk"])), 'orders-0: log_dirs other than "any"'),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(tmp_path: Path, plan: Any, reason: str) -> None:
    with pytest.raises(click.UsageError) as refusal:
        read(tmp_path, plan)

    assert "plan.json'" in refusal.value.message
    assert reason in refusal.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="No such file"):
        read_plan(str(tmp_path / "missing.json"))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(click.UsageError, match=r"plan\.json' is not text in UTF-8"):
        read_plan(str(path))
