from __future__ import annotations

from struct import pack_into

import pytest

from kbroker.network.receive_buffers import BASE_BYTES, Buffer, ReceiveBuffers

MIB = 1 << 20
LARGE = 16 * MIB
PRODUCE, FETCH, LEADER_AND_ISR = 0, 1, 4


class Granted:
    """Counts how often somebody was let in."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> bool:
        self.times += 1
        return True


def larger(buffers: ReceiveBuffers, owner: str, buffer: Buffer, received: int) -> memoryview:
    grown = buffers.larger(owner, buffer, memoryview(buffer)[:received], 0)
    assert isinstance(grown, memoryview)
    return grown


def begun(buffers: ReceiveBuffers, owner: str, frame_bytes: int, api_key: int = FETCH) -> bytearray:
    """A buffer full of the first bytes of a frame."""
    buffer = take(buffers, owner, 1)
    pack_into(">ih", buffer, 0, frame_bytes - 4, api_key)
    return buffer


def grown(buffers: ReceiveBuffers, owner: str, buffer: Buffer, hint: int = 0) -> Buffer | None:
    return buffers.larger(owner, buffer, memoryview(buffer), hint)


def take(buffers: ReceiveBuffers, owner: str, size: int) -> bytearray:
    buffer = buffers.take(owner, size)
    assert buffer is not None
    return buffer


def test_a_buffer_that_was_put_back_is_used_again() -> None:
    buffers = ReceiveBuffers(MIB)
    first = take(buffers, "a", 100)
    buffers.put_back("a", first)
    assert take(buffers, "b", 100) is first


def test_sizes_are_rounded_up_to_powers_of_two() -> None:
    buffers = ReceiveBuffers(MIB)
    assert len(take(buffers, "a", 1)) == BASE_BYTES
    assert len(take(buffers, "a", BASE_BYTES + 1)) == 2 * BASE_BYTES


def test_base_buffers_are_given_when_the_budget_is_used_up() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "a", MIB)
    assert buffers.take("b", MIB) is None
    assert buffers.take("b", BASE_BYTES) is not None


def test_the_oldest_holder_may_exceed_the_budget_so_that_it_can_finish() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "old", MIB // 2)
    take(buffers, "young", MIB // 2)
    assert buffers.take("young", MIB) is None
    assert buffers.take("old", 2 * MIB) is not None
    assert buffers.held_bytes == 2 * MIB + MIB // 2


def test_a_larger_buffer_replaces_the_smaller_in_the_count() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "a", MIB // 4)
    larger = take(buffers, "a", MIB // 2)
    assert buffers.held_bytes == MIB // 2
    buffers.put_back("a", larger)
    assert buffers.held_bytes == 0


def test_a_release_lets_in_who_waits_once() -> None:
    buffers, granted = ReceiveBuffers(2 * MIB), Granted()
    take(buffers, "a", 2 * MIB)
    assert buffers.take("b", MIB) is None
    buffers.wait("b", granted)
    buffers.release("a")
    assert (granted.times, buffers.held_bytes) == (1, MIB)
    buffers.release("b")
    assert (granted.times, buffers.held_bytes) == (1, 0)


def test_those_that_wait_are_let_in_in_their_order_and_who_leaves_waits_no_more() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "a", MIB)
    waiting = {name: Granted() for name in "bcd"}
    for name, granted in waiting.items():
        assert buffers.take(name, MIB) is None
        buffers.wait(name, granted)
    assert buffers.is_wanted("a")
    assert not buffers.is_wanted("b")

    buffers.release("b")
    buffers.release("a")
    assert [granted.times for granted in waiting.values()] == [0, 1, 0]
    buffers.release("c")
    assert waiting["d"].times == 1
    assert not buffers.is_wanted("d")


def test_trimming_lets_unused_buffers_go() -> None:
    buffers = ReceiveBuffers(MIB)
    first = take(buffers, "a", 100)
    buffers.put_back("a", first)
    buffers.trim()
    assert take(buffers, "a", 100) is not first


def test_a_large_frame_grows_where_it_lies_and_takes_what_has_arrived() -> None:
    buffers = ReceiveBuffers(64 * MIB)
    base = begun(buffers, "a", LARGE)
    base[6:9] = b"abc"

    first = larger(buffers, "a", base, BASE_BYTES)
    second = larger(buffers, "a", first, len(first))

    assert bytes(second[6:9]) == b"abc"
    assert second.obj is first.obj
    assert (len(first), len(second)) == (MIB + BASE_BYTES, 2 * MIB + BASE_BYTES)
    assert buffers.held_bytes == len(second)
    while len(second) < LARGE:
        second = larger(buffers, "a", second, len(second))
    assert buffers.held_bytes == len(second) == LARGE


def test_large_frames_wait_for_room_but_for_the_oldest() -> None:
    buffers = ReceiveBuffers(3 * MIB)
    old = larger(buffers, "old", begun(buffers, "old", LARGE), BASE_BYTES)
    young = larger(buffers, "young", begun(buffers, "young", LARGE), BASE_BYTES)

    assert grown(buffers, "young", young) is None
    for _ in range(12):
        old = larger(buffers, "old", old, len(old))

    assert len(old) == 13 * MIB + BASE_BYTES


@pytest.mark.parametrize("size", [2 * BASE_BYTES, MIB])
def test_a_frame_that_is_looked_at_keeps_its_room_when_its_client_has_gone(size: int) -> None:
    buffers = ReceiveBuffers(budget_bytes=4 * MIB)
    buffer = take(buffers, "gone", size)
    view = memoryview(buffer)[10:20]

    buffers.release("gone", buffer)

    del buffer
    assert buffers.held_bytes == size
    view.release()
    assert buffers.held_bytes == 0


def test_a_large_frame_that_is_looked_at_keeps_its_room_when_its_client_has_gone() -> None:
    buffers = ReceiveBuffers(64 * MIB)
    frame = larger(buffers, "a", begun(buffers, "a", LARGE), BASE_BYTES)

    buffers.release("a")
    assert buffers.held_bytes == len(frame)
    buffers.recycle(frame)
    del frame

    assert buffers.held_bytes == 0


def full(mib: int) -> ReceiveBuffers:
    """Buffers that connections have taken all of that they may have of so much."""
    buffers = ReceiveBuffers(mib * MIB)
    for number in range(mib):
        take(buffers, f"full {number}", MIB)
    return buffers


def grown_to(buffers: ReceiveBuffers, owner: str, buffer: Buffer, size: int) -> Buffer:
    while len(buffer) < size:
        larger = grown(buffers, owner, buffer, hint=MIB)
        assert larger is not None
        buffer = larger
    return buffer


@pytest.mark.parametrize("api_key", [PRODUCE, LEADER_AND_ISR])
def test_requests_that_must_not_wait_have_room_whoever_fills_the_rest(api_key: int) -> None:
    buffers = full(8)
    assert grown(buffers, "other", begun(buffers, "other", 100_000, FETCH)) is None
    assert grown(buffers, "large", begun(buffers, "large", LARGE, api_key)) is None

    buffer = grown_to(buffers, "a", begun(buffers, "a", 100_000, api_key), 100_000)

    assert isinstance(buffer, memoryview)
    assert len(buffer) == 100_000  # nothing that follows it comes in
    assert buffers.held_bytes == 8 * MIB + 128 * 1024
    buffers.put_back("a", buffer)
    assert buffers.held_bytes == 8 * MIB
    buffers.release("full 0")
    assert take(buffers, "b", 128 * 1024) is buffer.obj


def test_produce_requests_wait_for_each_other_alone() -> None:
    buffers, granted = full(8), Granted()
    first = grown_to(buffers, "first", begun(buffers, "first", MIB, PRODUCE), MIB)
    second = grown_to(buffers, "second", begun(buffers, "second", 2 * MIB, PRODUCE), MIB)

    assert grown(buffers, "second", second) is None
    buffers.wait("second", granted)
    assert buffers.is_wanted("first")
    assert not buffers.is_wanted("full 0")
    buffers.put_back("first", first)

    assert granted.times == 1
    assert len(grown_to(buffers, "second", second, 2 * MIB)) == 2 * MIB
    buffers.release("second")
    assert buffers.held_bytes == 8 * MIB
