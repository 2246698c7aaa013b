from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.transaction_index import AbortedTxn, TransactionIndex
from tests.golden import golden_logs

FIRST = AbortedTxn(producer_id=1, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTxn(producer_id=2, first_offset=15, last_offset=30, last_stable_offset=31)


def open_index(directory: Path) -> TransactionIndex:
    return TransactionIndex(RealFileSystem(), str(directory / "i.txnindex"), 0)


@pytest.fixture
def index(tmp_path: Path) -> TransactionIndex:
    made = open_index(tmp_path)
    made.append(FIRST)
    made.append(SECOND)
    return made


def test_there_is_no_file_without_aborted_transactions(tmp_path: Path) -> None:
    assert open_index(tmp_path).entries == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", golden_logs.CLEAN)
def test_kafkas_files_are_read_as_its_dump_tool_does(name: str, tmp_path: Path) -> None:
    root = golden_logs.unpack(name, tmp_path)
    rows = [row for row in golden_logs.lines(name, "segments") if row["file"].endswith(".txnindex")]
    expected = [
        (
            row["file"],
            row["producerId"],
            row["firstOffset"],
            row["lastOffset"],
            row["lastStableOffset"],
        )
        for row in rows
    ]

    found = [
        (path, *entry)
        for path in dict.fromkeys(row["file"] for row in rows)
        for entry in TransactionIndex(RealFileSystem(), str(root / path), 0).entries
    ]

    assert len(found) > 5
    assert found == expected


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "expected"),
    [
        (0, 10, ([], True)),
        (0, 12, ([FIRST], True)),
        (0, 16, ([FIRST, SECOND], False)),  # one entry alone is not believed
        (0, 100, ([FIRST, SECOND], False)),
        (21, 100, ([SECOND], False)),
        (31, 100, ([], False)),
    ],
)
def test_transactions_that_overlap_the_fetched_offsets_are_collected(
    index: TransactionIndex, fetch_offset: int, upper_bound: int, expected: object
) -> None:
    assert index.collect(fetch_offset, upper_bound) == expected


def test_truncation_drops_transactions_that_ended_at_or_after_the_offset(
    index: TransactionIndex, tmp_path: Path
) -> None:
    index.truncate_to(30)

    assert open_index(tmp_path).entries == [FIRST]


def test_a_file_cut_inside_an_entry_is_corrupt(index: TransactionIndex, tmp_path: Path) -> None:
    path = tmp_path / "i.txnindex"
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(CorruptIndexError):
        open_index(tmp_path).sanity_check()


def test_an_entry_before_the_segment_is_corrupt(index: TransactionIndex, tmp_path: Path) -> None:
    late = TransactionIndex(RealFileSystem(), str(tmp_path / "i.txnindex"), 25)

    with pytest.raises(CorruptIndexError):
        late.sanity_check()


def test_what_is_made_anew_as_it_was_is_not_written(index: TransactionIndex) -> None:
    data = Path(index.path).read_bytes()
    index.reset()

    index.append(FIRST)
    assert Path(index.path).read_bytes() == data  # never shorter on the way
    index.append(SECOND)
    index.trim()

    assert Path(index.path).read_bytes() == data
    assert index.entries == [FIRST, SECOND]


def test_entries_that_are_not_made_anew_are_cut_off(index: TransactionIndex) -> None:
    index.reset()
    index.append(SECOND)
    index.trim()

    assert TransactionIndex(RealFileSystem(), index.path, 0).entries == [SECOND]
