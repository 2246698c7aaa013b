"""Moves the tree of a stopped broker, or of several that share a directory, into an ensemble and
back (`kbroker cluster export`, `kbroker cluster import`).

Law: at any moment at most one of the two trees can be started, or two sets of brokers would change
the same cluster. An export names the ensemble in the directory before it removes the mark from the
copy; an import removes that name afterwards. The tree that is copied is never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kbroker.errors import Trouble
from kbroker.log.disk.checkpoint import CheckpointError, MetaProperties, read_meta_properties
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import LOCK_FILE
from kbroker.server.metadata_tree.tree_location import (
    BROKER_DIRECTORY,
    TreeLocation,
    brokers_in,
    has_tree,
    read_location,
    remove_location,
    unusable,
    write_location,
)
from kbroker.server.metadata_tree.unwritten_files import UnwrittenFiles
from kbroker.server.start_error import StartError
from kbroker.server.system_clock import SystemClock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.embedded.tree_journal import DAMAGED_NAME
from kbroker.zk.tree import Tree
from kbroker.zk.tree_copy import CopyPlan, Progress, TreeImage, carry_out, plan_copy, read_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """The ways to move a tree."""

    replace: bool = False  # give up another state of the same cluster
    dry_run: bool = False
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """The tree that was moved, or would be with `dry_run`."""

    image: TreeImage
    plan: CopyPlan
    partitions_elsewhere: int  # without a replica in the directory
    brokers_below: int  # that share the directory; 0 if it belongs to one


class TreeHome:
    """The directory of a tree, locked together with those of its brokers."""

    def __init__(
        self, file_system: FileSystem, directory: str, brokers: dict[str, MetaProperties]
    ) -> None:
        """`brokers` are those with data here, by directory."""
        self.directory = directory
        self._file_system = file_system
        self._brokers = brokers

    async def export_to(self, ensemble: Tree, connect: str, options: MoveOptions) -> Move:
        """Copy the tree to an ensemble; from then on the brokers here start there.

        Raises CopyRefusedError, StartError, TreeUnavailableError, CorruptTreeError, StorageError.
        """
        if not has_tree(self._file_system, self.directory):
            raise StartError(f"{self.directory} has no tree to export")
        files = UnwrittenFiles(TreeDirectory(self._file_system, self.directory))
        source = await read_tree(EmbeddedTree(SystemClock(), files).session())
        if files.is_changed(DAMAGED_NAME):
            raise StartError(
                f"the tree of {self.directory} is damaged, and a copy would lack what was changed "
                "last: start its broker once, which keeps the damaged file, and export then"
            )
        target = await read_tree(ensemble, options.progress)
        self._refuse_past_tree(target)
        plan = plan_copy(source, target, replace=options.replace)
        move = self._move(source, plan)
        if not options.dry_run:
            location = TreeLocation(connect, plan.cluster_id)
            await carry_out(ensemble, plan, options.progress, lambda: self._leave_word(location))
        return move

    async def import_from(self, ensemble: Tree, connect: str, options: MoveOptions) -> Move:
        """Copy the tree of an ensemble here; from then on the brokers start without it.

        Raises as `export_to`.
        """
        source = await read_tree(ensemble, options.progress)
        self._check_cluster(source)
        directory = TreeDirectory(self._file_system, self.directory)
        files = UnwrittenFiles(directory) if options.dry_run else directory
        store = EmbeddedTree(SystemClock(), files)
        try:
            target = await read_tree(store.session())
            is_past = read_location(self._file_system, self.directory) is not None
            plan = plan_copy(source, target, replace=options.replace or is_past)
            if not options.dry_run:
                self._leave_word(TreeLocation(connect, plan.cluster_id))
                await carry_out(store.session(), plan, options.progress)
        finally:
            store.close()
        if not options.dry_run:
            for path in (self.directory, *self._brokers):
                remove_location(self._file_system, path)
        return self._move(source, plan)

    def _refuse_past_tree(self, target: TreeImage) -> None:
        """Refuse a tree that was exported already, unless that export broke off."""
        location = read_location(self._file_system, self.directory)
        if location is not None and target.broken_off is None:
            raise StartError(
                f"the tree of {self.directory} was exported already, to {location.zookeeper}; what "
                "is left of it here is out of date"
            )

    def _check_cluster(self, source: TreeImage) -> None:
        if not self._brokers:
            raise StartError(
                f"{self.directory} is not a broker's data directory (there is no meta.properties "
                f"in it, nor in {BROKER_DIRECTORY}... below it)"
            )
        for path, meta in self._brokers.items():
            if source.cluster_id is not None and meta.cluster_id != source.cluster_id:
                raise StartError(
                    f"{path} belongs to cluster {meta.cluster_id}, the ensemble has cluster "
                    f"{source.cluster_id}: check the address with its chroot, or the directory"
                )

    def _leave_word(self, location: TreeLocation) -> None:
        for path in (self.directory, *self._brokers):
            if read_location(self._file_system, path) != location:
                write_location(self._file_system, path, location)

    def _move(self, image: TreeImage, plan: CopyPlan) -> Move:
        ids = [meta.broker_id for meta in self._brokers.values() if meta.broker_id is not None]
        below = len(self._brokers.keys() - {self.directory})
        return Move(image, plan, image.partitions_without(ids), below)


@contextmanager
def locked_home(file_system: FileSystem, directory: str) -> Iterator[TreeHome]:
    """Hold the directory, and those of its brokers, as a broker holds them.

    Raises StartError for one that is in use, or that is not there.
    """
    directory = directory.rstrip("/") or "/"
    if not file_system.is_directory(directory):
        raise StartError(f"{directory} is not a directory")
    try:
        names = brokers_in(file_system, directory)
        paths = [directory, *(f"{directory}/{name}" for name in names)]
        with ExitStack() as locks:
            for path in paths:
                lock = file_system.lock(f"{path}/{LOCK_FILE}")
                if lock is None:
                    raise StartError(
                        f"{path} is in use by a running broker: stop that one first",
                        Trouble.DIRECTORY_IN_USE,
                    )
                locks.callback(lock.release)
            found = {path: read_meta_properties(file_system, path) for path in paths}
            brokers = {path: meta for path, meta in found.items() if meta is not None}
            yield TreeHome(file_system, directory, brokers)
    except (StorageError, CheckpointError) as error:
        raise unusable(directory, error) from error
