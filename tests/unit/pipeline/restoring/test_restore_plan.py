"""What a restore has to do, as it follows from a wish and an archive."""

from __future__ import annotations

from itertools import combinations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.restoring.restore_plan import RestoreChoice, plan_restore

STATE = ArchiveState(
    path="/archive",
    archive_id="id",
    ranges={
        TopicPartition(topic, number): (Stretch(0, 9),)
        for topic, number in (("t", 0), ("t", 1), ("u", 0))
    },
)


def wished(**wanted: object) -> RestoreChoice:
    return RestoreChoice(wanted=ArchiveSelection(**wanted))  # type: ignore[arg-type]


def test_two_wishes_have_one_text_only_where_they_are_the_same() -> None:
    wishes = [
        RestoreChoice(),
        wished(start_ms=0),
        wished(end_ms=0),
        wished(partitions=(0,)),
        RestoreChoice(keys=frozenset({b""})),
        RestoreChoice(keys=frozenset({b"", b"a"})),
        RestoreChoice(keys=frozenset({b"a"})),
        RestoreChoice(renamed={"t": "u"}),
    ]

    for one, other in combinations(wishes, 2):
        assert one.text() != other.text(), (one, other)
    assert RestoreChoice().text() == ""


def test_a_partition_that_is_nowhere_in_the_archive_is_refused() -> None:
    plans = plan_restore(STATE, wished(partitions=(1,)))
    assert [plan.source for plan in plans] == [TopicPartition("t", 1)]

    with pytest.raises(PipelineError, match=r"has no partition 1, 7 of u: it has 0") as refused:
        plan_restore(STATE, wished(topics=("u",), partitions=(0, 1, 7)))
    assert refused.value.code is ExitCode.USAGE


def test_an_archive_without_topics_is_nothing_to_restore() -> None:
    empty = ArchiveState(path="/archive", archive_id="id")

    with pytest.raises(PipelineError, match="the archive /archive has no topics yet: "):
        plan_restore(empty, RestoreChoice())
