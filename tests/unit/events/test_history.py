"""How much of what happened is remembered, and for how long."""

from __future__ import annotations

from kbroker.events.event import Event
from kbroker.events.group_events import CoordinatorMoved
from kbroker.events.history import EACH, FORGOTTEN_AFTER_MS, TOTAL_BYTES, EventHistory
from kbroker.events.partition_events import LeaderCause, LeaderChange
from kbroker.model import TopicPartition


def of_group(group: str, generation: int = 0) -> Event:
    return CoordinatorMoved(group=group, generation_id=generation, members=1, is_here=True)


def of_partition(partition: int) -> LeaderChange:
    return LeaderChange(
        topic_partition=TopicPartition("t", partition),
        before=1,
        leader=2,
        leader_epoch=1,
        isr=(2,),
        why=LeaderCause.PREFERRED,
    )


def test_each_group_and_partition_has_its_last_events_in_order() -> None:
    history = EventHistory()
    for generation in range(EACH + 5):
        history.add(of_group("g", generation), generation)
    elected = of_partition(3)
    history.add(elected, 100)

    kept = history.of_group("g", 100)

    assert [noted.at_ms for noted in kept] == list(range(5, EACH + 5))
    assert [noted.event for noted in history.of_partition(elected.topic_partition, 100)] == [
        elected
    ]
    assert history.of_group("other", 100) == []
    assert history.of_partition(TopicPartition("t", 4), 100) == []
    assert [noted.at_ms for noted in history.recent(100, most=2)] == [EACH + 4, 100]


def test_what_nothing_has_happened_to_for_longest_is_forgotten_first() -> None:
    history = EventHistory()
    history.add(of_group("busy"), 0)
    for number in range(10_000):
        history.add(of_group(f"g{number}"), number)
        history.add(of_group("busy"), number)

    assert len(history) < 2_200
    assert history.of_group("g0", 10_000) == []
    assert len(history.of_group("g9999", 10_000)) == 1
    assert len(history.of_group("busy", 10_000)) == EACH


def test_long_names_push_others_out_and_none_of_them_stays_beyond_the_bound() -> None:
    history = EventHistory()
    for number in range(1_000):
        history.add(of_group(f"{number}" + "x" * 30_000), number)

    assert len(history) < 140
    history.add(of_group("y" * 5_000_000), 0)
    assert len(history) == 0


def test_names_of_groups_that_are_made_again_and_again_stay_within_the_bound() -> None:
    history = EventHistory()
    for number in range(1_000):
        history.add(of_group(f"{number % 50}".ljust(30_000, "x")), number)

    assert len(history) * 30_000 < TOTAL_BYTES


def test_what_is_older_than_a_day_is_not_shown() -> None:
    history = EventHistory()
    history.add(of_group("g"), 0)

    assert len(history.of_group("g", FORGOTTEN_AFTER_MS - 1)) == 1
    assert history.of_group("g", FORGOTTEN_AFTER_MS) == []
    assert history.recent(FORGOTTEN_AFTER_MS) == []
