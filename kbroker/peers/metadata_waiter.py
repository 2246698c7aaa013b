"""MetadataWaiter: waits until the broker's metadata cache shows what has been changed in the tree.

Owned by the event loop. Whoever fills the cache calls `notify` after each update; nothing polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from kbroker.model import TopicPartition


class CachedPartition(Protocol):
    """One partition as the metadata cache shows it."""

    leader: int


class MetadataView(Protocol):
    """The questions to the broker's metadata cache."""

    def contains_topic(self, topic: str) -> bool: ...

    def partition_state(self, topic_partition: TopicPartition) -> CachedPartition | None:
        """The partition, None if it does not exist."""
        ...

    def topic_ids(self) -> Mapping[str, UUID]: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...


class MetadataWaiter:
    """Futures, each with the condition that it waits for."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    def notify(self) -> None:
        """The cache has changed: wake those whose condition holds now."""
        for future, condition in list(self._waiting.items()):
            if not future.done() and condition():
                future.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """True as soon as the condition holds, False when the time is up.

        A time of 0 does not wait.
        """
        if condition():
            return True
        if timeout_ms <= 0:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return condition()
        finally:
            del self._waiting[future]
        return True
