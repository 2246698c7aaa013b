"""A batch that a coordinator builds is, byte for byte, what any batch of those records is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kbroker.record.built_batch import build_at_one_time
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    Record,
    build,
    read_header,
)

rows = st.lists(
    st.tuples(
        st.binary(max_size=200) | st.binary(min_size=8100, max_size=8300),
        st.none() | st.binary(max_size=200),
    ),
    min_size=1,
    max_size=80,
)
options = st.builds(
    BatchOptions,
    flags=st.sampled_from([0, TRANSACTIONAL_BIT, TRANSACTIONAL_BIT | CONTROL_BIT]),
    producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
)


@given(rows, options, st.integers(-1, 2**62))
def test_its_bytes_and_header_are_those_of_any_batch(
    records: list[tuple[bytes, bytes | None]], wanted: BatchOptions, time_ms: int
) -> None:
    expected = build(
        [Record(at, time_ms, key, value) for at, (key, value) in enumerate(records)],
        options=wanted,
    )

    batch = build_at_one_time(records, time_ms, replace(wanted))

    assert batch == expected
    assert batch.header == read_header(expected)


def test_a_thousand_records_are_as_any_batch_too() -> None:
    records = [(b"key-%d" % at, b"v" * at) for at in range(1_000)]

    expected = build([Record(at, 7, *record) for at, record in enumerate(records)])

    assert build_at_one_time(records, 7, BatchOptions()) == expected
