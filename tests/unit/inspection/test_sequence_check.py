from __future__ import annotations

from collections.abc import Callable

import pytest

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.sequence_check import EXPIRATION_MS, MAX_PRODUCERS, SequenceCheck
from kbroker.record.record_batch import BatchHeader, read_header
from tests.unit.inspection.test_segment_scan import batch

LAST = 2**31 - 1


def header(
    offset: int,
    sequence: int,
    *,
    epoch: int = 0,
    producer: int = 7,
    count: int = 5,
    time: int = 1000,
) -> BatchHeader:
    data = batch(offset, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(data)._replace(max_timestamp=time)


def problems(*headers: BatchHeader, check: SequenceCheck | None = None) -> list[Problem]:
    check = check or SequenceCheck()
    found = [check.batch(each) for each in headers]
    return [problem for problem in found if problem is not None]


@pytest.mark.parametrize(
    "headers",
    [
        [header(0, 0), header(5, 5), header(10, 10)],
        [header(900, 4711)],
        [header(0, LAST - 1, count=2), header(2, 0)],
        [header(0, LAST - 3), header(5, 1)],
        [header(0, 40), header(5, 0, epoch=1), header(10, 5, epoch=1)],
        [header(0, 0), header(5, 0, producer=8), header(10, 5)],
        [header(0, -1), header(5, -1), header(10, 3)],
        [header(0, 0), header(5, 90, time=1000 + EXPIRATION_MS)],
        [header(0, 0, epoch=3), header(5, 0, epoch=0, time=1000 + EXPIRATION_MS)],
    ],
    ids=[
        "in order", "past retention", "after the last number", "over the last number", "new epoch",
        "two producers", "without sequence", "forgotten", "forgotten with its epoch",
    ],
)  # fmt: skip
def test_what_a_broker_accepts_is_no_problem(headers: list[BatchHeader]) -> None:
    assert problems(*headers) == []


@pytest.mark.parametrize(
    ("headers", "code", "words"),
    [
        ([header(0, 0), header(5, 6)], "sequence-gap", "1 records are missing"),
        ([header(0, LAST - 4), header(5, 3)], "sequence-gap", "3 records are missing"),
        ([header(0, 0), header(5, 0)], "sequence-duplicate", "written twice"),
        ([header(0, 0), header(5, 3)], "sequence-duplicate", "follows sequence 4"),
        ([header(0, 0), header(5, 2, epoch=1)], "sequence-gap", "begins with 0"),
        ([header(0, 0, epoch=2), header(5, 5, epoch=1)], "producer-epoch", "after epoch 2"),
    ],
)
def test_a_jump_a_repetition_and_an_old_epoch_are_problems(
    headers: list[BatchHeader], code: str, words: str
) -> None:
    (problem,) = problems(*headers)

    assert problem.code == code
    assert words in problem.what


def test_a_duplicate_does_not_make_what_follows_one() -> None:
    found = problems(header(0, 0), header(5, 5), header(10, 0), header(15, 10))

    assert [problem.code for problem in found] == ["sequence-duplicate"]


@pytest.mark.parametrize(
    "between",
    [lambda check: check.disturbed(9), lambda check: check.knows([8])],
    ids=["something is missing", "the snapshot does not name it"],
)
def test_nothing_is_held_against_what_the_log_does_not_show(
    between: Callable[[SequenceCheck], None],
) -> None:
    check = SequenceCheck()
    before = problems(header(0, 0), check=check)
    between(check)

    assert before + problems(header(9, 77), header(14, 82), check=check) == []


def test_a_marker_takes_part_in_epochs_and_not_in_sequences() -> None:
    check = SequenceCheck()
    found = problems(header(0, 0), check=check)
    same = check.marker(header(5, -1, count=1))
    found += problems(header(6, 5), check=check)
    bumped = check.marker(header(11, -1, count=1, epoch=1))
    found += problems(header(12, 0, epoch=1), check=check)
    late = check.marker(header(17, -1, count=1))

    assert (found, same, bumped) == ([], None, None)
    assert late is not None
    assert late.code == "producer-epoch"


def test_of_a_group_coordinator_only_epochs_are_looked_at() -> None:
    check = SequenceCheck(is_of_coordinator=True)

    (problem,) = problems(
        header(0, 0, epoch=1), header(5, 0, epoch=1), header(10, 0, epoch=0), check=check
    )

    assert problem.code == "producer-epoch"


def test_the_oldest_of_very_many_producers_is_forgotten() -> None:
    check = SequenceCheck()
    first = header(0, 0)
    for producer in range(MAX_PRODUCERS + 1):
        check.batch(first._replace(producer_id=producer, base_offset=5 * producer))

    assert problems(header(10**7, 77, producer=0), check=check) == []
    assert problems(header(10**7, 77, producer=9), check=check) != []
