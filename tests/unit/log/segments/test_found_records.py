"""Damage in the part of a segment that was found on disk: refused, said once, and all else served,
whatever its indexes say.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.record_batch import HEADER_SIZE
from tests.fakes.logs.log_maker import NOW_MS, batch, delete_old_segments, open_log, read_values
from tests.fakes.logs.time_search import first_at, first_of_newest

FIRST = "00000000000000000000"
COUNT = 30


def stopped(directory: Path) -> list[int]:
    """A cleanly stopped log of one segment; where each of its batches starts. Offset n holds n."""
    log = open_log(directory, index_interval_bytes=300)
    positions = []
    for number in range(COUNT):
        positions.append(log.segments.active.size_bytes)
        data = batch(b"%d" % number * (number % 7 + 1), timestamp=NOW_MS + number)
        log.append_as_leader(data, 0, NOW_MS)
    log.close()
    return positions


def reopened(directory: Path) -> Log:
    log = open_log(directory, index_interval_bytes=300, recovery_point=COUNT)
    log.update_high_watermark(COUNT)
    return log


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def fetched(log: Log, offset: int, max_bytes: int = 1) -> list[bytes | None]:
    return read_values(
        log.read(offset, max_bytes, FetchIsolation.HIGH_WATERMARK, True).records.read()
    )


def fetched_or_refused(log: Log, offset: int) -> list[bytes | None]:
    """Nothing for CORRUPT_MESSAGE."""
    try:
        return fetched(log, offset)
    except KafkaError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        return []


def value(number: int) -> bytes:
    return b"%d" % number * (number % 7 + 1)


@pytest.mark.parametrize(
    "byte",
    [0, 3, 6, 7, 8, 10, 11, 16, 17, 20, 21, 25, 26, 34, 42, 60, HEADER_SIZE, HEADER_SIZE + 5],
)
def test_a_damaged_batch_is_refused_and_all_others_are_served(tmp_path: Path, byte: int) -> None:
    positions = stopped(tmp_path)
    flip(tmp_path / f"{FIRST}.log", positions[10] + byte, 1)
    log = reopened(tmp_path)

    served = {offset: fetched_or_refused(log, offset) for offset in range(COUNT)}

    assert served == {n: [value(n)] if n != 10 else [] for n in range(COUNT)}


def test_what_lies_before_the_damage_is_served_and_the_damage_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    positions = stopped(tmp_path)
    flip(tmp_path / f"{FIRST}.log", positions[10] + HEADER_SIZE)
    log = reopened(tmp_path)

    assert fetched(log, 2, 100_000) == [value(n) for n in range(2, 10)]
    for _ in range(2):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
            fetched(log, 10)

    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1
    assert f"{FIRST}.log at positions {positions[10]} to {positions[11]}" in said[0]
    assert "offsets 10 to 10" in said[0]


def test_the_opening_of_a_log_that_was_cut_names_no_offset_that_it_never_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is known only once it is open: until then nothing says where to go on."""
    positions = stopped(tmp_path)
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(path.read_bytes()[: positions[10] + HEADER_SIZE + 1])
    log = reopened(tmp_path)

    opening = [record.getMessage() for record in caplog.records]
    assert any("offsets from 10 on cannot be served" in said for said in opening)
    assert not any(str(2**31) in said or str(2**31 - 1) in said for said in opening)
    caplog.clear()
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        fetched(log, 10)
    assert f"seek to offset {COUNT}" in caplog.text


def test_a_length_that_leads_onto_a_later_batch_hides_none_between(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(8):
        log.append_as_leader(batch(b"%d" % number * 441), 0, NOW_MS)
    size = log.segments.active.size_bytes // 8
    assert size == 512
    log.close()
    flip(tmp_path / f"{FIRST}.log", 2 * size + 10, 1)  # length + 512

    log = open_log(tmp_path, recovery_point=8)
    log.update_high_watermark(8)

    assert fetched(log, 3) == [b"3" * 441]


def test_a_batch_inside_a_damaged_record_is_no_batch_of_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"before"), 0, NOW_MS)
    inner = batch(b"never appended", base_offset=1)
    log.append_as_leader(batch(bytes(inner) + b"more"), 0, NOW_MS)
    log.append_as_leader(batch(b"behind"), 0, NOW_MS)
    position = log.segments.active.translate_offset(1)
    assert position is not None
    log.close()
    flip(tmp_path / f"{FIRST}.log", position[0] + 11, 0)

    log = open_log(tmp_path, recovery_point=3)
    log.update_high_watermark(3)

    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        fetched(log, 1)
    assert fetched(log, 2) == [b"behind"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_flipped_bit_of_an_index_leaves_every_answer_as_it_was(
    tmp_path: Path, suffix: str
) -> None:
    stopped(tmp_path)
    path = tmp_path / f"{FIRST}{suffix}"
    whole = path.read_bytes()
    wrong = []

    for number in range(0, len(whole) * 8, 5):
        data = bytearray(whole)
        data[number // 8] ^= 1 << number % 8
        path.write_bytes(data)
        log = reopened(tmp_path)
        answers = [fetched(log, offset)[0] for offset in (0, 7, 14, 22, 29)]
        times = [first_at(log, NOW_MS + n) for n in (0, 7, 14, 22, 29)]
        newest = first_of_newest(log)
        if answers != [value(n) for n in (0, 7, 14, 22, 29)] or [
            found and found.offset for found in [*times, newest]
        ] != [0, 7, 14, 22, 29, 29]:
            wrong.append(number)
        log.files.close_files()

    assert wrong == []


def test_appends_go_on_behind_damage_and_are_found(tmp_path: Path) -> None:
    positions = stopped(tmp_path)
    flip(tmp_path / f"{FIRST}.log", positions[COUNT - 1] + HEADER_SIZE)
    log = reopened(tmp_path)

    for number in range(20):
        data = batch(b"new %d" % number, timestamp=NOW_MS + 100)
        assert log.append_as_leader(data, 0, NOW_MS).first_offset == COUNT + number
    log.update_high_watermark(COUNT + 20)
    log.close()
    again = open_log(tmp_path, index_interval_bytes=300, recovery_point=COUNT + 20)
    again.update_high_watermark(COUNT + 20)

    assert [fetched(again, COUNT + n) for n in range(20)] == [[b"new %d" % n] for n in range(20)]
    assert fetched(again, COUNT - 2) == [value(COUNT - 2)]
    found = first_at(again, NOW_MS + 50)
    assert found is not None
    assert found.offset == COUNT


def test_retention_by_time_believes_no_flipped_index(tmp_path: Path) -> None:
    stopped(tmp_path)
    flip(tmp_path / f"{FIRST}.timeindex", (tmp_path / f"{FIRST}.timeindex").stat().st_size - 8, 0)
    log = open_log(tmp_path, recovery_point=COUNT, retention_ms=60_000)
    log.update_high_watermark(COUNT)

    assert delete_old_segments(log, NOW_MS + 1000) == 0


def test_reading_a_sound_segment_says_nothing_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    log = reopened(tmp_path)

    assert fetched(log, 0, 100_000) == [value(n) for n in range(COUNT)]
    assert [fetched(log, n) for n in (29, 3, 17, 16, 5)] == [[value(n)] for n in (29, 3, 17, 16, 5)]
    log.close()

    assert caplog.records == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_damage_found_after_appends_keeps_what_they_entered(tmp_path: Path) -> None:
    positions = stopped(tmp_path)
    flip(tmp_path / f"{FIRST}.log", positions[10] + HEADER_SIZE)
    log = reopened(tmp_path)
    for number in range(20):
        log.append_as_leader(batch(b"new %d" % number, timestamp=NOW_MS + 100 + number), 0, NOW_MS)
    log.update_high_watermark(COUNT + 20)

    assert fetched_or_refused(log, 10) == []
    assert fetched(log, COUNT + 15) == [b"new 15"]
    assert log.segments.active.largest_timestamp == NOW_MS + 119
    assert log.truncate_to(COUNT + 10)
    assert log.segments[0].largest_timestamp == NOW_MS + 109
    found = first_at(log, NOW_MS + 105)
    assert found is not None
    assert found.offset == COUNT + 5


def test_an_entry_that_points_behind_its_segment_goes_when_the_indexes_are_made_anew(
    tmp_path: Path,
) -> None:
    stopped(tmp_path)
    path = tmp_path / f"{FIRST}.timeindex"
    data = bytearray(path.read_bytes())
    middle = len(data) // 24 * 12
    data[middle : middle + 12] = (NOW_MS + 1000).to_bytes(8) + (COUNT + 3).to_bytes(4)
    path.write_bytes(data)
    flip(tmp_path / f"{FIRST}.log", 100)
    log = reopened(tmp_path)

    assert fetched_or_refused(log, 0) + fetched_or_refused(log, 1) != []
    log.append_as_leader(batch(b"new", timestamp=NOW_MS + 100), 0, NOW_MS)
    log.close()

    assert log.segments.active.largest_timestamp == NOW_MS + 100
