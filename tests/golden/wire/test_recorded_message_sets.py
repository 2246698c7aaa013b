"""Message sets of formats 0 and 1 that real clients sent to Apache Kafka, and that it sent to them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from kbroker.errors import KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.protocol.codec import decode
from kbroker.protocol.header import decode_request_header, decode_response_header
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.golden.wire.test_recorded_frames import recorded

PRODUCE, FETCH = 0, 1
LAST_OLD_PRODUCE, LAST_OLD_FETCH = 2, 3


def produced_sets() -> Iterator[bytes]:
    for frame in recorded()[PRODUCE, "req"]:
        if frame["version"] <= LAST_OLD_PRODUCE:
            data = base64.b64decode(frame["b64"])
            _, offset = decode_request_header(data)
            request, _ = decode(ProduceRequest, frame["version"], data, offset)
            for topic in request.topic_data:
                yield from (bytes(part.records or b"") for part in topic.partition_data)


def fetched_sets() -> Iterator[tuple[int, bytes]]:
    """(newest format of the version, records)."""
    for frame in recorded()[FETCH, "res"]:
        version = frame["version"]
        if version <= LAST_OLD_FETCH:
            data = base64.b64decode(frame["b64"])
            _, offset = decode_response_header(data, FETCH, version)
            answer, _ = decode(FetchResponse, version, memoryview(bytearray(data)), offset)
            for topic in answer.responses:
                for part in topic.partitions:
                    yield min(version // 2, 1), bytes(part.records or b"")  # type: ignore[arg-type]


def test_what_clients_produced_is_taken(tmp_path: Path) -> None:
    taken = 0
    for index, data in enumerate(produced_sets()):
        log = open_log(tmp_path / str(index))
        info = log.append_as_leader(bytearray(data), 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)
        taken += info.last_offset + 1
        log.close()

    assert taken > 100


def test_what_apache_kafka_sent_is_read() -> None:
    walked = 0
    for newest, data in fetched_sets():
        position = 0
        while len(data) - position > 17:
            try:
                header = read_any_header(data, position)
            except KafkaError:
                break  # cut off at the end
            message = data[position : position + header.size_bytes]
            if len(message) < header.size_bytes:
                break
            assert header.magic <= newest
            assert is_intact(header, message)
            walked += len(list(any_records(message)))
            position += header.size_bytes

    assert walked > 100
