"""Offsets travel as the text that Spark writes; ranges lie between two of them."""

from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.spark_job.offsets import (
    OffsetRange,
    format_offsets,
    parse_offsets,
    ranges_between,
    total,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_the_text_of_offsets_is_read_back() -> None:
    offsets = {B0: 7, A1: 12_345_678_901, A0: 0}

    text = format_offsets(offsets)

    assert text == '{"a":{"0":0,"1":12345678901},"b":{"0":7}}'
    assert parse_offsets(text) == offsets


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    text = format_offsets({TopicPartition("a", 10): 1, TopicPartition("a", 9): 2})

    assert text == '{"a":{"9":2,"10":1}}'


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"a": 3}', '{"a": {"x": 3}}', '{"a": {"0": "3"}}', '{"a": {"0": true}}', "{"],
)
def test_a_text_that_is_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_offsets(text)


def test_what_lies_between_two_maps() -> None:
    ranges = ranges_between({A0: 5, A1: 8}, {A0: 9, A1: 8, B0: 3})

    assert ranges == {A0: OffsetRange(5, 9), B0: OffsetRange(0, 3)}
    assert total(ranges) == 7


def test_a_partition_that_went_back_has_no_range() -> None:
    with pytest.raises(ValueError, match="a-0 went back from offset 5 to 4"):
        ranges_between({A0: 5}, {A0: 4})
