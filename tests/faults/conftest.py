"""Brokers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.running_broker import RunningBroker


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Make a broker over a directory of its own; not started yet."""
    made: list[RunningBroker] = []

    def make(*options: str, before: Callable[[], None] | None = None) -> RunningBroker:
        broker = RunningBroker(tmp_path / f"data-{len(made)}", *options, before=before)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.end()
