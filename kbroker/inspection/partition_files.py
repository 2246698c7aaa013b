"""The files of a partition directory by kind: segments with their companions, files on their way in
or out, and files that are none of a log's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kbroker.inspection.data_directory import TEMPORARY_SUFFIX
from kbroker.log.disk.format import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_of,
)

LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)

_KNOWN_FILES = frozenset({LEADER_EPOCH_CHECKPOINT_FILE, PARTITION_METADATA_FILE, "quorum-state"})
_RAFT_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")  # end offset and epoch


@dataclass(slots=True)
class PartitionFiles:
    """Names in one directory; base offsets and snapshot offsets ascend."""

    base_offsets: list[int] = field(default_factory=list)
    snapshot_offsets: list[int] = field(default_factory=list)
    raft_snapshots: list[str] = field(default_factory=list)  # of KRaft's own log, the newest last
    names: frozenset[str] = frozenset()
    leftovers: list[str] = field(default_factory=list)  # .deleted, .cleaned, .swap
    orphans: list[str] = field(default_factory=list)  # indexes without their segment
    temporary: list[str] = field(default_factory=list)  # left by a write that was cut off
    foreign: list[str] = field(default_factory=list)

    @property
    def has_segments(self) -> bool:
        return bool(self.base_offsets)

    @property
    def has_log(self) -> bool:
        """True if any file is one of a log."""
        return bool(self.names - set(self.foreign))


def sort_files(names: Iterable[str]) -> PartitionFiles:
    """Sort the names in a partition directory by kind."""
    files = PartitionFiles(names=frozenset(names))
    for name in sorted(files.names):
        offset = offset_of(name)
        if name.endswith(LEFTOVER_SUFFIXES) and offset is not None:
            files.leftovers.append(name)
        elif offset is not None and name.endswith(LOG_SUFFIX):
            files.base_offsets.append(offset)
        elif offset is not None and name.endswith(PRODUCER_SNAPSHOT_SUFFIX):
            files.snapshot_offsets.append(offset)
        elif offset is not None and name.endswith(INDEX_SUFFIXES):
            if f"{name.partition('.')[0]}{LOG_SUFFIX}" not in files.names:
                files.orphans.append(name)
        elif name.endswith(TEMPORARY_SUFFIX):
            files.temporary.append(name)
        elif _RAFT_SNAPSHOT.fullmatch(name):
            files.raft_snapshots.append(name)
        elif name not in _KNOWN_FILES:
            files.foreign.append(name)
    return files
