"""The commands that pages give without their output do what the text around them says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.running.prerequisites import require_program
from kbroker.cli.cluster.partition_states import MIN_ISR
from tests.docs.pages import blocks, text_of
from tests.docs.terminals import run, what_may_be_missing
from tests.fakes.running.forked_broker import Broker


def of_page(page: str, word: str) -> str:
    (found,) = [block for block in blocks("sh", text_of(page)) if word in block]
    return found


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def test_copies_are_held_to_a_rate(bootstrap: str, tmp_path: Path) -> None:
    run(["kbroker", "topic", "create", "payments"], tmp_path, KBROKER_BOOTSTRAP=bootstrap)

    run(
        ["bash", "-ec", of_page("clusters", "throttled.rate")],
        tmp_path,
        KBROKER_BOOTSTRAP=bootstrap,
    )

    described = ["kbroker", "config", "describe", "--topic", "payments", "--output", "json"]
    assert "leader.replication.throttled.replicas" in run(
        described, tmp_path, KBROKER_BOOTSTRAP=bootstrap
    )


def test_partitions_with_too_few_replicas_in_sync_are_picked_out(tmp_path: Path) -> None:
    with what_may_be_missing():
        require_program("jq", "install jq")
    rows = [
        {"topic": "orders", "state": ["under-replicated"]},
        {"topic": "payments", "state": [f"under {MIN_ISR}", "under-replicated"]},
    ]
    (tmp_path / "rows").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    block = of_page("troubleshooting", "jq")
    printed = run(["bash", "-c", f"kbroker() {{ cat rows; }}\n{block}"], tmp_path)

    assert [json.loads(line) for line in printed.splitlines()] == rows[1:]
