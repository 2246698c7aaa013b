"""The leader epochs of one batch: known before it is read, held against the source after that.

So a leader that changed while the batch was read is noticed as well: what was there of the old
leader's records when the batch began has to be there still when it is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.model import TopicPartition
from kbroker.pipeline.archive.identity.source_identity import (
    Epochs,
    SourceIdentity,
    replaced,
    replaced_sentence,
)
from kbroker.pipeline.archive.manifests.archive_state import ArchiveState
from kbroker.pipeline.archive.manifests.manifest import EpochEntry
from kbroker.pipeline.cluster_errors import while_reachable
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.frame.offsets import Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEpochs:
    """Of the partitions of a batch."""

    identity: SourceIdentity
    archive: str
    known: Mapping[TopicPartition, EpochEntry]  # as the archive remembers them
    before: Epochs  # of the leaders when the batch began

    @classmethod
    def of(cls, identity: SourceIdentity, state: ArchiveState, ranges: Ranges) -> BatchEpochs:
        """Ask before the batch is read, after its end was chosen."""
        known = state.leader_epochs
        return cls(
            identity=identity,
            archive=state.path,
            known={each: known[each] for each in ranges if each in known},
            before=while_reachable(lambda: identity.leader_epochs(ranges), {}),
        )

    def _answers(self) -> tuple[Epochs, Epochs]:
        lost = replaced(self.known, self.identity)
        return lost, self.identity.end_offsets(self.before) if self.before else {}

    def held_against_source(self, ranges: Ranges, *, allows_loss: bool) -> tuple[EpochEntry, ...]:
        """What the archive is to remember; raises PipelineError where records were replaced."""
        nothing: tuple[Epochs, Epochs] = ({}, {})
        lost, ends = while_reachable(self._answers, nothing)
        for partition, offset in lost.items():
            if not allows_loss:
                sentence = replaced_sentence(self.known[partition], self.archive, offset)
                raise PipelineError(sentence)
        for partition, end in sorted(ends.items()):
            if end < ranges[partition].end:
                raise PipelineError(
                    f"{partition} lost records from offset {end} on while they were read (an "
                    "unclean leader election, or a log that was cut): nothing of the batch was "
                    "published; run again"
                )
        return tuple(
            EpochEntry(
                topic=partition.topic,
                partition=partition.partition,
                leader_epoch=self.before[partition],
                end_offset=ranges[partition].end,
                replaced_from=lost.get(partition, -1),
            )
            for partition in sorted(ends)
        )
