"""Which broker coordinates a group; makes `__consumer_offsets` when it is first needed.

Law: the answer names a broker that can be used. While the topic is made, or its groups read, the
caller waits here instead of asking again and again; `COORDINATOR_NOT_AVAILABLE` comes after
`FIND_TIMEOUT_MS` only. Where the partition has no leader it comes at once: its broker is away, for
who knows how long, and other requests wait behind this one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import Protocol

from kbroker.coordinator.group_store import GroupStore
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, NO_LEADER, TopicPartition
from kbroker.replication.metadata_cache import MetadataCache

_log = logging.getLogger(__name__)

FIND_TIMEOUT_MS = 5000.0
_FIRST_WAIT_MS = 1.0
_LONGEST_WAIT_MS = 50.0


class TopicCreator(Protocol):
    """The part of TopicAdmin that is needed here."""

    def auto_create(self, topics: Iterable[str]) -> Awaitable[Mapping[str, ErrorCode]]:
        """Create topics that do not exist, internal ones with their own settings.

        A code for each.
        """
        ...


class CoordinatorFinder:
    """Finds coordinators of groups."""

    def __init__(self, store: GroupStore, metadata: MetadataCache, topics: TopicCreator) -> None:
        self._store = store
        self._metadata = metadata
        self._topics = topics
        self._is_creating = False
        self._creation_error = ErrorCode.NONE

    def find(self, group_id: str) -> int | Awaitable[int]:
        """The id of the broker; plain when it is known and ready.

        KafkaError COORDINATOR_NOT_AVAILABLE when there is none in time.
        """
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

    def _is_leaderless(self, group_id: str) -> bool:
        partition = self._store.partition_for(group_id)
        state = self._metadata.partition_state(TopicPartition(GROUP_METADATA_TOPIC, partition))
        return state is not None and state.leader == NO_LEADER

    async def _wait(self, group_id: str) -> int:
        runtime = self._store.runtime
        deadline = runtime.monotonic_ms() + FIND_TIMEOUT_MS
        wait_ms = _FIRST_WAIT_MS
        while True:
            await self._create_topic()
            broker_id = self._ready_coordinator(group_id)
            if broker_id is not None:
                return broker_id
            if self._is_leaderless(group_id) or runtime.monotonic_ms() >= deadline:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._reason())
            await runtime.sleep(wait_ms)
            wait_ms = min(2 * wait_ms, _LONGEST_WAIT_MS)

    async def _create_topic(self) -> None:
        """One creation at a time; a failed one is tried again by the next look."""
        if self._is_creating or self._metadata.partition_count(GROUP_METADATA_TOPIC):
            return
        self._is_creating = True
        try:
            codes = await self._topics.auto_create([GROUP_METADATA_TOPIC])
            error = codes[GROUP_METADATA_TOPIC]
        except KafkaError as refusal:
            error = refusal.code
        finally:
            self._is_creating = False
        if error not in (ErrorCode.NONE, self._creation_error):
            # For example too few brokers yet for offsets.topic.replication.factor: asked again
            # until the time is up.
            _log.warning("%s cannot be created: %s", GROUP_METADATA_TOPIC, error.name)
        self._creation_error = error

    def _reason(self) -> str:
        if self._creation_error is ErrorCode.NONE:
            return "The coordinator is not available."
        return f"{GROUP_METADATA_TOPIC} cannot be created: {self._creation_error.name}"
