from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.log.disk import format as log_format
from kbroker.model import TopicPartition

UNIQUE = UUID(int=0xAF)


def test_files_are_named_after_twenty_digits() -> None:
    name = log_format.file_name(42, log_format.LOG_SUFFIX)

    assert name == "00000000000000000042.log"
    assert log_format.offset_of(name + ".deleted") == 42


@pytest.mark.parametrize("name", ["42.log", "leader-epoch-checkpoint", "0000000000000000004x.log"])
def test_other_files_have_no_offset(name: str) -> None:
    assert log_format.offset_of(name) is None


@pytest.mark.parametrize("topic", ["a", "a-b", "a.b-1", "-", "a.0123456789abcdef-delete"])
def test_directory_names_give_their_partition_back(topic: str) -> None:
    partition = TopicPartition(topic, 12)

    names = [
        log_format.log_directory_name(partition),
        log_format.delete_directory_name(partition, UNIQUE),
        log_format.future_directory_name(partition, UNIQUE),
        log_format.stray_directory_name(partition, UNIQUE),
    ]

    assert [log_format.parse_directory_name(name) for name in names] == [partition] * 4
    assert [log_format.is_moved_directory(name) for name in names] == [False, True, True, True]


def test_a_long_topic_is_shortened_in_a_delete_directory() -> None:
    name = log_format.delete_directory_name(TopicPartition("t" * 249, 7), UNIQUE)

    assert len(name) == 255
    assert name.endswith(f"t-7.{UNIQUE.hex}-delete")


@pytest.mark.parametrize(
    "name", ["", "topic", "topic-", "-0", "topic-x", "t-0.zz-delete", "t-0-delete"]
)
def test_other_directories_are_no_partition(name: str) -> None:
    assert log_format.parse_directory_name(name) is None
