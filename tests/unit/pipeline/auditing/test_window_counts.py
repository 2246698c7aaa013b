from __future__ import annotations

from kbroker.pipeline.auditing.window_counts import (
    HOUR_MS,
    WindowCount,
    WindowCounter,
    merged_windows,
)
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    BatchOptions,
    Record,
    build,
    read_header,
)

AT = 500_000 * HOUR_MS


def header(*times: int, flags: int = 0) -> BatchHeader:
    records = [Record(index, time, b"k", b"v") for index, time in enumerate(times)]
    return read_header(build(records, options=BatchOptions(flags=flags)))


def test_a_batch_belongs_to_the_window_of_its_newest_record() -> None:
    counter = WindowCounter(HOUR_MS, by_record=False)
    counter.batch(header(AT - 5, AT + 7))
    counter.batch(header(AT + 9))

    (count,) = counter.windows.values()

    assert list(counter.windows) == [AT]
    assert (count.records, count.batches) == (3, 2)
    assert (count.min_timestamp_ms, count.max_timestamp_ms) == (AT + 7, AT + 9)


def test_with_a_deep_look_each_record_belongs_to_its_own() -> None:
    counter = WindowCounter(HOUR_MS, by_record=True)
    first = header(AT - 5, AT + 7)
    counter.batch(first)
    counter.records(first, 90, [AT - 5, AT + 7])

    windows = merged_windows([counter.windows])

    assert {start: count.records for start, count in windows.items()} == {AT - HOUR_MS: 1, AT: 1}
    assert windows[AT].size_bytes == first.size_bytes
    assert windows[AT].unpacked_bytes == 90
    assert windows[AT].compression_ratio == round(90 / first.size_bytes, 3)


def test_markers_and_records_without_time_have_their_own_places() -> None:
    counter = WindowCounter(HOUR_MS, by_record=False)
    counter.batch(header(AT, flags=CONTROL_BIT))
    counter.batch(header(-1, -1))

    assert counter.windows[AT] == WindowCount(
        batches=1, markers=1, size_bytes=header(AT).size_bytes
    )
    assert counter.windows[-1].records == 2
    assert counter.windows[-1].min_timestamp_ms == -1


def test_the_first_time_of_a_stamped_batch_is_not_believed() -> None:
    counter = WindowCounter(HOUR_MS, by_record=False)
    counter.batch(header(AT + 3, AT + 8, flags=TIMESTAMP_TYPE_BIT))

    assert counter.windows[AT].min_timestamp_ms == AT + 8
