"""Transaction markers that Kafka 3.9 wrote, built again."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.record.record_batch import (
    BatchHeader,
    BatchOptions,
    build_marker,
    read_control,
    read_header,
    records,
)
from tests.golden import golden_logs

OFFSETS, TRANSACTIONS = "__consumer_offsets-", "__transaction_state-"


def control_batches() -> Iterator[tuple[str, BatchHeader, bytes]]:
    """With the file that each is in."""
    for path, content in sorted(golden_logs.files("3.9.2-clean").items()):
        position = 0
        while path.endswith(".log") and position < len(content):
            header = read_header(content, position)
            end = position + header.size_bytes
            if header.magic == 2 and header.is_control:
                yield path, header, content[position:end]
            position = end


def test_a_marker_of_kafka_is_built_to_the_byte() -> None:
    found = list(control_batches())
    assert len(found) > 10
    for path, header, batch in found:
        (record,) = records(batch)
        control = read_control(record)
        assert control is not None
        options = BatchOptions(
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
        )
        built = build_marker(
            control, record.timestamp, base_offset=header.base_offset, options=options
        )
        assert built == batch, path
    assert any(path.startswith(OFFSETS) for path, _, _ in found)
    assert not any(path.startswith(TRANSACTIONS) for path, _, _ in found)
