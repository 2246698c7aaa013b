"""Every test of coordinators runs twice: the replicas answer at once, and late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.fakes.brokers.group_broker import OffsetsReplicas
from tests.fakes.clusters.replication import Calls, Replication


@pytest.fixture(
    autouse=True, params=[Replication.IMMEDIATE, Replication.DELAYED], ids=lambda m: m.value
)
def replication(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Replication]:
    """How replicas answer that are told nothing else."""
    mode: Replication = request.param
    monkeypatch.setattr(OffsetsReplicas, "default_mode", mode)
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(Calls, "loop", None if mode is Replication.IMMEDIATE else loop)
    yield mode
    loop.close()
