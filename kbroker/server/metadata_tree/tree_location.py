"""The place of a data directory's metadata, and the guard against starting it elsewhere.

A broker without an ensemble keeps its tree in its directory. A broker with one leaves a file there
that names the ensemble, and so does an export; a tree in the directory is out of date then. A
broker started with that would serve topics that have changed or gone since, and delete the logs of
newer ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kbroker.errors import Trouble
from kbroker.log.directories.log_directory import directory_refusal
from kbroker.log.directories.unfinished_restore import unfinished_restore
from kbroker.log.disk.checkpoint import CheckpointError, write_atomically
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import META_PROPERTIES_FILE
from kbroker.server.metadata_tree.unwritten_files import UnwrittenFiles
from kbroker.server.start_error import StartError
from kbroker.server.system_clock import SystemClock
from kbroker.zk import zk_paths
from kbroker.zk.copy_mark import is_unfinished
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TREE_FILES, TreeDirectory
from kbroker.zk.tree import Tree

_log = logging.getLogger(__name__)

LOCATION_FILE = "kbroker-tree.location"
BROKER_DIRECTORY = "broker-"  # of one of several brokers that share a directory
_SEVERAL = 2  # --brokers 1 is a broker alone, even if one directory of several was made or kept


@dataclass(frozen=True, slots=True)
class TreeLocation:
    """The ensemble, with its chroot, that holds the metadata of a directory."""

    zookeeper: str
    cluster_id: str


def unusable(directory: str, error: StorageError | CheckpointError) -> StartError:
    """The error for a directory that no start and no move of a tree can use."""
    refusal = directory_refusal(directory, error)
    return StartError(str(refusal), refusal.trouble)


def read_location(file_system: FileSystem, directory: str) -> TreeLocation | None:
    """The ensemble that holds the directory's metadata, if one does. Raises StartError."""
    path = f"{directory}/{LOCATION_FILE}"
    try:
        if not file_system.exists(path):
            return None
        document = json.loads(file_system.read_bytes(path))
        return TreeLocation(str(document["zookeeper"]), str(document["cluster_id"]))
    except StorageError as error:
        raise unusable(directory, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StartError(
            f"{path} should say which ensemble has the metadata, and does not: {error!r}; write it "
            'as {"version": 1, "zookeeper": "HOST:PORT/chroot", "cluster_id": "..."}'
        ) from error


def write_location(file_system: FileSystem, directory: str, location: TreeLocation) -> None:
    """Name the ensemble in the directory; it is on the device then. Raises StorageError."""
    text = json.dumps(
        {"version": 1, "zookeeper": location.zookeeper, "cluster_id": location.cluster_id}
    )
    write_atomically(file_system, f"{directory}/{LOCATION_FILE}", text + "\n")


def remove_location(file_system: FileSystem, directory: str) -> None:
    """Forget the ensemble: the directory's own tree holds the metadata. Raises StorageError."""
    if file_system.exists(f"{directory}/{LOCATION_FILE}"):
        file_system.unlink(f"{directory}/{LOCATION_FILE}")
        file_system.sync_directory(directory)


def has_tree(file_system: FileSystem, directory: str) -> bool:
    """Whether a tree is kept in the directory."""
    return any(file_system.exists(f"{directory}/{name}") for name in TREE_FILES)


def brokers_in(file_system: FileSystem, directory: str) -> list[str]:
    """The brokers' directories in one that several share. Raises StartError."""
    try:
        if not file_system.is_directory(directory):
            return []
        return [
            name
            for name in sorted(file_system.list(directory))
            if name.startswith(BROKER_DIRECTORY)
            and file_system.exists(f"{directory}/{name}/{META_PROPERTIES_FILE}")
        ]
    except StorageError as error:
        raise unusable(directory, error) from error


def check_whole(file_system: FileSystem, directories: Sequence[str]) -> None:
    """Refuse directories that a restore has left unfinished. Raises StartError."""
    for directory in directories:
        try:
            sentence = unfinished_restore(file_system, directory)
        except StorageError as error:
            raise unusable(directory, error) from error
        if sentence is not None:
            raise StartError(sentence, Trouble.RESTORE)


def check_own_tree(file_system: FileSystem, directories: Sequence[str]) -> None:
    """Refuse directories whose metadata is elsewhere, before a start without an ensemble.

    Raises StartError.
    """
    for directory in directories:
        check_not_of_ensemble(file_system, directory)
        check_not_of_several(file_system, directory)


def check_not_of_ensemble(file_system: FileSystem, directory: str) -> None:
    """Refuse a directory that names an ensemble. Raises StartError."""
    location = read_location(file_system, directory)
    if location is not None:
        raise StartError(
            f"the metadata of {directory} is in ZooKeeper at {location.zookeeper} (cluster "
            f"{location.cluster_id}): start with --zookeeper {location.zookeeper}, or bring it "
            f"back with `kbroker cluster import --zookeeper {location.zookeeper} --data "
            f"{directory}`",
            Trouble.OTHER_METADATA,
        )


def check_not_of_several(file_system: FileSystem, directory: str) -> None:
    """Refuse the directory of one of several brokers that share a tree. Raises StartError."""
    shared = _shared_directory(file_system, directory)
    if shared is not None:
        raise StartError(
            f"{directory} is one of several brokers whose tree is in {shared}: start them "
            f"together with --brokers N --data {shared}",
            Trouble.OTHER_METADATA,
        )


def check_single_broker(file_system: FileSystem, directories: Sequence[str]) -> None:
    """Refuse directories that several brokers share, before a start of one alone: it would take
    their topics for its own and find no records, or join their ensemble as another broker.

    Raises StartError.
    """
    for directory in directories:
        brokers = brokers_in(file_system, directory)
        own = f"{directory}/{META_PROPERTIES_FILE}"
        if brokers and (has_tree(file_system, directory) or not file_system.exists(own)):
            raise StartError(
                f"{directory} belongs to several brokers ({', '.join(brokers)}): start them with "
                f"--brokers {max(len(brokers), _SEVERAL)}, or give this one another directory",
                Trouble.OTHER_METADATA,
            )


def check_ensemble_tree(file_system: FileSystem, directories: Sequence[str], connect: str) -> None:
    """Refuse directories that have a tree of their own, before a start at an ensemble.

    Raises StartError, CorruptTreeError.
    """
    for directory in directories:
        for home in (directory, _shared_directory(file_system, directory)):
            if home is None or not has_tree(file_system, home):
                continue
            if read_location(file_system, home) is not None:
                continue  # exported: what is left here is out of date
            topics = _topics_in(file_system, home)
            if topics:
                raise StartError(
                    f"{home} has a tree of its own, with topics such as {topics[0]}: bring it into "
                    f"the ensemble with `kbroker cluster export --data {home} --zookeeper "
                    f"{connect}`, or start without --zookeeper",
                    Trouble.OTHER_METADATA,
                )


async def check_copied(tree: Tree, name: str) -> None:
    """Refuse a tree that is not whole; `name` is its name in sentences. Raises StartError."""
    if await is_unfinished(tree):
        raise StartError(
            f"the copy into {name} was interrupted: repeat the `kbroker cluster export` or "
            f"`kbroker cluster import` that made it",
            Trouble.COPY_BROKE_OFF,
        )


def remember_ensemble(
    file_system: FileSystem, directories: Sequence[str], location: TreeLocation
) -> None:
    """Name the ensemble in the directories of a broker that has started at it."""
    for directory in directories:
        try:
            is_there = file_system.is_directory(directory)
            if is_there and read_location(file_system, directory) != location:
                write_location(file_system, directory, location)
        except (StorageError, StartError) as error:
            # The broker works all the same; its logs will find out a directory that fails.
            _log.warning("%s does not say where its metadata is: %s", directory, error)


def _shared_directory(file_system: FileSystem, directory: str) -> str | None:
    """The directory that several brokers share, if this is the directory of one of them."""
    parent, _, name = directory.rpartition("/")
    is_shared = name.startswith(BROKER_DIRECTORY) and has_tree(file_system, parent or ".")
    return (parent or ".") if is_shared else None


def _topics_in(file_system: FileSystem, directory: str) -> list[str]:
    tree = EmbeddedTree(SystemClock(), UnwrittenFiles(TreeDirectory(file_system, directory)))
    prefix = f"{zk_paths.TOPICS}/"
    return [
        path.removeprefix(prefix)
        for path, _, _ in tree.dump()
        if path.startswith(prefix) and "/" not in path.removeprefix(prefix)
    ]
