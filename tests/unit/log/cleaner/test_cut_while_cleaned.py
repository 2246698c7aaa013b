"""A log whose end is cut off while it is cleaned, and filled again with other records."""

from __future__ import annotations

import pytest

from kbroker.log.partition.log import Log
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_cleaning import stored_records


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in stored_records(log)]


@pytest.mark.parametrize("kept", [0, 1])
def test_what_was_cut_off_does_not_come_back(kept: int) -> None:
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    broker = CleaningBroker(disk, {"min_cleanable_dirty_ratio": 0.0})
    log = broker.log()
    for key in (b"a", b"b", b"b"):
        broker.write(log, (key, b"old"))
    broker.roll(log)
    broker.cleaner.look()

    def follow_another() -> None:
        log.truncate_to(kept)
        for key in (b"a", b"b", b"c")[kept:]:
            broker.write(log, (key, b"new"))
        broker.roll(log)

    broker.runner.after_group = follow_another
    broker.runner.work()

    assert values(log) == [b"old"] * kept + [b"new"] * (3 - kept)
    assert log.cleaned_end_offset is None
    assert not [name for name in disk.list(f"{DATA}/t-0") if name.endswith((".cleaned", ".swap"))]
    broker.runner.after_group = lambda: None
    broker.clean()
    assert log.cleaned_end_offset == 3
