from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from kbroker.replication.fetchers.session_handler import FetchSessionHandler, SessionStep


def in_session() -> FetchSessionHandler:
    handler = FetchSessionHandler()
    assert handler.next == SessionStep(0, 0)
    assert handler.on_answer(0, 42)
    return handler


def test_a_session_counts_its_requests() -> None:
    handler = in_session()

    assert (handler.next, handler.next.is_full) == (SessionStep(42, 1), False)
    assert handler.on_answer(0, 42)
    assert handler.next == SessionStep(42, 2)


def test_the_count_goes_round_without_the_number_of_a_new_session() -> None:
    handler = in_session()
    handler.next = SessionStep(42, 2**31 - 1)

    handler.on_answer(0, 42)

    assert handler.next == SessionStep(42, 1)


def test_a_leader_without_room_is_asked_for_everything_each_time() -> None:
    handler = FetchSessionHandler()

    assert handler.on_answer(0, 0)
    assert handler.next == SessionStep(0, 0)


def test_a_session_that_the_leader_does_not_know_begins_again() -> None:
    handler = in_session()

    assert not handler.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert handler.next == SessionStep(0, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_another_session_takes_the_place_of_one_that_is_in_doubt(code: ErrorCode) -> None:
    handler = in_session()

    assert not handler.on_answer(code, 0)
    assert handler.next == SessionStep(42, 0)


def test_so_it_does_when_no_answer_came() -> None:
    handler = in_session()

    handler.on_failure()

    assert handler.next == SessionStep(42, 0)
