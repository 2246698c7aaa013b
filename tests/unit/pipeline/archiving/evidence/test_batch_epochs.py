"""Leader epochs around a batch: what was replaced before it, and while it was read."""

from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.same_source import BatchEpochs
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.manifest import EpochNote
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.fakes.clusters.source_identity import KnownIdentity

T0 = TopicPartition("t", 0)
NEXT = {T0: OffsetRange(20, 30)}


def entry(epoch: int, end_offset: int, replaced_from: int = -1) -> EpochNote:
    return EpochNote(
        topic="t",
        partition=0,
        leader_epoch=epoch,
        end_offset=end_offset,
        replaced_from=replaced_from,
    )


def archived(*entries: EpochNote) -> ArchiveState:
    known = {each.topic_partition: each for each in entries}
    return ArchiveState(path="/archive", archive_id="a", leader_epochs=known)


def test_the_epoch_before_the_batch_is_remembered_with_its_end() -> None:
    source = KnownIdentity({T0: [(1, 0), (5, 9)]})

    epochs = BatchEpochs.of(source, archived(), NEXT)

    assert epochs.held_against_source(NEXT, allows_loss=False) == (entry(5, 30),)


def test_leaders_that_changed_and_lost_nothing_are_no_news() -> None:
    source = KnownIdentity({T0: [(3, 0), (4, 20)]})
    epochs = BatchEpochs.of(source, archived(entry(3, 20)), NEXT)

    source.epochs[T0] = [(3, 0), (4, 20), (6, 30)]

    assert epochs.held_against_source(NEXT, allows_loss=False) == (entry(4, 30),)


def test_archived_records_that_were_replaced_end_the_job_unless_that_is_allowed() -> None:
    source = KnownIdentity({T0: [(3, 0), (4, 12)]})
    epochs = BatchEpochs.of(source, archived(entry(3, 20)), NEXT)

    with pytest.raises(PipelineError, match=r"has other records than .* from offset 12 on"):
        epochs.held_against_source(NEXT, allows_loss=False)
    noted = epochs.held_against_source(NEXT, allows_loss=True)
    assert noted == (entry(4, 30, replaced_from=12),)
    assert BatchEpochs.of(source, archived(*noted), {T0: OffsetRange(30, 40)}).held_against_source(
        {T0: OffsetRange(30, 40)}, allows_loss=False
    ) == (entry(4, 40),)


def test_records_that_are_replaced_while_they_are_read_are_not_published() -> None:
    source = KnownIdentity({T0: [(3, 0)]})
    epochs = BatchEpochs.of(source, archived(entry(3, 20)), NEXT)

    source.epochs[T0] = [(3, 0), (4, 26)]

    with pytest.raises(PipelineError, match=r"lost records from offset 26 on while .* run again"):
        epochs.held_against_source(NEXT, allows_loss=True)


def test_who_does_not_answer_proves_nothing() -> None:
    unknown = KnownIdentity()
    restarting = KnownIdentity({T0: [(3, 0), (4, 12)]})
    known = archived(entry(3, 20))

    epochs = BatchEpochs.of(unknown, known, NEXT)
    assert epochs.held_against_source(NEXT, allows_loss=False) == ()
    epochs = BatchEpochs.of(restarting, known, NEXT)
    restarting.is_reachable = False
    assert epochs.held_against_source(NEXT, allows_loss=False) == ()
    assert BatchEpochs.of(restarting, known, NEXT).before == {}
