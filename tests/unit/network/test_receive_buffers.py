from __future__ import annotations

from kbroker.network.receive_buffers import BASE_BYTES, ReceiveBuffers

MIB = 1 << 20


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
    assert buffers.take("old", 4 * MIB) is not None
    assert buffers.held_bytes == 4 * MIB + MIB // 2


def test_a_larger_buffer_replaces_the_smaller_in_the_count() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "a", MIB // 4)
    larger = take(buffers, "a", MIB // 2)
    assert buffers.held_bytes == MIB // 2
    buffers.put_back("a", larger)
    assert buffers.held_bytes == 0


def test_a_release_calls_those_who_wait_once() -> None:
    buffers = ReceiveBuffers(MIB)
    take(buffers, "a", MIB)
    called: list[str] = []
    buffers.wait(lambda: called.append("b"))
    buffers.release("a")
    take(buffers, "a", MIB)
    buffers.release("a")
    assert called == ["b"]


def test_trimming_lets_unused_buffers_go() -> None:
    buffers = ReceiveBuffers(MIB)
    first = take(buffers, "a", 100)
    buffers.put_back("a", first)
    buffers.trim()
    assert take(buffers, "a", 100) is not first


def test_very_large_buffers_are_not_kept() -> None:
    buffers = ReceiveBuffers(64 * MIB)
    first = take(buffers, "a", 16 * MIB)
    buffers.put_back("a", first)
    assert take(buffers, "a", 16 * MIB) is not first
