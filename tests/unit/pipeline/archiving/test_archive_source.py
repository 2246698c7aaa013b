"""Where a run begins: at the end of the archive, or of nothing at the beginning of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.archive_source import ContinuedSource
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.manifest import EpochNote
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import Offsets
from tests.fakes.clusters.source_identity import KnownIdentity

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOTHING_KNOWN = KnownIdentity()


class Log:
    """A source of two partitions."""

    needs_connector = False
    bounds_itself = True
    fails_on_data_loss = True

    def __init__(self, start: int = 0, end: int = 50, topic_id: str | None = None) -> None:
        self.start, self.end = start, end
        self.ids = {"t": topic_id} if topic_id else {}

    def describe(self) -> str:
        return "a log"

    def chooses(self, topic: str) -> bool:
        return topic == "t"

    def topic_ids(self) -> Mapping[str, str]:
        return self.ids

    def earliest(self) -> Offsets:
        return {T0: self.start, T1: self.start}

    def latest(self) -> Offsets:
        return {T0: self.end, T1: self.end}

    def log_ends(self) -> Offsets:
        return self.latest()

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        raise NotImplementedError

    def batch(self, spark: Any, ranges: Any) -> Any:
        raise NotImplementedError


def archive(end: int) -> ArchiveState:
    return ArchiveState(path="/archive", archive_id="a", ranges={T0: (Stretch(0, end),)})


def test_without_an_archive_a_run_begins_where_the_log_does() -> None:
    source = ContinuedSource(Log(3), None, allows_loss=False, identity=NOTHING_KNOWN)

    source.check()
    assert source.earliest() == {T0: 3, T1: 3}


def test_what_is_archived_is_not_read_again() -> None:
    source = ContinuedSource(Log(3), archive(20), allows_loss=False, identity=NOTHING_KNOWN)

    source.check()
    assert source.earliest() == {T0: 20, T1: 3}


def test_a_broker_that_was_started_anew_is_not_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(end=20)
    monkeypatch.setattr(log, "latest", lambda: {T0: 15, T1: 0})
    monkeypatch.setattr(log, "log_ends", lambda: {T0: 20, T1: 0})

    assert (
        ContinuedSource(log, archive(20), allows_loss=False, identity=NOTHING_KNOWN).check() == ()
    )


def test_what_retention_took_since_is_refused_unless_that_is_allowed() -> None:
    with pytest.raises(PipelineError, match="offsets 20 to 29 of t-0 were deleted at the source"):
        ContinuedSource(Log(30), archive(20), allows_loss=False, identity=NOTHING_KNOWN).check()

    allowed = ContinuedSource(Log(30), archive(20), allows_loss=True, identity=NOTHING_KNOWN)
    allowed.check()
    assert allowed.earliest() == {T0: 20, T1: 30}


def test_a_log_that_ends_before_the_archive_is_another_one() -> None:
    with pytest.raises(PipelineError, match="t-0 ends at offset 10, and the archive /archive goes"):
        ContinuedSource(Log(0, 10), archive(20), allows_loss=True, identity=NOTHING_KNOWN).check()


def test_a_topic_made_anew_is_refused_though_it_has_grown_beyond_the_archive() -> None:
    known = archive(20)
    known.topic_ids["t"] = "id-1"

    with pytest.raises(PipelineError, match=r"it was deleted and created again.* another archive"):
        ContinuedSource(Log(0, 50, "id-2"), known, allows_loss=True, identity=NOTHING_KNOWN).check()
    ContinuedSource(Log(0, 50, "id-1"), known, allows_loss=False, identity=NOTHING_KNOWN).check()
    ContinuedSource(Log(0, 50), known, allows_loss=False, identity=NOTHING_KNOWN).check()


@pytest.mark.parametrize(("ids", "is_refused"), [({}, True), ({"t": "id-1"}, False)])
def test_the_cluster_tells_topics_apart_that_have_no_id(
    ids: dict[str, str], is_refused: bool
) -> None:
    known = archive(20)
    known.cluster_ids["t"] = "one"
    known.topic_ids |= ids
    other = KnownIdentity(cluster="other")
    source = ContinuedSource(Log(0, 50, ids.get("t")), known, allows_loss=True, identity=other)

    if is_refused:
        with pytest.raises(
            PipelineError, match="topic t belongs to cluster other, and the archive"
        ):
            source.check()
    else:
        source.check()


def replaced_log(*, allows_loss: bool) -> ContinuedSource:
    """Archived up to 20 under epoch 3; epoch 4 began at 12."""
    known = archive(20)
    known.leader_epochs[T0] = EpochNote(topic="t", partition=0, leader_epoch=3, end_offset=20)
    identity = KnownIdentity({T0: [(3, 0), (4, 12)]})
    return ContinuedSource(Log(), known, allows_loss=allows_loss, identity=identity)


def test_records_that_took_the_places_of_archived_ones_are_told_with_their_offset() -> None:
    sentence = (
        r"t-0 has other records than the archive /archive from offset 12 on, which goes up to 20"
        r".*leader epoch 3.*--allow-loss"
    )
    with pytest.raises(PipelineError, match=sentence):
        replaced_log(allows_loss=False).check()
    (note,) = replaced_log(allows_loss=True).check()
    assert note.startswith("t-0 has other records than the archive")


def test_partitions_that_only_the_archive_has_are_noted() -> None:
    known = archive(20)
    for place in (TopicPartition("t", 2), TopicPartition("other", 0)):
        known.ranges[place] = (Stretch(0, 5),)
    source = ContinuedSource(Log(), known, allows_loss=False, identity=NOTHING_KNOWN)

    (note,) = source.check()

    assert note.startswith("t-2: in the archive /archive, and not at the source: was a disk left")


@pytest.mark.parametrize(
    ("state", "position", "said"),
    [
        (archive(20), {T0: 21, T1: 3}, "continues at offset 21 of t-0, and the archive ends at 20"),
        (archive(20), {T0: 20, T1: 4}, "offset 4 of t-1, and the archive has nothing of it"),
        (None, {T0: 5}, "offset 5 of t-0, and the archive has nothing of it"),
    ],
)
def test_a_checkpoint_that_is_ahead_of_the_archive_is_refused(
    state: ArchiveState | None, position: Offsets, said: str
) -> None:
    source = ContinuedSource(Log(), state, allows_loss=True, identity=NOTHING_KNOWN)

    with pytest.raises(PipelineError, match=said):
        source.check_checkpoint({T1: 3}, position)


@pytest.mark.parametrize("position", [{}, {T0: 20, T1: 3}, {T0: 12}])
def test_a_checkpoint_at_the_end_of_the_archive_or_before_it_fits(position: Offsets) -> None:
    source = ContinuedSource(Log(), archive(20), allows_loss=False, identity=NOTHING_KNOWN)

    source.check_checkpoint({T1: 3}, position)


@pytest.mark.parametrize("state", [None, archive(20)])
def test_what_was_deleted_after_a_first_batch_was_cut_off_is_named(
    state: ArchiveState | None,
) -> None:
    """Its checkpoint begins there, and the archive has nothing of the partition yet."""
    position = {T1: 5} if state else {T0: 20, T1: 5}
    source = ContinuedSource(Log(8), state, allows_loss=False, identity=NOTHING_KNOWN)

    with pytest.raises(PipelineError, match="offsets 5 to 7 of t-1 were deleted at the source"):
        source.check_checkpoint(position, position)
    allowed = ContinuedSource(Log(8), state, allows_loss=True, identity=NOTHING_KNOWN)
    allowed.check_checkpoint(position, position)
