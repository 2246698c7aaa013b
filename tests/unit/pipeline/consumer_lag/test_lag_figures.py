"""Rates, lag in records and seconds, and who falls behind: from looks, without a cluster."""

from __future__ import annotations

from dataclasses import replace

from kbroker.client.consumer_groups import ConsumerGroup, GroupMember
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.cluster_look import ClusterLook, PartitionLook
from kbroker.pipeline.consumer_lag.lag_figures import group_figures, partition_figures, standings
from kbroker.pipeline.consumer_lag.record_times import Times

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000


def partition(end: int | None = 100, start: int = 0, recent: int | None = 40) -> PartitionLook:
    return PartitionLook(
        start_offset=start, end_offset=end, window_offset=recent, newest_ms=900_000, size_bytes=7
    )


def group(name: str, committed: dict[TopicPartition, int | None]) -> ConsumerGroup:
    member = GroupMember(member_id="m", client_id="c", host="/h")
    return ConsumerGroup(name=name, state="Stable", members=(member,), committed=committed)


def look(
    *groups: ConsumerGroup,
    partitions: dict[TopicPartition, PartitionLook] | None = None,
    times: Times | None = None,
    taken_ms: int = NOW_MS,
) -> ClusterLook:
    return ClusterLook(
        taken_ms=taken_ms,
        window_ms=60_000,
        partitions=partitions or {P0: partition()},
        groups={each.name: each for each in groups},
        states={},
        record_times=times or {},
        unknown_topics=(),
        unknown_groups=(),
    )


def test_a_rate_is_what_was_written_within_the_window() -> None:
    (row,) = partition_figures(look(), None)

    assert row.records_per_s == 1.0


def test_with_an_earlier_look_a_rate_is_what_was_added() -> None:
    before = look(partitions={P0: partition(end=80)}, taken_ms=NOW_MS - 10_000)

    (row,) = partition_figures(look(), before)

    assert row.records_per_s == 2.0


def test_a_topic_made_anew_between_looks_goes_by_the_window() -> None:
    before = look(partitions={P0: partition(end=500)}, taken_ms=NOW_MS - 10_000)

    (row,) = partition_figures(look(), before)

    assert row.records_per_s == 1.0


def test_a_partition_that_does_not_answer_has_no_figures() -> None:
    found = look(group("g", {P0: 5}), partitions={P0: partition(end=None, recent=None)})

    (row,) = partition_figures(found, None)
    (reader,) = group_figures(found, None)

    assert (row.end_offset, row.records_per_s) == (None, None)
    assert (reader.lag, reader.lag_s, reader.catch_up_s) == (None, None, None)


def test_lag_in_seconds_is_from_the_next_record_to_the_newest() -> None:
    (row,) = group_figures(look(group("g", {P0: 60}), times={(P0, 60): 850_500}), None)

    assert (row.lag, row.lag_s) == (40, 49.5)


def test_at_the_end_nothing_is_behind() -> None:
    (row,) = group_figures(look(group("g", {P0: 100})), None)

    assert (row.lag, row.lag_s, row.catch_up_s) == (0, 0.0, 0.0)


def test_beyond_the_end_nothing_is_behind_either() -> None:
    (row,) = group_figures(look(group("g", {P0: 120})), None)

    assert (row.lag, row.lag_s) == (0, 0.0)


def test_holes_and_markers_up_to_the_end_are_no_time_behind() -> None:
    (row,) = group_figures(look(group("g", {P0: 98}), times={(P0, 98): None}), None)

    assert (row.lag, row.lag_s) == (2, 0.0)


def test_a_record_newer_than_the_newest_is_no_negative_time() -> None:
    (row,) = group_figures(look(group("g", {P0: 98}), times={(P0, 98): 900_001}), None)

    assert row.lag_s == 0.0


def test_where_retention_overtook_a_group_time_counts_from_the_first_record_left() -> None:
    found = look(
        group("g", {P0: 5}), partitions={P0: partition(start=50)}, times={(P0, 50): 890_000}
    )

    (row,) = group_figures(found, None)

    assert (row.lag, row.lag_s) == (95, 10.0)


def test_a_record_that_did_not_come_in_time_leaves_the_seconds_open() -> None:
    (row,) = group_figures(look(group("g", {P0: 60})), None)

    assert (row.lag, row.lag_s) == (40, None)


def test_a_partition_without_commit_has_no_lag() -> None:
    (row,) = group_figures(look(group("g", {P0: None})), None)

    assert (row.committed_offset, row.lag, row.lag_s) == (None, None, None)


def test_the_time_to_catch_up_is_lag_over_the_difference_of_rates() -> None:
    before = look(
        group("g", {P0: 10}), partitions={P0: partition(end=80)}, taken_ms=NOW_MS - 10_000
    )

    (row,) = group_figures(look(group("g", {P0: 60})), before)

    assert (row.consumed_per_s, row.produced_per_s, row.catch_up_s) == (5.0, 2.0, 13.3)


def test_a_group_that_reads_slower_than_is_written_never_catches_up() -> None:
    before = look(
        group("g", {P0: 59}), partitions={P0: partition(end=80)}, taken_ms=NOW_MS - 10_000
    )
    found = look(group("g", {P0: 60}))

    (row,) = group_figures(found, before)
    (standing,) = standings([row], found)

    assert (row.catch_up_s, standing.falls_behind) == (None, True)


def test_a_group_that_went_back_has_no_rate() -> None:
    before = look(group("g", {P0: 90}), taken_ms=NOW_MS - 10_000)

    (row,) = group_figures(look(group("g", {P0: 10})), before)

    assert (row.consumed_per_s, row.catch_up_s) == (None, None)


def test_who_owns_a_partition_is_told() -> None:
    owner = GroupMember(member_id="m", client_id="c", host="/h", partitions=(P0,))
    found = look(replace(group("g", {P0: 1}), members=(owner,)))

    (row,) = group_figures(found, None)

    assert (row.member, row.client_id, row.host, row.state) == ("m", "c", "/h", "Stable")


def test_a_partition_outside_of_the_look_is_left_out() -> None:
    assert [row.partition for row in group_figures(look(group("g", {P0: 1, P1: 1})), None)] == [0]


def test_the_furthest_behind_in_time_comes_first_then_in_records() -> None:
    found = look(
        group("near", {P0: 60}),
        group("far", {P0: 80}),
        group("unknown", {P0: 10}),
        times={(P0, 60): 899_000, (P0, 80): 890_000},
    )

    ranking = standings(group_figures(found, None), found)

    assert [(row.group, row.lag) for row in ranking] == [("far", 20), ("near", 40), ("unknown", 90)]


def test_partitions_of_a_topic_are_summed_and_the_worst_time_counts() -> None:
    found = look(
        group("g", {P0: 60, P1: 70}),
        partitions={P0: partition(), P1: partition()},
        times={(P0, 60): 899_000, (P1, 70): 890_000},
    )

    (standing,) = standings(group_figures(found, None), found)

    assert (standing.partitions, standing.lag, standing.lag_s) == (2, 70, 10.0)
    assert (standing.produced_per_s, standing.falls_behind) == (2.0, None)
