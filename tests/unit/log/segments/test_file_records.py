from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.segments.file_records import FileRecords
from kbroker.record.record_batch import BatchOptions, Record, build

BATCHES = [
    build(
        [Record(offset, 100 * offset, None, b"v" * offset)],
        base_offset=offset,
        options=BatchOptions(partition_leader_epoch=4),
    )
    for offset in range(0, 3000, 10)
]


@pytest.fixture
def file(tmp_path: Path) -> FileRecords:
    made = FileRecords(RealFileSystem(), str(tmp_path / "f.log"))
    for batch in BATCHES:
        made.append(batch)
    return made


def test_appends_follow_one_another(file: FileRecords, tmp_path: Path) -> None:
    position = file.append(BATCHES[0])

    assert position == sum(map(len, BATCHES))
    assert (tmp_path / "f.log").read_bytes() == b"".join([*BATCHES, BATCHES[0]])


def test_headers_and_batches_are_all_there(file: FileRecords) -> None:
    offsets = [header.base_offset for _, header in file.headers()]
    contents = [bytes(view) for _, _, view in file.batches()]

    assert offsets == list(range(0, 3000, 10))
    assert contents == BATCHES


def test_a_batch_cut_off_ends_the_walk(file: FileRecords) -> None:
    file.append(BATCHES[0][:-1])

    assert len(list(file.headers())) == len(list(file.batches())) == len(BATCHES)


def test_zeros_behind_the_last_batch_are_corrupt(file: FileRecords) -> None:
    file.append(bytes(40))

    with pytest.raises(KafkaError):
        list(file.headers())


def test_an_offset_is_found_in_the_batch_that_holds_it_or_comes_next(file: FileRecords) -> None:
    found = [file.find_offset(target) for target in (0, 1, 10)]

    assert [match[1].base_offset for match in found if match] == [0, 10, 10]
    assert file.find_offset(2991) is None


def test_the_batch_that_speaks_of_a_time_is_found(file: FileRecords) -> None:
    found = [file.batch_at_time(time, 0, offset) for time, offset in ((1001, 0), (0, 25))]

    assert [(batch[0].base_offset, batch[1][:8]) for batch in found if batch] == [
        (20, (20).to_bytes(8, "big")),
        (30, (30).to_bytes(8, "big")),
    ]
    assert file.batch_at_time(299_001, 0, 0) is None


def test_a_slice_reads_its_bytes_and_ends_with_the_file(file: FileRecords) -> None:
    first = file.slice(0, len(BATCHES[0]))
    rest = file.slice(file.size_bytes - 5, 100)

    assert (len(first), first.read(), first.fileno()) == (
        len(BATCHES[0]),
        BATCHES[0],
        file.fileno(),
    )
    assert (len(rest), rest.read()) == (5, BATCHES[-1][-5:])


def test_truncation_moves_the_place_of_the_next_append(file: FileRecords, tmp_path: Path) -> None:
    removed = file.truncate_to(len(BATCHES[0]))
    position = file.append(BATCHES[1])

    assert removed == sum(map(len, BATCHES[1:]))
    assert position == len(BATCHES[0])
    assert (tmp_path / "f.log").read_bytes() == BATCHES[0] + BATCHES[1]


def test_a_closed_file_opens_again_when_it_is_used(file: FileRecords) -> None:
    file.close()

    assert file.read(0, len(BATCHES[0])) == BATCHES[0]
    assert FileRecords(RealFileSystem(), file.path).size_bytes == file.size_bytes
