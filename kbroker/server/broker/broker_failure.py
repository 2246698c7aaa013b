"""Why a broker cannot go on, and what it does when a data directory fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kbroker.replication.controller_requests.leadership import Leadership
from kbroker.server.membership.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.server.metadata_tree.cluster_tree import ClusterTree, OwnTree
from kbroker.server.start_error import StartError

_log = logging.getLogger(__name__)


class BrokerFailure:
    """The reason why one broker cannot go on. Owned by the event loop."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.error: StartError | LogDirectoryError | None = None
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` at every report."""
        self._listeners.append(listener)

    def report(self, error: StartError | LogDirectoryError) -> None:
        """Report that the broker cannot go on; the first error counts."""
        self.error = self.error or error
        self.event.set()
        for listener in self._listeners:
            listener()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LogDirFailure:
    """Gives up the partitions of a failed directory, makes the controller ask, and stops the broker
    if it has nothing left to serve. Owned by the event loop.
    """

    logs: LogManager
    leadership: Leadership
    healthcheck: KafkaHealthcheck
    log_dir_events: LogDirEvents
    tree: ClusterTree
    failure: BrokerFailure

    def on_offline(self, path: str, partitions: list[TopicPartition], error: StorageError) -> None:
        """Act on a failed directory, with which these partitions have failed."""
        self.leadership.partitions_offline(partitions)
        # A broker that registers later is asked about all replicas anyway.
        if self.healthcheck.broker_epoch != UNKNOWN_BROKER_EPOCH:
            self.log_dir_events.report()
        if not self.logs.online_directories:
            _log.error("no data directory is left: the broker stops")
            paths = ", ".join(directory.path for directory in self.logs.directories())
            self.failure.report(
                LogDirectoryError(
                    f"No data directory is left of {paths}: the broker stopped. Repair the disks "
                    "and start it again"
                )
            )
        elif isinstance(self.tree, OwnTree) and path == self.tree.own_directory:
            self.tree.refuse(error)
            _log.error(
                "%s holds the cluster's metadata too: topics and settings cannot be changed until "
                "the broker is started again on a healthy disk; other directories are served",
                path,
            )
