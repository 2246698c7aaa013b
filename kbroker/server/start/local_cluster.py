"""LocalCluster: several brokers in one process and one event loop (`kbroker start --brokers N`),
over one znode tree that they share, or over an ensemble with a session each.

Law: the brokers know each other only through the tree and their connections, so that stopping or
killing one affects the others as in a cluster of processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kbroker.clock import ClockWithTimer
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import Trouble
from kbroker.log.directories.log_directory import (
    LogDirectory,
    LogDirectoryError,
    open_log_directory,
)
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.model import EndPoint
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.broker.log_loading import WatchLoading, nobody_watches
from kbroker.server.broker.surroundings import Surroundings
from kbroker.server.metadata_tree.cluster_tree import SharedTree, close_store
from kbroker.server.metadata_tree.tree_location import (
    brokers_in,
    check_not_of_ensemble,
    check_not_of_several,
    check_own_tree,
    check_whole,
)
from kbroker.server.start.local_configs import listeners_of, with_values
from kbroker.server.start_error import StartError
from kbroker.server.system_clock import SystemClock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory

_log = logging.getLogger(__name__)


class LocalCluster:
    """Several brokers: `await startup()`, serve, `await shutdown()`. A broker's number is its place
    in `configs`. Owned by the event loop.
    """

    def __init__(
        self,
        configs: Sequence[KafkaConfig],
        directory: str,
        *,
        cluster_id: str | None = None,
        file_system: FileSystem | None = None,
        clock: ClockWithTimer | None = None,
        watch_loading: WatchLoading = nobody_watches,
    ) -> None:
        """`directory` holds the shared tree; `configs` name the directories of the brokers."""
        self._clock = clock or SystemClock()
        self._watch_loading = watch_loading
        self._configs = list(configs)
        self._directory = directory
        self._cluster_id = cluster_id
        self._file_system = file_system or RealFileSystem()
        self._lock: LogDirectory | None = None
        self._store: EmbeddedTree | None = None
        self._watching: dict[int, asyncio.Task[None]] = {}
        self.failed = asyncio.Event()  # a broker cannot go on, `failure` says why
        self.failure: StartError | LogDirectoryError | None = None
        self.servers: list[KafkaServer | None] = [None] * len(self._configs)

    @property
    def end_points(self) -> tuple[EndPoint, ...]:
        """The end points of the running brokers, in the order of their numbers."""
        return tuple(e for server in self.servers if server for e in server.end_points)

    def read_certificates_again(self) -> bool:
        """Read the files of certificates of all brokers again; False if there are none."""
        read = [each.read_certificates_again() for each in self.servers if each]
        return any(read)

    @property
    def http_end_points(self) -> tuple[EndPoint, ...]:
        """The end points of HTTP of the running brokers: each has its own."""
        return tuple(e for server in self.servers if server for e in server.http_end_points)

    @property
    def store(self) -> EmbeddedTree:
        """The tree that the brokers share."""
        assert self._store is not None, "brokers of an ensemble share no tree"
        return self._store

    async def startup(self) -> None:
        """Start all brokers; if one fails, the others stop. Raises as `KafkaServer.startup`."""
        try:
            self._take_directory()
            if not self._configs[0].zk.zookeeper_connect:
                self._open_store()
            await self.start_broker(0)  # alone, so that it becomes the controller
            async with asyncio.TaskGroup() as group:
                for number in range(1, len(self._configs)):
                    group.create_task(self.start_broker(number), name=f"start {number}")
        except BaseExceptionGroup as errors:
            await self.shutdown()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.shutdown()
            raise

    async def shutdown(self) -> None:
        """Stop all brokers, the controller last, and close the tree."""
        running = [number for number, server in enumerate(self.servers) if server is not None]
        for server in filter(None, self.servers):
            server.lifecycle.is_to_stop = True
        last = [n for n in running if self._is_controller(n)] or running[:1]
        others = [n for n in running if n not in last]
        is_all = self._store is not None  # an ensemble may have brokers of other processes
        outcomes: list[BaseException | None] = []
        for numbers in (others, last):
            stops = [self.stop_broker(number, is_with_all=is_all) for number in numbers]
            outcomes += await asyncio.gather(*stops, return_exceptions=True)
        if self._store is not None:
            close_store(self._store)
            self._store = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def start_broker(self, number: int) -> KafkaServer:
        """Start a broker, at its former address if it has run before."""
        assert self.servers[number] is None
        server = KafkaServer(
            self._configs[number],
            cluster_id=self._cluster_id,
            file_system=self._file_system,
            tree=SharedTree(self._store, f"the tree in {self._directory}") if self._store else None,
            around=Surroundings(clock=self._clock, watch_loading=self._watch_loading),
        )
        await server.startup()
        self.servers[number] = server
        self._configs[number] = with_values(self._configs[number], listeners_of(server.end_points))
        self._watching[number] = asyncio.create_task(
            self._watch(server), name=f"watch broker {server.broker_id}"
        )
        return server

    async def stop_broker(self, number: int, *, is_with_all: bool = False) -> None:
        """Stop a broker cleanly; `is_with_all`: the others stop too."""
        server = self._taken_out(number)
        if server is not None:
            await server.shutdown(is_with_all=is_with_all)
            self.failure = self.failure or server.failure

    async def kill_broker(self, number: int) -> None:
        """End a broker as `kill -9` ends a process, and its session with it."""
        server = self._taken_out(number)
        if server is not None:
            await server.kill()

    def _taken_out(self, number: int) -> KafkaServer | None:
        """Take out a broker that is about to end, and stop watching whether it fails."""
        server, self.servers[number] = self.servers[number], None
        if server is not None:
            self._watching.pop(number).cancel()
        return server

    def _take_directory(self) -> None:
        check_whole(self._file_system, [self._directory])
        self._lock = open_log_directory(self._file_system, self._directory)
        if self._lock.meta is not None:
            check_not_of_several(self._file_system, self._directory)
            raise LogDirectoryError(
                f"Data directory {self._directory} belongs to a single broker: start it without "
                "--brokers, or give the cluster another directory",
                Trouble.OTHER_METADATA,
            )

    def _open_store(self) -> None:
        check_own_tree(self._file_system, [self._directory])
        for config in self._configs:  # before a tree and the first brokers are made
            for path in config.log.data_directories():
                check_not_of_ensemble(self._file_system, path)
        self._name_those_left_out()
        files = TreeDirectory(self._file_system, self._directory)
        self._store = EmbeddedTree(self._clock, files)

    def _name_those_left_out(self) -> None:
        started = {
            path.rpartition("/")[2]
            for config in self._configs
            for path in config.log.data_directories()
        }
        there = brokers_in(self._file_system, self._directory)
        left_out = [name for name in there if name not in started]
        if left_out:
            _log.warning(
                "%s holds %d brokers, %s not started: partitions that only they hold are offline",
                self._directory,
                len(there),
                f"{', '.join(left_out)} {'is' if len(left_out) == 1 else 'are'}",
            )

    def _is_controller(self, number: int) -> bool:
        server = self.servers[number]
        return server is not None and server.is_controller

    async def _watch(self, server: KafkaServer) -> None:
        await server.failed.wait()
        self.failure = self.failure or server.failure
        self.failed.set()
