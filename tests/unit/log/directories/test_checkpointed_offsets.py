"""What a checkpoint file says while a worker writes it and a log is cut."""

from __future__ import annotations

from collections.abc import Mapping
from errno import ENOSPC
from threading import Event, Thread

import pytest

from kbroker.log.directories.checkpointed_offsets import CheckpointedOffsets
from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition

CUT = TopicPartition("t", 0)
OTHER = TopicPartition("u", 0)


class File:
    """Holds what was written last; a write waits until `may_go_on` is set."""

    def __init__(self) -> None:
        self.offsets: Mapping[TopicPartition, int] = {}
        self.is_writing = Event()
        self.may_go_on = Event()
        self.may_go_on.set()
        self.failures: list[StorageError] = []

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.is_writing.set()
        self.may_go_on.wait(10)
        self.offsets = dict(offsets)


def writing(file: File, offsets: CheckpointedOffsets, offset: int) -> Thread:
    """A worker that is in the middle of a write."""
    file.may_go_on.clear()
    worker = Thread(target=offsets.gather({CUT: offset}))
    worker.start()
    assert file.is_writing.wait(10)
    return worker


def test_the_event_loop_gathers_while_the_file_is_written() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    worker = writing(file, offsets, 100)

    offsets.gather({CUT: 101})

    assert worker.is_alive()
    file.may_go_on.set()
    worker.join()


def test_a_cut_waits_for_the_write_that_goes_on_and_has_the_last_word() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    worker = writing(file, offsets, 100)
    cut = Thread(target=offsets.lower, args=(CUT, 50, 49))
    cut.start()

    file.may_go_on.set()
    cut.join()
    worker.join()

    assert file.offsets == {CUT: 49}
    assert offsets.in_file(CUT) == 49


def test_what_was_gathered_before_a_cut_does_not_undo_it() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    earlier = offsets.gather({CUT: 100, OTHER: 7})
    offsets.lower(CUT, 50, 49)

    earlier()

    assert file.offsets == {CUT: 49, OTHER: 7}


def test_what_is_gathered_after_a_cut_stands() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    offsets.gather({CUT: 100})()
    offsets.lower(CUT, 50, 49)

    offsets.gather({CUT: 80})()

    assert file.offsets == {CUT: 80}


def test_a_cut_that_is_tried_again_brings_the_file_down() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    offsets.gather({CUT: 100})()
    file.failures.append(StorageError("f", "write", ENOSPC))
    with pytest.raises(StorageError):
        offsets.lower(CUT, 50, 49)

    offsets.lower(CUT, 50, 49)

    assert file.offsets == {CUT: 49}


def test_a_cut_beyond_what_is_noted_writes_nothing() -> None:
    file = File()
    offsets = CheckpointedOffsets(file.write)
    offsets.gather({CUT: 40})()
    file.failures.append(StorageError("f", "write", ENOSPC))

    offsets.lower(CUT, 50, 49)

    assert file.offsets == {CUT: 40}
