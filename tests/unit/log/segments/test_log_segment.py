from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.disk.format import parse_directory_name
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.segment_files import SegmentConfig
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import BatchHeader, Record, build, read_header
from tests.golden import golden_logs

FILES = RealFileSystem()
GOLDEN_CONFIG = SegmentConfig(index_interval_bytes=200, segment_index_bytes=4096)
SMALL_CONFIG = SegmentConfig(index_interval_bytes=100, segment_index_bytes=120)
# The cleaner, and a follower catching up, append many batches at once.
NOT_APPENDED_ONE_BY_ONE = {
    "3.9.2-clean": ("compacted", "__", "epochs"),
    "4.3.1-clean": ("compacted", "__"),
}
DUMMY = b"x" * 50


def open_segment(
    directory: Path, base_offset: int = 0, config: SegmentConfig = SMALL_CONFIG
) -> LogSegment:
    segment = LogSegment(FILES, str(directory), base_offset, config, created_ms=0)
    segment.activate()
    return segment


def append(segment: LogSegment, offset: int, timestamp: int, value: bytes = DUMMY) -> BatchHeader:
    batch = build([Record(offset, timestamp, None, value)], base_offset=offset)
    segment.append(offset, timestamp, offset, batch)
    return read_header(batch)


def golden_segments(name: str) -> list[str]:
    return sorted(
        path.removesuffix(".log")
        for path in golden_logs.files(name)
        if path.endswith(".log") and parse_directory_name(path.partition("/")[0]) is not None
    )


def index_bytes(directory: Path, segment: LogSegment) -> tuple[bytes, bytes]:
    return Path(segment.offset_index.path).read_bytes(), Path(segment.time_index.path).read_bytes()


def append_again(directory: Path, stem: str, data: bytes) -> LogSegment:
    """Append a segment's batches one by one; a new leader epoch is a new broker start."""
    base_offset = int(stem.partition("/")[2])
    segment = open_segment(directory, base_offset, GOLDEN_CONFIG)
    position, epoch = 0, read_any_header(data).partition_leader_epoch if data else 0
    while position < len(data):
        header = read_any_header(data, position)
        if header.partition_leader_epoch != epoch:
            segment.close()
            segment = open_segment(directory, base_offset, GOLDEN_CONFIG)
            epoch = header.partition_leader_epoch
        batch = data[position : position + header.size_bytes]
        segment.append(header.last_offset, header.max_timestamp, header.last_offset, batch)
        position += header.size_bytes
    segment.close()
    return segment


@pytest.mark.parametrize("name", golden_logs.CLEAN)
def test_appending_the_same_batches_writes_the_same_index_bytes(name: str, tmp_path: Path) -> None:
    content = golden_logs.files(name)
    different = []
    for number, stem in enumerate(golden_segments(name)):
        if stem.startswith(NOT_APPENDED_ONE_BY_ONE[name]):
            continue
        directory = tmp_path / str(number)
        directory.mkdir()
        segment = append_again(directory, stem, content[stem + ".log"])
        if index_bytes(directory, segment) != (
            content[stem + ".index"],
            content[stem + ".timeindex"],
        ):
            different.append(stem)

    assert different == []


@pytest.mark.parametrize("name", golden_logs.CLEAN)
def test_recovery_of_good_segments_rebuilds_kafkas_index_bytes(name: str, tmp_path: Path) -> None:
    root = golden_logs.unpack(name, tmp_path)
    content = golden_logs.files(name)
    restarted = (*NOT_APPENDED_ONE_BY_ONE[name], "epochs", "txn-0/00000000000000000097")
    different = []
    for stem in golden_segments(name):
        if stem.startswith(restarted):
            continue
        partition, _, digits = stem.partition("/")
        segment = LogSegment(FILES, str(root / partition), int(digits), GOLDEN_CONFIG, created_ms=0)
        removed = segment.recover()
        written = index_bytes(root, segment)
        if removed or written != (content[stem + ".index"], content[stem + ".timeindex"]):
            different.append(stem)

    assert different == []


@pytest.mark.parametrize("name", [*golden_logs.UNCLEAN, *golden_logs.DAMAGED])
def test_recovery_keeps_what_the_real_broker_kept(name: str, tmp_path: Path) -> None:
    root = golden_logs.unpack(name, tmp_path)
    expected = golden_logs.sizes_after_recovery(name)
    kept = {}
    for stem in golden_segments(name):
        partition, _, digits = stem.partition("/")
        segment = LogSegment(FILES, str(root / partition), int(digits), GOLDEN_CONFIG, created_ms=0)
        segment.recover()
        kept[stem + ".log"] = segment.size_bytes

    # A broker goes on writing to its own internal topics after recovery, and retention removes
    # segments.
    ours = {path: size for path, size in kept.items() if path in expected and path[0] != "_"}
    assert ours == {path: expected[path] for path in ours}
    assert len(ours) > 30


def test_recovery_shows_every_good_batch_and_cuts_the_torn_one(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    first, second = append(segment, 0, 10), append(segment, 1, 20)
    torn = build([Record(2, 30, None, DUMMY)], base_offset=2)[:-1]
    segment.records.append(torn)
    segment.records.close()
    seen = []

    again = LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0)
    removed = again.recover(lambda header, _: seen.append(header))

    assert removed == len(torn)
    assert seen == [first, second]
    assert again.next_offset == 2
    assert again.time_index.last_entry == (20, 1)


def test_recovery_cuts_a_batch_whose_base_offset_goes_back(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)
    append(segment, 1, 10)
    kept = segment.size_bytes
    segment.records.append(build([Record(0, 10, None, DUMMY)], base_offset=0))

    segment.recover()

    assert segment.size_bytes == kept


def test_recovery_keeps_neither_of_two_batches_that_claim_the_same_offsets(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    kept = append(segment, 0, 10).size_bytes
    segment.records.append(build([Record(70, 10, None, DUMMY)], base_offset=70))
    segment.records.append(build([Record(9, 10, None, DUMMY)], base_offset=9))

    segment.recover()

    assert segment.size_bytes == kept


def test_recovery_stops_indexing_when_the_index_is_full(tmp_path: Path) -> None:
    large = SegmentConfig(index_interval_bytes=100)
    segment = open_segment(tmp_path, config=large)
    for offset in range(100):
        append(segment, offset, offset)
    segment.close()

    again = LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0)

    assert again.recover() == 0
    assert again.next_offset == 100
    assert again.largest_timestamp == 99
    assert again.offset_index.entry_count <= 15


def test_errors_of_the_callback_are_not_taken_for_broken_batches(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)

    def fail(header: BatchHeader, batch: memoryview) -> None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    with pytest.raises(KafkaError):
        segment.recover(fail)


def test_read_starts_at_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    size = append(segment, 4, 10).size_bytes
    append(segment, 9, 10)

    found = segment.read(5, 1_000_000)

    assert found is not None
    assert (found.records.position, len(found.records)) == (size, segment.size_bytes - size)
    assert read_header(found.records.read()).base_offset == 9


def test_a_read_after_a_cut_finds_what_has_the_offset_now(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)
    append(segment, 1, 10)
    before = segment.read(1, 1_000_000)
    segment.truncate_to(0, 0)
    append(segment, 1, 10, DUMMY * 2)

    found = segment.read(1, 1_000_000)

    assert before is not None
    assert before.records.position > 0
    assert found is not None
    assert (found.records.position, len(found.records)) == (0, segment.size_bytes)


def test_who_reads_at_the_same_offset_is_shown_what_came_since(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    size = append(segment, 0, 10).size_bytes
    first = segment.read(0, 1_000_000)
    append(segment, 1, 10)

    again = segment.read(0, 7, min_one_message=True)
    all_of_it = segment.read(0, 1_000_000)

    assert first is not None
    assert len(first.records) == size
    assert again is not None
    assert (len(again.records), again.available_bytes) == (size, segment.size_bytes)
    assert all_of_it is not None
    assert len(all_of_it.records) == segment.size_bytes


def test_read_past_the_end_finds_nothing(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)

    assert segment.read(1, 1_000_000) is None


def test_read_gives_one_whole_batch_when_asked_for_at_least_one(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    size = append(segment, 0, 10).size_bytes
    append(segment, 1, 10)

    whole = segment.read(0, 7, min_one_message=True)
    cut = segment.read(0, 7)

    assert whole is not None
    assert (len(whole.records), whole.is_first_incomplete) == (size, False)
    assert cut is not None
    assert (len(cut.records), cut.is_first_incomplete) == (7, True)


def test_read_does_not_pass_the_position_it_was_given(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    size = append(segment, 0, 10).size_bytes
    append(segment, 1, 10)

    found = segment.read(0, 1_000_000, size)

    assert found is not None
    assert len(found.records) == size


def test_every_offset_is_found_in_a_segment_with_many_index_entries(tmp_path: Path) -> None:
    segment = open_segment(tmp_path, config=SegmentConfig(index_interval_bytes=0))
    for offset in range(3000):
        append(segment, offset, offset, b"")

    found = [segment.translate_offset(offset) for offset in range(3000)]

    assert [match[1].base_offset for match in found if match] == list(range(3000))


def test_the_batch_of_a_time_is_found(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    for offset in range(10):
        append(segment, offset, 100 * offset)

    found = [segment.batch_at_time(*wanted) for wanted in ((301, 0), (300, 6))]

    assert [batch[0].base_offset for batch in found if batch] == [4, 6]
    assert segment.batch_at_time(901, 0) is None


def test_truncation_drops_the_batch_that_holds_the_offset_and_all_after(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    for offset in range(10):
        append(segment, offset, 100 * offset)
    size = segment.size_bytes

    removed = segment.truncate_to(4, now_ms=7)

    assert removed == size * 6 // 10
    assert segment.next_offset == 4
    assert segment.largest_timestamp == 300
    assert segment.translate_offset(4) is None


def test_truncation_to_nothing_starts_the_segments_life_again(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 100)

    segment.truncate_to(0, now_ms=7)

    assert (segment.size_bytes, segment.created_ms, segment.first_batch_timestamp) == (0, 7, None)


def test_preallocated_files_get_their_real_size_at_close(tmp_path: Path) -> None:
    config = SegmentConfig(segment_bytes=5000, preallocate=True, segment_index_bytes=1000)
    segment = open_segment(tmp_path, config=config)
    size = append(segment, 0, 10).size_bytes
    while_active = [path.stat().st_size for path in sorted(tmp_path.iterdir())]

    segment.close()

    assert while_active == [1000, 5000, 996]
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == [0, size, 12]


def test_a_closed_segment_opens_with_the_same_content(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    for offset in range(10):
        append(segment, offset, 1000 - offset)
    segment.close()

    again = LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0)
    again.sanity_check()

    assert again.next_offset == 10
    assert again.time_index.last_entry == (1000, 0)
    assert again.first_batch_timestamp == 1000


def test_closing_an_unused_segment_leaves_its_files_alone(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)
    segment.close()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0).close()

    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_missing_index_does_not_pass_the_sanity_check(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.close()
    Path(segment.offset_index.path).unlink()

    with pytest.raises(StorageError):
        LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0).sanity_check()


def test_a_spoiled_index_does_not_pass_the_sanity_check(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    segment.close()
    Path(segment.offset_index.path).write_bytes(b"\xff" * 80)

    with pytest.raises(CorruptIndexError):
        LogSegment(FILES, str(tmp_path), 0, SMALL_CONFIG, created_ms=0).sanity_check()


def test_a_segment_marked_deleted_still_serves_its_readers(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 10)
    found = segment.read(0, 1_000_000)

    segment.mark_deleted()

    assert found is not None
    assert read_header(found.records.read()).base_offset == 0
    assert all(path.suffix == ".deleted" for path in tmp_path.iterdir())
    segment.delete()
    assert list(tmp_path.iterdir()) == []
