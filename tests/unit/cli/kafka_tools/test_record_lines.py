"""Records in the form of Kafka's console consumer."""

from __future__ import annotations

import io

import pytest

from kbroker.cli.kafka_tools.idle_alarm import IdleAlarm
from kbroker.cli.kafka_tools.record_lines import RecordLines, line_form
from kbroker.cli.kafka_tools.tool_options import ToolError
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

PLACE = TopicPartition("orders", 2)
ALL = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "headers", "key", "value")
}
RECORD = Record(7, 1_000, b"k", b"v", (("a", b"1"), ("b", None)))


def printed(properties: dict[str, str], *records: Record, word: str = "CreateTime") -> bytes:
    stream = io.BytesIO()
    lines = RecordLines(line_form(properties), stream, {"orders": word}, IdleAlarm(None, None))
    lines.print(PLACE, records)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, b"v\n"),
        ({"print.key": "TRUE"}, b"k\tv\n"),
        ({"print.key": "true", "key.separator": " = "}, b"k = v\n"),
        ({"print.key": "true", "print.value": "false"}, b"k"),
        ({"line.separator": "|"}, b"v|"),
        (ALL, b"CreateTime:1000\tPartition:2\tOffset:7\ta:1,b:null\tk\tv\n"),
        ({"print.headers": "true", "headers.separator": ";", "null.literal": "-"}, b"a:1;b:-\tv\n"),
    ],
)
def test_a_line_has_what_its_properties_say(properties: dict[str, str], line: bytes) -> None:
    assert printed(properties, RECORD) == line


def test_what_a_record_has_not_is_said() -> None:
    bare = Record(7, -1, None, None)

    assert printed(ALL, bare) == b"NO_TIMESTAMP\tPartition:2\tOffset:7\tNO_HEADERS\tnull\tnull\n"


def test_a_time_that_the_broker_gave_is_named_so() -> None:
    assert printed({"print.timestamp": "true"}, RECORD, word="LogAppendTime") == (
        b"LogAppendTime:1000\tv\n"
    )


def test_bytes_stay_as_they_are() -> None:
    assert printed({}, RECORD._replace(value=b"\xff\x00")) == b"\xff\x00\n"


@pytest.mark.parametrize(
    ("deserializer", "data", "text"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\0" * 7 + b"\x07", b"7\n"),
        ("IntegerDeserializer", b"\xff" * 4, b"-1\n"),
        ("StringDeserializer", b"7", b"7\n"),
    ],
)
def test_numbers_are_told_by_their_deserializer(
    deserializer: str, data: bytes, text: bytes
) -> None:
    record = RECORD._replace(value=data)

    assert printed({"value.deserializer": deserializer}, record) == text


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"print.epoch": "true"}, "--property print.epoch is not served here"),
        ({"print.key": "yes"}, "--property print.key=yes is neither true nor false"),
        ({"key.deserializer": "my.Own"}, "my.Own is not served here"),
        ({"value.deserializer": "LongDeserializer"}, "1 bytes of a record are no number"),
    ],
)
def test_what_is_not_served_is_named(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        printed(properties, RECORD)
