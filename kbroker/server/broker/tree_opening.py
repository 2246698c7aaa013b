"""The first steps of a start: find out whose the data directories are, where the metadata is, and
who this broker is in its cluster.

Law: directories that belong elsewhere are refused before anything is written to them or to the
tree, because a wrong id is hard to take back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.log.disk.file_system import FileSystem
from kbroker.peers.broker_channels import answers
from kbroker.server.adoption.adopt_option import AdoptOption
from kbroker.server.adoption.gate import AdoptionGate
from kbroker.server.membership.kafka_healthcheck import refuse_id_in_use
from kbroker.server.metadata_tree.broker_identity import (
    BrokerIdentity,
    check_cluster_id,
    settle_identity,
)
from kbroker.server.metadata_tree.cluster_tree import ClusterTree, OwnTree
from kbroker.server.metadata_tree.tree_location import (
    TreeLocation,
    check_copied,
    check_ensemble_tree,
    check_own_tree,
    check_single_broker,
    check_whole,
    remember_ensemble,
)
from kbroker.zk.zk_utils import ZkUtils


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RequestedStart:
    """The start that an operator asks for.

    `cluster_id` is the id that a new cluster gets. With `adopt`, directories of Apache Kafka are
    taken over; it is called with the sentence that says so.
    """

    config: KafkaConfig
    cluster_id: str | None
    adopt: Callable[[str], None] | None


class TreeOpening:
    """The way of one start to its metadata."""

    def __init__(
        self, requested: RequestedStart, tree: ClusterTree, file_system: FileSystem, clock: Clock
    ) -> None:
        self._requested = requested
        self._tree = tree
        self._file_system = file_system
        self._clock = clock
        self._directories = requested.config.log.data_directories()
        self._adoption = AdoptionGate(
            AdoptOption(
                config=requested.config,
                is_agreed=requested.adopt is not None,
                cluster_id=requested.cluster_id,
            ),
            file_system,
        )

    def check(self) -> None:
        """Refuse directories that belong elsewhere; nothing is locked yet.

        Raises StartError, AdoptionNeededError, LogDirectoryError or CorruptTreeError.
        """
        check_whole(self._file_system, self._directories)
        if self._tree.own_directory is not None:
            check_own_tree(self._file_system, self._directories)
            check_single_broker(self._file_system, self._directories)
            self._adoption.check_agreed()
        elif self._tree.is_ensemble:
            check_single_broker(self._file_system, self._directories)
            check_ensemble_tree(self._file_system, self._directories, self._connect)

    async def open(self, meta: MetaProperties | None) -> tuple[ZkUtils, BrokerIdentity]:
        """Open the tree and settle who this broker is; `meta` is from the locked directories.

        Raises as `check`, BrokerIdInUseError, ConfigError, and TreeUnavailableError.
        """
        requested, tree = self._requested, self._tree
        zk = ZkUtils(await tree.open(), self._clock)
        await check_copied(zk.tree, str(tree))
        if tree.own_directory is None:
            await check_cluster_id(zk, meta, self._directories[0], str(tree))
        await zk.create_persistent_paths()
        if tree.own_directory is not None:
            adopted = await self._adoption.carry_out(zk)
            if requested.adopt is not None:
                requested.adopt(adopted)
        identity = await settle_identity(
            requested.config, zk, meta, requested.cluster_id, is_ensemble=tree.is_ensemble
        )
        if tree.is_ensemble:
            if meta is None:  # before the new directory gets the id for good
                await refuse_id_in_use(zk, identity.broker_id, answers)
            location = TreeLocation(self._connect, identity.cluster_id)
            remember_ensemble(self._file_system, self._directories[:1], location)
        return zk, identity

    @property
    def _connect(self) -> str:
        return str(self._requested.config.zk.zookeeper_connect)


def tree_of(config: KafkaConfig, clock: Clock, file_system: FileSystem) -> ClusterTree:
    """The tree that the settings name."""
    if config.zk.zookeeper_connect:
        # Only with an ensemble: kazoo's cost.
        from kbroker.config.zk_access import zk_access
        from kbroker.server.metadata_tree.ensemble_tree import EnsembleTree

        return EnsembleTree(config.zk, zk_access(config))
    return OwnTree(clock, file_system, config.log.data_directories()[0])
