"""Offsets of OffsetCommit v0 and OffsetFetch v0: kept in the znode tree, not in
`__consumer_offsets`.

    /consumers/<group>/offsets/<topic>/<partition>   the offset in decimal

Law: these offsets belong to clients older than the group coordinator, as in Kafka; the two stores
know nothing of each other.
"""

from __future__ import annotations

from typing import Protocol

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.zk.tree import NodeExistsError, NoNodeError, Tree
from kbroker.zk.zk_paths import CONSUMERS


class LegacyOffsets(Protocol):
    """Where offsets of version 0 are kept."""

    async def get(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset, None when none was stored."""
        ...

    async def put(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Store an offset. KafkaError INVALID_GROUP_ID for a name that cannot be part of a path."""
        ...


class ZkLegacyOffsets:
    """Offsets kept where Kafka in ZooKeeper mode keeps them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def get(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset, None when none was stored or the node holds no number."""
        try:
            data, _ = await self._tree.get(_path(group_id, partition))
        except NoNodeError:
            return None
        text = (data or b"").decode("ascii", "replace")
        return int(text) if text.removeprefix("-").isdecimal() else None

    async def put(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Store an offset; parents are made as needed."""
        path, data = _path(group_id, partition), str(offset).encode()
        try:
            await self._tree.set(path, data)
        except NoNodeError:
            try:
                await self._tree.create(path, data, make_parents=True)
            except NodeExistsError:  # made by someone else just now
                await self._tree.set(path, data)


def _path(group_id: str, partition: TopicPartition) -> str:
    if group_id in ("", ".", "..") or "/" in group_id or not group_id.isprintable():
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"{group_id!r} cannot be part of a path")
    return f"{CONSUMERS}/{group_id}/offsets/{partition.topic}/{partition.partition}"
