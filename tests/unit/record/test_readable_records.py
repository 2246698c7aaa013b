"""The records of a batch come out at once as they do one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.errors import KafkaError
from kbroker.record import readable_records as module
from kbroker.record import record_batch
from kbroker.record.compression import CODEC_IDS
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import TIMESTAMP_TYPE_BIT, BatchOptions, Record, read_header

TIME = 1_700_000_000_000
ENTRIES = [Record(n, TIME + n, b"key", b"v" * 70, (("h", b"1"),)) for n in range(3)]


def readable(batch: bytes | bytearray) -> list[Record | tuple[str, str | None]]:
    return [
        (found.code.name, found.message) if isinstance(found, KafkaError) else found
        for found in readable_records(read_header(batch), bytes(batch))
    ]


def one_by_one(batch: bytes | bytearray) -> list[Record | tuple[str, str | None]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "AT_ONCE_BYTES", -1)
        return readable(batch)


@pytest.mark.parametrize("codec", CODEC_IDS.values())
@pytest.mark.parametrize("flags", [0, TIMESTAMP_TYPE_BIT])
def test_a_sound_batch_gives_its_records(codec: int, flags: int) -> None:
    options = BatchOptions(flags=flags, compression=codec, max_timestamp=TIME + 9)
    batch = record_batch.build(ENTRIES, options=options)

    assert readable(batch) == list(record_batch.records(batch)) == one_by_one(batch)


@given(st.data())
def test_a_damaged_batch_gives_what_it_gives_one_by_one(data: st.DataObject) -> None:
    batch = bytearray(record_batch.build(ENTRIES))
    place = data.draw(st.integers(57, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255))

    assert readable(batch) == one_by_one(batch)
