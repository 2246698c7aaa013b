"""What `kbroker topic trim` says of partitions that it leaves as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.topic import trim as module
from kbroker.client import record_trims
from kbroker.client.topic_figures import Ends
from kbroker.model import TopicPartition


def test_partitions_are_named_in_order_whoever_answers_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitions = [SimpleNamespace(partition_index=n, leader_id=n) for n in range(3)]
    topic = SimpleNamespace(name="orders", is_internal=False, partitions=partitions)

    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Any]:
        yield SimpleNamespace(describe=lambda _: SimpleNamespace(topics=[topic]), silent={})

    answered = {TopicPartition("orders", number): 3 for number in (2, 0, 1)}
    monkeypatch.setattr(module, "cluster_links", connected)
    monkeypatch.setattr(record_trims, "ends_of", lambda *_: Ends(offsets=answered, codes={}))
    monkeypatch.setattr(record_trims, "offsets_at", lambda *_: dict.fromkeys(answered, 0))

    shown = CliRunner().invoke(module.trim, ["orders", "--before", "5"], standalone_mode=False)

    assert isinstance(shown.exception, CommandError)
    said = [*shown.stderr.splitlines(), f"Error: {shown.exception.message}"]
    assert [line.split(": ")[1] for line in said] == ["orders-0", "orders-1", "orders-2"]
