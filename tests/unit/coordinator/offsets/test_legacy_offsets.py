"""Offsets of version 0, in the znode tree."""

from __future__ import annotations

import pytest

from kbroker.coordinator.offsets.legacy_offsets import ZkLegacyOffsets
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.zk.tree import NodeExistsError, NoNodeError

T0 = TopicPartition("t", 0)


class OneBranch:
    """The three calls of a tree that are made here."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes | None] = {}

    async def get(self, path: str) -> tuple[bytes | None, None]:
        if path not in self.nodes:
            raise NoNodeError(path)
        return self.nodes[path], None

    async def set(self, path: str, data: bytes | None) -> None:
        if path not in self.nodes:
            raise NoNodeError(path)
        self.nodes[path] = data

    async def create(self, path: str, data: bytes | None, *, make_parents: bool) -> str:
        assert make_parents
        if path in self.nodes:
            raise NodeExistsError(path)
        self.nodes[path] = data
        return path


async def test_offset_is_kept_where_kafka_keeps_it_and_read_back() -> None:
    tree = OneBranch()
    offsets = ZkLegacyOffsets(tree)  # type: ignore[arg-type]

    assert await offsets.get("my group", T0) is None
    await offsets.put("my group", T0, 41)
    await offsets.put("my group", T0, 42)

    assert await offsets.get("my group", T0) == 42
    assert tree.nodes == {"/consumers/my group/offsets/t/0": b"42"}


async def test_node_that_holds_no_number_is_no_offset() -> None:
    tree = OneBranch()
    tree.nodes["/consumers/g/offsets/t/0"] = b"abc"

    assert await ZkLegacyOffsets(tree).get("g", T0) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("group_id", ["", "..", "a/b", "a\0"])
async def test_name_that_is_no_part_of_a_path_is_refused(group_id: str) -> None:
    with pytest.raises(KafkaError) as refused:
        await ZkLegacyOffsets(OneBranch()).put(group_id, T0, 1)  # type: ignore[arg-type]

    assert refused.value.code is ErrorCode.INVALID_GROUP_ID
