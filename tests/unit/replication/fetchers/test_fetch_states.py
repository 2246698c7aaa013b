from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.replication.fetchers.fetch_states import FetchState, FetchStates

ID = UUID(int=7)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def state(partition: TopicPartition = A, *, epoch: int = 3, truncating: bool = False) -> FetchState:
    return FetchState(
        topic_partition=partition,
        topic_id=ID,
        leader_epoch=epoch,
        fetch_offset=5,
        last_fetched_epoch=epoch - 1,
        log_start_offset=0,
        is_truncating=truncating,
    )


def with_states(*states: FetchState) -> FetchStates:
    found = FetchStates()
    for each in states:
        found.add(each)
    return found


def test_a_partition_is_named_once_and_again_when_it_has_moved() -> None:
    a, b = state(A), state(B)
    states = with_states(a, b)

    first = states.next_request(is_full=False)
    second = states.next_request(is_full=False)
    a.fetch_offset = 6
    states.moved(a)
    third = states.next_request(is_full=False)

    assert (first, second, third) == (([a, b], []), ([], []), ([a], []))


def test_a_full_request_names_all_that_are_fetched_and_forgets_nothing() -> None:
    a = state(A)
    states = with_states(a, state(B, truncating=True))
    states.next_request(is_full=False)
    states.remove(B)

    assert states.next_request(is_full=True) == ([a], [])
    assert not states.must_ask


def test_a_partition_that_is_taken_up_again_is_forgotten_before_it_is_asked_for() -> None:
    states = with_states(state(A))
    states.next_request(is_full=False)
    again = state(A, epoch=4)
    states.add(again)

    assert not states.is_expected(again), "an answer now is to the request before"
    assert states.next_request(is_full=False) == ([], [(A, ID)])
    assert states.must_hurry
    assert states.next_request(is_full=False) == ([again], [])
    assert states.is_expected(again)


def test_a_delayed_partition_is_left_out_until_its_time() -> None:
    a = state(A)
    states = with_states(a)
    states.next_request(is_full=False)
    states.delay(a, 100.0)

    assert (states.is_expected(a), states.has_fetching(), states.next_delay_ms(40.0)) == (
        False,
        False,
        60.0,
    )
    assert states.next_request(is_full=False) == ([], [(A, ID)])
    states.end_delays(99.0)
    assert states.next_request(is_full=False) == ([], [])
    states.end_delays(100.0)
    assert states.next_request(is_full=False) == ([a], [])


def test_a_truncating_partition_is_not_fetched_before_it_is_cut() -> None:
    a = state(A, truncating=True)
    states = with_states(a)

    assert (states.truncating(), states.has_fetching(), states.is_expected(a)) == (
        [a],
        False,
        False,
    )
    states.moved(a)
    assert (states.truncating(), states.next_request(is_full=False)) == ([], ([a], []))


def test_a_delayed_truncating_partition_waits_and_truncates_then() -> None:
    a = state(A, truncating=True)
    states = with_states(a)
    states.delay(a, 10.0)

    assert states.truncating() == []
    states.end_delays(10.0)
    assert states.truncating() == [a]


def test_topics_are_known_by_their_ids_while_one_partition_is_followed() -> None:
    states = with_states(state(A), state(B))
    states.remove(A)
    assert states.topic_name(ID) == "t"
    states.remove(B)
    assert states.topic_name(ID) is None


def test_one_that_has_moved_comes_after_the_others() -> None:
    a, b = state(A), state(B)
    states = with_states(a, b)
    states.moved(a)

    assert states.next_request(is_full=True) == ([b, a], [])


def test_all_are_truncated_once_more_and_forgotten_until_they_are() -> None:
    a, b = state(A), state(B)
    states = with_states(a, b)
    states.next_request(is_full=False)
    states.truncate_all()

    assert (states.truncating(), states.has_fetching()) == ([a, b], False)
    assert states.next_request(is_full=False) == ([], [(A, ID), (B, ID)])
    states.moved(a)
    assert (states.truncating(), states.next_request(is_full=False)) == ([b], ([a], []))


def test_topics_without_ids_are_noticed_while_they_are_followed() -> None:
    old = TopicPartition("old", 0)
    states = with_states(state(A), replace(state(old), topic_id=ZERO_UUID))
    assert not states.have_ids
    states.remove(old)
    assert states.have_ids
