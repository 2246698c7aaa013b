"""Where groups go on that read what was restored."""

from __future__ import annotations

from kbroker.model import TopicPartition
from kbroker.pipeline.restoring.restore_plan import PartitionPlan
from kbroker.pipeline.restoring.topics.moved_groups import places
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun

PLANS = [
    PartitionPlan(
        source=TopicPartition(source, number), target=TopicPartition(target, number), files=()
    )
    for source, target in (("t", "t"), ("u", "other"))
    for number in (0, 1)
]
RUNS = {
    TopicPartition("t", 0): [OffsetRun(10, 0, 5), OffsetRun(20, 7, 5)],
    TopicPartition("other", 1): [OffsetRun(0, 100, 50)],
}


def test_each_goes_on_at_the_record_it_would_have_read() -> None:
    groups = {
        "a": {"t": {0: 12}, "u": {1: 3}},
        "before": {"t": {0: 2}},
        "between": {"t": {0: 17}},
        "behind": {"t": {0: 25}},
        "ahead": {"t": {0: 999}},
    }

    assert places(groups, PLANS, RUNS) == {
        "a": {TopicPartition("t", 0): 2, TopicPartition("other", 1): 103},
        "before": {TopicPartition("t", 0): 0},
        "between": {TopicPartition("t", 0): 7},
        "behind": {TopicPartition("t", 0): 12},
        "ahead": {TopicPartition("t", 0): 12},
    }


def test_a_partition_without_records_has_no_place_and_others_are_left_out() -> None:
    groups = {"a": {"t": {0: 12, 1: 5, 2: 9}, "elsewhere": {0: 1}}, "b": {"elsewhere": {0: 1}}}

    assert places(groups, PLANS, RUNS) == {
        "a": {TopicPartition("t", 0): 2, TopicPartition("t", 1): None}
    }
