"""ZkNotifications: news that brokers leave for the controller as numbered nodes: ISRs changed by
brokers that do not know AlterPartition, log directories that failed.

Law: the controller removes the nodes that it has read, or it would read them again. That includes
nodes that it cannot understand, which are reported. A node that came while it read stays, and its
watch fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kbroker.model import TopicPartition
from kbroker.zk.nodes import admin_znodes
from kbroker.zk.tree import Watch
from kbroker.zk.zk_paths import (
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
)
from kbroker.zk.zk_utils import ZkUtils

NewsT = TypeVar("NewsT")


class ZkNotifications:
    """The news in the tree. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def isr_changes(
        self, watch: Watch | None = None
    ) -> tuple[list[str], frozenset[TopicPartition]]:
        """Paths of all notifications, and the partitions they name.

        The watch fires when a notification comes or goes.
        """
        paths, changes = await self._read(
            ISR_CHANGE_NOTIFICATION, admin_znodes.decode_isr_change, watch
        )
        return paths, frozenset(partition for change in changes for partition in change)

    async def log_dir_events(self, watch: Watch | None = None) -> tuple[list[str], frozenset[int]]:
        """Paths of all events, and the brokers that lost a log directory.

        The watch fires when an event comes or goes.
        """
        paths, broker_ids = await self._read(
            LOG_DIR_EVENT_NOTIFICATION, admin_znodes.decode_log_dir_event, watch
        )
        return paths, frozenset(broker_ids)

    async def delete(self, paths: Sequence[str], epoch_version: int) -> None:
        """Remove notifications that were read. Raises ControllerMovedError."""
        await self._zk.delete_all(paths, epoch_version)

    async def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Notify the controller that the ISRs of these partitions were changed in the tree."""
        data = admin_znodes.encode_isr_change(partitions)
        await self._create(admin_znodes.ISR_CHANGE_PREFIX, data)

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        """Notify the controller that a log directory of this broker has failed."""
        data = admin_znodes.encode_log_dir_event(broker_id)
        await self._create(admin_znodes.LOG_DIR_EVENT_PREFIX, data)

    async def _create(self, prefix: str, data: bytes) -> None:
        await self._zk.tree.create(prefix, data, sequential=True, make_parents=True)

    async def _read(
        self, root: str, decode: Callable[[str, bytes | None], NewsT], watch: Watch | None
    ) -> tuple[list[str], list[NewsT]]:
        paths = [f"{root}/{name}" for name in await self._zk.children(root, watch)]
        nodes = zip(paths, await self._zk.tree.get_all(paths), strict=True)
        read = [self._zk.decoded(decode, path, node[0]) for path, node in nodes if node is not None]
        return paths, [news for news in read if news is not None]
