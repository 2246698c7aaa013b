"""Which broker coordinates a group; makes `__consumer_offsets` when it is needed for the first time.

Law: the answer names a broker that can be used. While the topic is made, or its leader elected, or its groups read, the caller waits here
instead of asking again and again; `COORDINATOR_NOT_AVAILABLE` comes after `FIND_TIMEOUT_MS` only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from kbroker.coordinator.group_store import GroupStore
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, NO_LEADER, TopicPartition
from kbroker.replication.metadata_cache import MetadataCache

FIND_TIMEOUT_MS = 5000.0
_FIRST_WAIT_MS = 1.0
_LONGEST_WAIT_MS = 50.0


class TopicCreator(Protocol):
    """The part of TopicAdmin that is needed here."""

    def auto_create(self, topics: Iterable[str]) -> Awaitable[Any]:
        """Create topics that do not exist, internal ones with their own settings."""
        ...


class CoordinatorFinder:
    """Finds coordinators of groups."""

    def __init__(self, store: GroupStore, metadata: MetadataCache, topics: TopicCreator) -> None:
        self._store = store
        self._metadata = metadata
        self._topics = topics
        self._is_creating = False

    def find(self, group_id: str) -> int | Awaitable[int]:
        """The id of the broker; plain when it is known and ready. KafkaError COORDINATOR_NOT_AVAILABLE when there is none in time."""
        broker_id = self._ready_coordinator(group_id)
        return self._wait(group_id) if broker_id is None else broker_id

    def _ready_coordinator(self, group_id: str) -> int | None:
        partition = self._store.partition_for(group_id)
        state = self._metadata.partition_state(TopicPartition(GROUP_METADATA_TOPIC, partition))
        if state is None or state.leader == NO_LEADER:
            return None
        leader: int = state.leader
        if leader == self._metadata.broker_id:
            return leader if self._store.is_ready(partition) else None
        return leader if self._metadata.broker(leader) is not None else None

    async def _wait(self, group_id: str) -> int:
        runtime = self._store.runtime
        deadline = runtime.monotonic_ms() + FIND_TIMEOUT_MS
        wait_ms = _FIRST_WAIT_MS
        while True:
            await self._create_topic()
            broker_id = self._ready_coordinator(group_id)
            if broker_id is not None:
                return broker_id
            if runtime.monotonic_ms() >= deadline:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."
                )
            await runtime.sleep(wait_ms)
            wait_ms = min(2 * wait_ms, _LONGEST_WAIT_MS)

    async def _create_topic(self) -> None:
        """One creation at a time; a failed one is tried again by the next look."""
        if self._is_creating or self._metadata.partition_count(GROUP_METADATA_TOPIC):
            return
        self._is_creating = True
        try:
            await self._topics.auto_create([GROUP_METADATA_TOPIC])
        except KafkaError:
            pass  # for example no brokers yet: asked again until the time is up
        finally:
            self._is_creating = False
