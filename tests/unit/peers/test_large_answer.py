"""Memory that answers are received into, one after the other."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.peers import large_answer
from kbroker.peers.large_answer import LargeAnswer

MIB = 1 << 20


def receive(answer: LargeAnswer, content: bytes, begin: int = 1, step: int = MIB) -> memoryview:
    """One answer, of which `begin` bytes have come with its size."""
    answer.begin(len(content), content[:begin])
    position = begin
    while True:
        room = answer.room()
        count = min(len(room), step, len(content) - position)
        room[:count] = content[position : position + count]
        del room  # as an event loop, which keeps no view of it
        position += count
        if (whole := answer.received(count)) is not None:
            return whole


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held_bytes() -> int:
    """Count what the answer holds: a process of tests does other things meanwhile."""
    own = tracemalloc.Filter(inclusive=True, filename_pattern=large_answer.__file__)
    taken = tracemalloc.take_snapshot().filter_traces([own])
    return sum(trace.size for trace in taken.traces)


def test_the_next_answer_lies_where_the_last_one_did() -> None:
    answer = LargeAnswer()
    last = receive(answer, b"a" * 5 * MIB)
    memory = id(last.obj)
    del last

    following = receive(answer, b"b" * 4 * MIB)

    assert following == b"b" * 4 * MIB
    assert id(following.obj) == memory


def test_an_answer_stays_what_it_was_while_a_piece_of_it_is_in_use() -> None:
    answer = LargeAnswer()
    piece = receive(answer, b"a" * 100_000)[7:9]
    following = receive(answer, b"b" * 100_000)

    assert piece == b"aa"
    assert following == b"b" * 100_000


def test_room_ends_with_the_answer_however_large_the_last_one_was() -> None:
    answer = LargeAnswer()
    receive(answer, b"a" * 100_000)
    answer.begin(50_000, b"b")
    assert len(answer.room()) == 49_999


@pytest.mark.usefixtures("traced")
def test_memory_is_taken_as_bytes_come() -> None:
    answer = LargeAnswer()
    answer.begin(90 * MIB, b"a")
    for _ in range(2):
        answer.received(len(answer.room()))
    assert held_bytes() < 5 * MIB


@pytest.mark.usefixtures("traced")
def test_memory_of_the_last_answer_is_given_back() -> None:
    answer = LargeAnswer()
    receive(answer, b"a" * MIB)
    assert held_bytes() > MIB
    answer.drop()
    assert held_bytes() < MIB / 10


@pytest.mark.usefixtures("traced")
def test_no_huge_answer_is_kept() -> None:
    answer = LargeAnswer()
    receive(answer, bytes(40 * MIB))
    assert held_bytes() < MIB / 10


contents = st.tuples(st.integers(2, 300), st.binary(min_size=1, max_size=1), st.booleans())


@given(st.lists(contents, max_size=5), st.integers(1, 50))
def test_answers_of_any_size_come_whole(wanted: list[tuple[int, bytes, bool]], step: int) -> None:
    answer = LargeAnswer()
    kept: list[tuple[memoryview, bytes]] = []
    for size, filler, is_kept in wanted:
        content = filler * size
        got = receive(answer, content, step=step)
        assert got == content
        if is_kept:
            kept.append((got, content))
        del got
    assert all(got == content for got, content in kept)
