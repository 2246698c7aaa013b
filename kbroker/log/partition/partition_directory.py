"""The directory of one log: whose log it is, what the disk has refused there, and what the broker
hears before and after it changes.

Law: after the disk has refused a write the log takes no more of them: a half-written tail must not
be followed by whole batches. A full disk passes: what does not fit is refused, and the next append
finds the log as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.checkpoint import LogCut, write_partition_metadata
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class PartitionDirectory:
    """Owned by its log. `failure` is what the disk has refused for good."""

    __slots__ = ("environment", "failure", "is_deleted", "path", "topic_id", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: str,
        topic_id: UUID | None,
        environment: LogEnvironment,
    ) -> None:
        self.topic_partition = topic_partition
        self.path = path
        self.topic_id = topic_id
        self.environment = environment
        self.failure: StorageError | None = None
        self.is_deleted = False

    def failed(self, error: StorageError) -> KafkaError:
        """Note what the disk has refused; return the error to answer with."""
        if error.is_out_of_space:
            self.full(error, 0)
        if self.failure is None and not error.is_passing:
            self.failure = error
            _log.error("Log of %s failed: %s", self.topic_partition, error)
            self.environment.on_failure(self.path, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Raise each StorageError as `failed` says."""
        try:
            yield
        except StorageError as error:
            raise self.failed(error) from error

    def lost(self, error: StorageError) -> None:
        """Fail with the data directory that this one is in; the broker knows of that."""
        self.failure = self.failure or error

    def full(self, error: StorageError, size_bytes: int) -> None:
        self.environment.on_full(self.path, error, size_bytes)

    def deleted(self) -> None:
        """Be on the way out: nothing here is of use any more."""
        self.is_deleted = True

    def moved_to(self, path: str) -> None:
        """Follow a rename of the directory."""
        self.path = path

    def write_topic_id(self, topic_id: UUID) -> None:
        """Write the topic id down. KafkaError(KAFKA_STORAGE_ERROR)."""
        with self.refusals():
            write_partition_metadata(self.environment.file_system, self.path, topic_id)
        self.topic_id = topic_id

    def gapless_from(self, offset: int) -> None:
        """Report that appends from there on leave no gap, or say so before."""
        self.environment.on_gapless(self.path, self.topic_partition, offset)

    def before_gap(self, below: int | None = None) -> None:
        """Note durably that offsets `below` one will be missing; on any thread. StorageError."""
        self.environment.before_gap(self.path, self.topic_partition, below)

    def before_cut(self, cut: LogCut) -> None:
        """Note durably what a cut will leave. StorageError."""
        self.environment.before_cut(self.path, self.topic_partition, cut)

    def before_roll(self) -> None:
        self.environment.before_roll(self.path, self.topic_partition)
