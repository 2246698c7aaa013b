"""Reading a message in parts, and writing an answer in parts, say what codecs say of it whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.part_decoder import MOST_BESIDE, MOST_BESIDE_IN_ALL, MessagePart, parts_of
from kbroker.protocol.part_encoder import ArrayInParts, encode_runs

VERSION = 8
PATH = ("groups", "topics", "partition_indexes")
SIZES = [(0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1), (4, 3, 5), (1, 1, 40), (1, 40, 1), (40, 1, 1)]


def request_of(groups: int, topics: int, partitions: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=f"g{group}",
                topics=[
                    OffsetFetchRequest.OffsetFetchRequestTopics(
                        name=f"t{topic}", partition_indexes=list(range(partitions))
                    )
                    for topic in range(topics)
                ],
            )
            for group in range(groups)
        ],
        require_stable=True,
    )


def answer_to(request: OffsetFetchRequest) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponse.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponse.OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponse.OffsetFetchResponsePartitions(
                                partition_index=index, committed_offset=7
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def read(data: bytes, most: int) -> Iterator[MessagePart]:
    return (part for part in steps(data, PATH, most) if part is not None)


def steps(data: bytes, path: tuple[str, ...], most: int) -> Iterator[MessagePart | None]:
    return parts_of(OffsetFetchRequest, VERSION, path, memoryview(data), 0, most)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_answers_to_the_parts_are_the_answer_to_the_whole(
    sizes: tuple[int, int, int], most: int
) -> None:
    request = request_of(*sizes)
    data = encode(request, VERSION)
    entries = ArrayInParts(VERSION, ("topics", "partitions"))
    largest = end = 0

    for part in read(data, most):
        entries.add(answer_to(part.message).groups, part.going_on)
        largest, end = max(largest, _leaves(part.message)), part.end

    answer = OffsetFetchResponse()
    answer.groups = entries.run()
    pieces: list[Any] = encode_runs(answer, VERSION, b"head")
    assert b"".join(pieces) == encode(answer_to(request), VERSION, b"head")
    assert largest <= most
    assert end == len(data)


def _leaves(request: OffsetFetchRequest) -> int:
    return sum(len(t.partition_indexes) for g in request.groups for t in g.topics or ())


@pytest.mark.parametrize("sizes", [(4_000, 0, 0), (1, 4_000, 0), (1, 1, 4_000)])
def test_an_answer_in_parts_is_as_large_as_what_was_answered_at_whatever_level(
    sizes: tuple[int, int, int],
) -> None:
    request = request_of(*sizes)
    whole_bytes = len(encode(answer_to(request), VERSION))
    entries = ArrayInParts(VERSION, ("topics", "partitions"))
    sizes_seen = [0]

    for part in read(encode(request, VERSION), 256):
        entries.add(answer_to(part.message).groups, part.going_on)
        sizes_seen.append(entries.size_bytes)

    assert sizes_seen == sorted(sizes_seen)
    assert whole_bytes * 0.9 < sizes_seen[-1] <= whole_bytes
    entries.run()
    assert entries.size_bytes <= whole_bytes


@pytest.mark.parametrize("sizes", [(20_000, 0, 0), (1, 20_000, 0), (1, 1, 50_000)])
def test_a_large_answer_is_written_in_little_more_memory_than_its_bytes(
    sizes: tuple[int, int, int],
) -> None:
    answer = answer_to(request_of(*sizes))
    encode_runs(answer, VERSION, b"")  # makes the encoder

    tracemalloc.start()
    try:
        pieces: list[Any] = encode_runs(answer, VERSION, b"head")
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    data = b"".join(pieces)
    assert data == encode(answer, VERSION, b"head")
    # 0.5 MB beside the bytes; pieces that are not joined as they come would take 8 to 17.
    assert most_bytes < len(data) + 2_000_000


def test_what_comes_after_the_arrays_is_in_the_last_part() -> None:
    parts = list(read(encode(request_of(4, 4, 4), VERSION), 8))

    assert len(parts) > 4
    assert parts[-1].message.require_stable


def test_a_message_that_is_cut_anywhere_is_none() -> None:
    data = encode(request_of(2, 2, 3), VERSION)

    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            list(read(data[:size], 2))


def test_all_bytes_that_are_no_message_whole_are_none_in_parts() -> None:
    data = encode(request_of(2, 2, 3), VERSION)

    for place in range(len(data)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            assert _end_of_parts(changed) == _end_of_whole(changed)


def _end_of_parts(data: bytes) -> int | None:
    try:
        return list(read(data, 2))[-1].end
    except ProtocolError:
        return None


def _end_of_whole(data: bytes) -> int | None:
    try:
        return decode(OffsetFetchRequest, VERSION, data)[1]
    except ProtocolError:
        return None


def test_an_array_that_is_not_read_in_parts_has_few_elements() -> None:
    data = encode(request_of(1, 1, MOST_BESIDE + 1), VERSION)

    assert len(list(read(data, 1_000))) == 33
    with pytest.raises(ProtocolError, match="partition_indexes"):
        list(steps(data, PATH[:2], 1_000))


def test_all_arrays_of_an_entry_that_are_not_read_in_parts_have_few_elements_together() -> None:
    most = MOST_BESIDE_IN_ALL // 16
    entries = list(steps(encode(request_of(2, 16, most - 1), VERSION), PATH[:1], 1_000))

    assert len([part for part in entries if part is not None]) == 3
    with pytest.raises(ProtocolError, match="partition_indexes"):
        list(steps(encode(request_of(2, 16, most), VERSION), PATH[:1], 1_000))


def test_a_part_with_much_beside_its_entries_has_few_of_them() -> None:
    frames = [encode(request_of(10, topics, 1), VERSION) for topics in (1, 1_000)]

    groups = [
        [len(part.message.groups) for part in steps(data, PATH[:1], 256) if part is not None]
        for data in frames
    ]

    assert groups == [[10], [2, 2, 2, 2, 2, 0]]


def test_others_have_their_turn_within_an_array_that_is_not_read_in_parts() -> None:
    data = encode(request_of(2, 1_000, 1), VERSION)

    order = [part and len(part.message.groups) for part in steps(data, PATH[:1], 256)]

    assert order == [None] * (4_000 // 256) + [2, 0]  # each topic has an index
