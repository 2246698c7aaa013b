"""Requests wait for the tree as long as Kafka's do, and answer with what clients try again on."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.admin import tree_unavailable
from kbroker.admin.tree_unavailable import patiently
from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import TreeStorageError
from tests.fakes.trees.memory_tree_files import FixedClock


@pytest.mark.virtual_time
async def test_a_request_goes_on_when_the_tree_is_back() -> None:
    session = EmbeddedTree(FixedClock()).session()
    session.suspend()
    asking = asyncio.create_task(patiently(session, lambda: session.children("/")))
    await asyncio.sleep(1)
    session.expire()
    await asyncio.sleep(1)
    assert not asking.done()
    session.renew()
    assert await asking == []


async def test_a_request_is_told_to_come_again_when_the_tree_stays_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree_unavailable, "PATIENCE_S", 0.0)
    session = EmbeddedTree(FixedClock()).session()
    session.suspend()
    with pytest.raises(KafkaError) as refusal:
        await patiently(session, lambda: session.children("/"))
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_full_disk_is_not_waited_for() -> None:
    async def full() -> None:
        raise TreeStorageError("tree.journal: no space left")

    session = EmbeddedTree(FixedClock()).session()
    with pytest.raises(KafkaError, match="no space left") as refusal:
        await patiently(session, full)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
