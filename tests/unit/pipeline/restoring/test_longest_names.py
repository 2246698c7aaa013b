"""Files that have the name of a topic in their own: a disk takes 255 bytes, and a topic has 249."""

from __future__ import annotations

from pathlib import Path

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.manifest import file_name
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap

LONGEST = ["t" * 248 + end for end in "ab"]
LARGEST = 2**63 - 1


def test_partitions_of_the_longest_names_have_files_of_their_own(tmp_path: Path) -> None:
    board = TaskBoard(tmp_path / "board")
    board.clear()
    for topic in LONGEST:
        place = TopicPartition(topic, 99_999)
        board.note(place, 2)
        OffsetMap(tmp_path, place).add(1, 5, [])
        assert len(file_name(topic, 99_999, LARGEST, LARGEST)) <= 255

    assert board.rows() == 4
    maps = [OffsetMap(tmp_path, TopicPartition(topic, 99_999)).lines() for topic in LONGEST]
    assert [len(lines) for lines in maps] == [1, 1]
