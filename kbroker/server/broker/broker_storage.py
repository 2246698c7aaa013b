"""The first stage of a broker: its data directories are locked, its tree is open, and its identity
is settled. Nothing is served and no log is open.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.room_at_start import make_room
from kbroker.log.disk.file_system import FileSystem
from kbroker.server.broker.machine_memory import has_lost_memory
from kbroker.server.broker.tree_opening import RequestedStart, TreeOpening
from kbroker.server.metadata_tree.broker_identity import BrokerIdentity, config_of_broker
from kbroker.server.metadata_tree.cluster_tree import ClusterTree, OwnTree
from kbroker.zk.zk_utils import ZkUtils


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BrokerStorage:
    """The storage under a broker's parts; `config` has the id in force."""

    config: KafkaConfig
    identity: BrokerIdentity
    file_system: FileSystem
    directories: LogDirectories
    tree: ClusterTree
    zk: ZkUtils
    has_lost_memory: bool = False  # unsynced writes of an earlier run may be gone


async def open_storage(
    requested: RequestedStart,
    tree: ClusterTree,
    file_system: FileSystem,
    clock: Clock,
    undo: AsyncExitStack,
    boot_id: str | None = None,
) -> BrokerStorage:
    """Open what a start needs; `undo` gets the calls that release it. `boot_id` names this run of
    the machine. Raises as `TreeOpening.check` and `TreeOpening.open`.
    """
    opening = TreeOpening(requested, tree, file_system, clock)
    opening.check()
    paths = requested.config.log.data_directories()
    directories = LogDirectories.lock(file_system, paths, tree.own_directory)
    undo.callback(directories.release)
    if isinstance(tree, OwnTree):
        tree.on_failure = partial(directories.fail, tree.own_directory)
        make_room(file_system, tree.own_directory)  # the journal of the tree is written to soon
    undo.push_async_callback(tree.close)
    zk, identity = await opening.open(directories.meta)
    return BrokerStorage(
        config=config_of_broker(requested.config, identity.broker_id),
        identity=identity,
        file_system=file_system,
        directories=directories,
        tree=tree,
        zk=zk,
        has_lost_memory=(  # no other broker could know better than a single one
            tree.own_directory is None and has_lost_memory(file_system, directories, boot_id)
        ),
    )
