"""Finds the broker that coordinates a key: a group's id, a transactional id, or the partition of a
share group; makes the internal topic when it is first needed.

Law: the answer names a broker that can be used. While the topic is made, or its partition read, the
caller waits here instead of asking again and again, and gets `COORDINATOR_NOT_AVAILABLE` only after
`FIND_TIMEOUT_MS`. If the partition has no leader, the caller gets that at once: the broker may be
away for long, and other requests wait for this one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
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


class CoordinatorType(Enum):
    """The kinds of keys, as FindCoordinator numbers them."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2  # keys are "group:topic id:partition" (KIP-932)


_NOT_SERVED = {
    CoordinatorType.SHARE: (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "The coordinator is not available.",
    ),
}


class CoordinatorFinder:
    """Finds coordinators of those types that have a runtime here."""

    def __init__(
        self,
        runtimes: Mapping[CoordinatorType, CoordinatorRuntime[Any]],
        metadata: MetadataCache,
        topics: TopicCreator,
    ) -> None:
        self._lookups = {
            kind: _Lookup(runtime, metadata, topics) for kind, runtime in runtimes.items()
        }

    def find(self, kind: CoordinatorType, key: str) -> int | Awaitable[int]:
        """The id of the broker; plain when it is known and ready.

        KafkaError COORDINATOR_NOT_AVAILABLE when there is none in time; what Kafka says of types
        that it does not serve.
        """
        lookup = self._lookups.get(kind)
        if lookup is None:
            raise KafkaError(*_NOT_SERVED[kind])
        return lookup.find(key)


class _Lookup:
    """Finds the coordinators of one type."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[Any],
        metadata: MetadataCache,
        topics: TopicCreator,
    ) -> None:
        self._runtime = runtime
        self._topic = runtime.topic
        self._metadata = metadata
        self._topics = topics
        self._is_creating = False
        self._creation_error = ErrorCode.NONE

    def find(self, key: str) -> int | Awaitable[int]:
        broker_id = self._ready_coordinator(key)
        return self._wait(key) if broker_id is None else broker_id

    def _ready_coordinator(self, key: str) -> int | None:
        partition = self._runtime.partition_for(key)
        state = self._metadata.partition_state(TopicPartition(self._topic, partition))
        if state is None or state.leader == NO_LEADER:
            return None
        leader: int = state.leader
        if leader == self._metadata.broker_id:
            return leader if self._runtime.is_ready(partition) else None
        return leader if self._metadata.broker(leader) is not None else None

    def _is_leaderless(self, key: str) -> bool:
        partition = self._runtime.partition_for(key)
        state = self._metadata.partition_state(TopicPartition(self._topic, partition))
        return state is not None and state.leader == NO_LEADER

    async def _wait(self, key: str) -> int:
        runtime = self._runtime
        deadline = runtime.monotonic_ms() + FIND_TIMEOUT_MS
        wait_ms = _FIRST_WAIT_MS
        while True:
            await self._create_topic()
            broker_id = self._ready_coordinator(key)
            if broker_id is not None:
                return broker_id
            if self._is_leaderless(key) or runtime.monotonic_ms() >= deadline:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._reason())
            await runtime.sleep(wait_ms)
            wait_ms = min(2 * wait_ms, _LONGEST_WAIT_MS)

    async def _create_topic(self) -> None:
        """One creation at a time; a failed one is tried again by the next look."""
        if self._is_creating or self._metadata.partition_count(self._topic):
            return
        self._is_creating = True
        try:
            codes = await self._topics.auto_create([self._topic])
            error = codes[self._topic]
        except KafkaError as refusal:
            error = refusal.code
        finally:
            self._is_creating = False
        if error not in (ErrorCode.NONE, self._creation_error):
            # For example too few brokers yet for offsets.topic.replication.factor: asked again
            # until the time is up.
            _log.warning("%s cannot be created: %s", self._topic, error.name)
        self._creation_error = error

    def _reason(self) -> str:
        if self._creation_error is ErrorCode.NONE:
            return "The coordinator is not available."
        return f"{self._topic} cannot be created: {self._creation_error.name}"
