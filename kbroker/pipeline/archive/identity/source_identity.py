"""How records that took the places of archived ones are noticed. Pure.

Offsets alone do not tell: after an unclean leader election a partition may have lost its tail and
grown beyond it again. Every leader has an epoch, and what it writes begins behind what it found: so
an archived record is still there as long as its epoch, or an older one, goes up to behind it
(KIP-101, KIP-320; a Java consumer says LogTruncationException). The archive remembers an epoch that
none of its records is above: that of the leader before they were read.

A leader that lost records and stayed the leader keeps its epoch, as a lone broker may after a loss
of power; nor have old formats epochs. So a run also looks whether the newest archived record has
its time at the source still.

Law: who cannot answer is no proof of anything; only an answer that contradicts the archive is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kbroker.model import TopicPartition
from kbroker.pipeline.archive.manifests.manifest import EpochEntry

Epochs = Mapping[TopicPartition, int]


class SourceIdentity(Protocol):
    """Who knows the source. Partitions of which nothing is known are left out of answers."""

    def cluster_id(self) -> str | None:
        """Id of the cluster, None where none is known; raises PipelineError."""
        ...

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """The newest epoch of each; raises PipelineError."""
        ...

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """Where the records of an epoch and of all before it end; raises PipelineError."""
        ...

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Unix ms (-1: it has none) of the record at an offset; left out where none stands there,
        as compaction leaves it. Raises PipelineError.
        """
        ...


def replaced(
    known: Mapping[TopicPartition, EpochEntry], identity: SourceIdentity
) -> dict[TopicPartition, int]:
    """Partitions whose archived records the source no longer has, and from which offset on."""
    if not known:
        return {}
    ends = identity.end_offsets({each: entry.leader_epoch for each, entry in known.items()})
    return {each: end for each, end in sorted(ends.items()) if end < known[each].end_offset}


def replaced_sentence(entry: EpochEntry, path: str, diverged_offset: int) -> str:
    """What is said where the source has other records than the archive."""
    return (
        f"{entry.topic_partition} has other records than the archive {path} from offset "
        f"{diverged_offset} on, which goes up to {entry.end_offset}: the source lost those of "
        f"leader epoch {entry.leader_epoch} (an unclean leader election, or a log that was cut) "
        "and wrote others; --allow-loss keeps the archived ones and goes on behind them, another "
        "archive begins anew"
    )


def kept_sentence(entry: EpochEntry) -> str:
    """The same where a person wants to go on."""
    return (
        f"{entry.topic_partition}: the archive keeps records from offset {entry.replaced_from} on "
        "that the source has replaced with others"
    )
