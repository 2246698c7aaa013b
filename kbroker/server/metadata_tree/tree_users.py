"""Users in the tree of a data directory whose broker has stopped, or has never started.

Law: nothing is written to a directory that a start would refuse, or would take over from Apache
Kafka: a tree in it would tell that start that the directory is kbroker's already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from kbroker.admin.scram_users import alter_users, credentials_of
from kbroker.errors import KafkaError, Trouble
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import META_PROPERTIES_FILE, parse_directory_name
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kbroker.server.metadata_tree.tree_location import (
    BROKER_DIRECTORY,
    check_not_of_ensemble,
    check_not_of_several,
    has_tree,
    unusable,
)
from kbroker.server.metadata_tree.tree_move import locked_home
from kbroker.server.metadata_tree.unwritten_files import UnwrittenFiles
from kbroker.server.start_error import StartError
from kbroker.server.system_clock import SystemClock
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.zk_utils import ZkUtils


async def users_in(file_system: FileSystem, directory: str) -> dict[str, dict[str, int]]:
    """Iterations of credentials, by user and mechanism; nothing is written.

    Raises StartError for a directory that is in use or has its metadata elsewhere,
    TreeUnavailableError and CorruptTreeError.
    """
    if not file_system.is_directory(directory):
        return {}
    with _home(file_system, directory) as files:
        zk = ZkUtils(EmbeddedTree(SystemClock(), UnwrittenFiles(files)).session(), SystemClock())
        stored = await ZkEntityConfigs(zk).every(zk_paths.USER_CONFIGS)
    users = {name: credentials_of(texts) for (name,), texts in stored.items() if name is not None}
    return {name: users[name] for name in sorted(users) if users[name]}


async def alter_users_in(
    file_system: FileSystem, directory: str, request: AlterUserScramCredentialsRequest
) -> dict[str, KafkaError | None]:
    """Change credentials in a directory, which is made if it is not there; returns None for each
    user that was changed, or why not. It is on the device then. Raises as `users_in`.
    """
    try:
        file_system.make_directory(directory)
    except StorageError as error:
        raise unusable(directory, error) from error
    with _home(file_system, directory) as files:
        clock = SystemClock()
        store = EmbeddedTree(clock, files)
        try:
            zk = ZkUtils(store.session(), clock)
            await zk.create_persistent_paths()
            update = partial(ZkEntityConfigs(zk).update, zk_paths.USER_CONFIGS)
            return await alter_users(
                lambda user, change: update(zk_paths.sanitized(user), change),
                request.deletions,
                request.upsertions,
            )
        finally:
            store.close()


@contextmanager
def _home(file_system: FileSystem, directory: str) -> Iterator[TreeDirectory]:
    """Hold a directory that a broker would start with, and give the files of its tree."""
    with locked_home(file_system, directory):
        check_not_of_ensemble(file_system, directory)
        check_not_of_several(file_system, directory)
        if not has_tree(file_system, directory):
            for name in filter(_is_of_a_broker, file_system.list(directory)):
                raise StartError(
                    f"{directory} holds data without metadata ({name}): start its broker, and add "
                    "users with --bootstrap",
                    Trouble.OTHER_METADATA,
                )
        yield TreeDirectory(file_system, directory)


def _is_of_a_broker(name: str) -> bool:
    is_partition = parse_directory_name(name) is not None
    return is_partition or name == META_PROPERTIES_FILE or name.startswith(BROKER_DIRECTORY)
