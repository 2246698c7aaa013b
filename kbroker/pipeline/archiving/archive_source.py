"""A source that goes on where an archive ends.

A new checkpoint begins there too: the archive knows what it has, so a lost checkpoint loses nothing
and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.archive_job import loss_sentence
from kbroker.pipeline.archiving.evidence.same_source import (
    SourceIdentity,
    newest_records,
    other_record_sentence,
    other_records,
    replaced,
    replaced_sentence,
)
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.continuity import named_places
from kbroker.pipeline.spark_job.offsets import Offsets
from kbroker.pipeline.spark_job.source import Source


class ArchivableSource(Source, Protocol):
    """A source that can be archived."""

    def chooses(self, topic: str) -> bool:
        """Return whether a topic of this name would be read if it existed."""
        ...


class ContinuedSource:
    """Another source, with the ends of an archive as its beginnings. `state` None: no archive yet.

    Offsets that retention took between the two are refused, or read all the same with
    `allows_loss`: the batch finds them missing, and says why.
    """

    def __init__(
        self,
        inner: ArchivableSource,
        state: ArchiveState | None,
        *,
        allows_loss: bool,
        identity: SourceIdentity,
    ) -> None:
        self.inner = inner
        self.needs_connector = inner.needs_connector
        self.bounds_itself = inner.bounds_itself
        self.describe, self.topic_ids = inner.describe, inner.topic_ids
        self.latest, self.log_ends = inner.latest, inner.log_ends
        self.stream, self.batch = inner.stream, inner.batch
        self.fails_on_data_loss = False  # `check` compares with the archive, not the checkpoint
        self._state = state
        self._allows_loss = allows_loss
        self._identity = identity

    def earliest(self) -> Offsets:
        """Return the ends of the archive, and the log starts of what is not in it."""
        earliest = self.inner.earliest()
        if self._state is None:
            return earliest
        ends = {partition: self._state.end_offset(partition) for partition in earliest}
        return {
            partition: offset if (end := ends[partition]) is None else end
            for partition, offset in earliest.items()
        }

    def check(self) -> tuple[str, ...]:
        """Raise PipelineError if the source is not the one that was archived, or no longer has what
        the archive needs next. Return sentences for a person on what else it lacks.
        """
        if self._state is None:
            return ()
        topic_ids = self.inner.topic_ids()
        self._state.refuse_other_topics(topic_ids)
        ends = self.inner.log_ends()
        topics = {partition.topic for partition in ends}
        self._state.refuse_other_cluster(topics, topic_ids, self._identity.cluster_id())
        self._check_offsets(self._state, ends)
        notes = self._other_records(self._state, ends)
        if notes and not self._allows_loss:
            raise PipelineError(notes[0], trouble=Trouble.ARCHIVE)
        gone = [
            partition
            for partition in self._state.partitions()
            if partition not in ends and self.inner.chooses(partition.topic)
        ]
        if gone:
            notes.append(gone_sentence(gone, self._state.path))
        return tuple(notes)

    def check_checkpoint(self, start: Offsets, position: Offsets) -> None:
        """Raise PipelineError if a checkpoint that began at `start` goes on beyond the end of the
        archive: what is between was archived elsewhere, or the archive is an older copy. The same
        for what the source has lost since of a partition that the archive has nothing of.
        """
        for partition, offset in sorted(position.items()):
            end_offset = self._state.end_offset(partition) if self._state is not None else None
            if offset > max(end_offset or 0, start.get(partition, 0)):
                has = f"ends at {end_offset}" if end_offset is not None else "has nothing of it"
                raise PipelineError(
                    f"the checkpoint continues at offset {offset} of {partition}, and the archive "
                    f"{has}: give the archive that belongs to the checkpoint, or begin with a new "
                    "--checkpoint, which continues where the archive ends",
                    trouble=Trouble.CHECKPOINT,
                )

        has_nothing = [
            partition
            for partition in sorted(position)
            if self._state is None or self._state.end_offset(partition) is None
        ]
        if not has_nothing or self._allows_loss:
            return
        earliest = self.inner.earliest()
        for partition in has_nothing:
            if (first := earliest.get(partition, 0)) > position[partition]:
                raise PipelineError(
                    loss_sentence(partition, position[partition], first - 1),
                    trouble=Trouble.ARCHIVE,
                )

    def _check_offsets(self, state: ArchiveState, ends: Offsets) -> None:
        for partition, offset in self.inner.earliest().items():
            end_offset = state.end_offset(partition)
            if end_offset is None:
                continue
            if end_offset < offset and not self._allows_loss:
                raise PipelineError(
                    loss_sentence(partition, end_offset, offset - 1), trouble=Trouble.ARCHIVE
                )
            if partition in ends and ends[partition] < end_offset:
                raise PipelineError(
                    f"{partition} ends at offset {ends[partition]}, and the archive "
                    f"{state.path} goes up to {end_offset}: the topic was deleted and created "
                    "again, its log was cut, or it is another cluster's; give it another archive",
                    trouble=Trouble.ARCHIVE,
                )

    def _other_records(self, state: ArchiveState, ends: Offsets) -> list[str]:
        """Return a sentence for each partition that has other records in place of archived ones."""
        known = {each: state.leader_epochs[each] for each in ends if each in state.leader_epochs}
        lost = replaced(known, self._identity)
        newest = newest_records(state, ends.keys() - lost.keys())
        others = other_records(newest, self._identity)
        return [
            *(replaced_sentence(known[each], state.path, at) for each, at in lost.items()),
            *(other_record_sentence(at, newest[at], state.path, ms) for at, ms in others.items()),
        ]


def gone_sentence(partitions: Sequence[TopicPartition], path: str) -> str:
    """Return a sentence about partitions that only the archive has."""
    return (
        f"{named_places(partitions)}: in the archive {path}, and not at the source: was a disk "
        "left out of --data, or a topic deleted? None of them is archived now"
    )
