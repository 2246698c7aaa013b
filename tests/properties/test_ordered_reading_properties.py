"""Whatever the hours and the batches that records were archived in, they come back in order."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archiving.reader import ArchiveSelection
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, arrow_batch, record
from tests.fakes.archives.parquet_archive import archive_rows, entries_of, merge_hours

maybe_bytes = st.none() | st.binary(max_size=5)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["", "a", "ключ"]), "value": maybe_bytes}),
    max_size=3,
)
times = st.just(-1) | st.builds(
    lambda hour, ms: BASE_MS + hour * HOUR_MS + ms, st.integers(-3, 3), st.integers(0, 5)
)
rows = st.builds(
    dict,
    key=maybe_bytes,
    value=maybe_bytes,
    timestamp=times,
    timestampType=st.sampled_from([-1, 0, 1]),
    headers=headers,
)
steps = st.sampled_from([1, 1, 1, 2, 1000])
archived = st.lists(
    st.lists(st.tuples(steps, rows), min_size=1, max_size=12), min_size=1, max_size=5
)
targets = st.sampled_from([None, 3_000, 1 << 20])  # bytes of a merged file; one is about 2,000
bounds = st.none() | st.integers(0, 60)


def placed(batches: list[list[tuple[int, dict[str, Any]]]]) -> list[list[dict[str, Any]]]:
    """The rows with their offsets."""
    offsets = accumulate(step for batch in batches for step, _ in batch)
    return [[record(next(offsets), **fields) for _, fields in batch] for batch in batches]


@settings(max_examples=25)  # each writes and syncs some dozen files
@given(archived, targets, bounds, bounds)
def test_rows_come_back_as_they_were_by_rising_offset(
    batches: list[list[tuple[int, dict[str, Any]]]],
    target_bytes: int | None,
    start_offset: int | None,
    end_offset: int | None,
) -> None:
    archived_rows = placed(batches)
    wanted = ArchiveSelection(start_offset=start_offset, end_offset=end_offset)
    with tempfile.TemporaryDirectory() as path:
        archive_rows(path, *archived_rows)
        if target_bytes is not None:
            merge_hours(path, target_bytes)

        found = list(ordered_rows(path, entries_of(path), wanted))

    expected = [
        row
        for batch in archived_rows
        for row in batch
        if (start_offset is None or row["offset"] >= start_offset)
        and (end_offset is None or row["offset"] < end_offset)
    ]
    assert [row for batch in found for row in batch.to_pylist()] == without_place(expected)


def without_place(expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not expected:
        return []
    rows = arrow_batch(expected).drop_columns(["topic", "partition"]).to_pylist()
    return [row | {"timestampMs": None, "headerNames": None} for row in rows]
