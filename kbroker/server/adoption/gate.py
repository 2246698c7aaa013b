"""Finds out whether a start meets data that Apache Kafka wrote; if so, `adoption` is asked.

Law: a directory whose tree has a cluster id is kbroker's own. A start over such a directory, or
over an empty one, neither looks further nor loads what an adoption needs: every start would pay for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import parse_directory_name
from kbroker.server.adoption.adopt_option import AdoptOption
from kbroker.server.metadata_tree.tree_location import has_tree
from kbroker.zk import zk_paths
from kbroker.zk.zk_utils import ZkUtils

if TYPE_CHECKING:
    from kbroker.server.adoption.adoption import Adoption


class AdoptionGate:
    """One start's look at its data directories."""

    def __init__(self, wish: AdoptOption, file_system: FileSystem) -> None:
        self._wish = wish
        self._file_system = file_system

    def check_agreed(self) -> None:
        """Refuse directories of Apache Kafka before anything is locked or written.

        Raises AdoptionNeededError, LogDirectoryError.
        """
        first, *others = self._wish.paths
        if has_tree(self._file_system, first):
            return
        for other in others:
            if has_tree(self._file_system, other):
                raise LogDirectoryError(
                    f"The topics of {', '.join(self._wish.paths)} are in the tree in {other}: name "
                    "that directory first in log.dirs"
                )
        if not self._wish.is_agreed and self._may_hold_partitions():
            self._adoption().check_agreed()

    async def carry_out(self, zk: ZkUtils) -> str:
        """Take over the topics, under the directories' locks. Returns the sentence for an operator
        who asked for it.

        Raises AdoptionNeededError, LogDirectoryError, ConfigError.
        """
        is_own = await zk.tree.exists(zk_paths.CLUSTER_ID) is not None
        if not is_own and self._may_hold_partitions():
            return await self._adoption().carry_out(zk)
        reason = "has a tree of kbroker already" if is_own else "holds no partitions"
        return f"--adopt has no effect: {', '.join(self._wish.paths)} {reason}"

    def _may_hold_partitions(self) -> bool:
        """True if a name is one of a partition."""
        try:
            return any(
                parse_directory_name(name) is not None
                for path in self._wish.paths
                if self._file_system.is_directory(path)
                for name in self._file_system.list(path)
            )
        except StorageError as error:
            raise LogDirectoryError(f"A data directory cannot be used: {error}") from error

    def _adoption(self) -> Adoption:
        # Loaded here: 12 ms and half a megabyte that only data of Apache Kafka has to pay for.
        from kbroker.server.adoption.adoption import Adoption

        return Adoption(self._wish, self._file_system)
