"""Prints records as kafka-console-consumer does: bytes as they are, after the fields that its
properties ask for.

    CreateTime:1764410400000<TAB>Partition:0<TAB>Offset:7<TAB>name:value<TAB>key<TAB>value
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from kbroker.cli.kafka_tools.idle_alarm import IdleAlarm
from kbroker.cli.kafka_tools.tool_options import ToolError, truth_of
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_PACKAGE = "org.apache.kafka.common.serialization."
_NUMBERS = {
    "ShortDeserializer": struct.Struct(">h"),
    "IntegerDeserializer": struct.Struct(">i"),
    "LongDeserializer": struct.Struct(">q"),
}
_AS_THEY_ARE = ("StringDeserializer", "ByteArrayDeserializer")
_FLAGS = {
    "print.timestamp": False,
    "print.partition": False,
    "print.offset": False,
    "print.headers": False,
    "print.key": False,
    "print.value": True,
}
_TEXTS = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")

Shown = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineForm:
    """The parts of a line: `flags` and `texts` by the names of Kafka's properties; `shown`: the
    functions that make text of a key, a value or a header's value, by deserializer.
    """

    flags: Mapping[str, bool]
    texts: Mapping[str, bytes]
    shown: Mapping[str, Shown]


def line_form(properties: Mapping[str, str]) -> LineForm:
    """Read the properties of the tool. ToolError for one that is not served."""
    for name in properties:
        if name not in (*_FLAGS, *_TEXTS, *_DESERIALIZERS):
            raise ToolError(f"--property {name} is not served here")
    return LineForm(
        flags={
            name: truth_of(name, properties.get(name, str(default)).strip().lower())
            for name, default in _FLAGS.items()
        },
        texts={name: properties.get(name, text).encode() for name, text in _TEXTS.items()},
        shown={name: _shown(properties.get(name)) for name in _DESERIALIZERS},
    )


def _shown(deserializer: str | None) -> Shown:
    name = (deserializer or _AS_THEY_ARE[0]).removeprefix(_PACKAGE)
    if name in _AS_THEY_ARE:
        return bytes
    if name not in _NUMBERS:
        served = ", ".join((*_AS_THEY_ARE, *_NUMBERS))
        raise ToolError(f"{deserializer} is not served here (there are {served})")
    form = _NUMBERS[name]

    def number(data: bytes) -> bytes:
        if len(data) != form.size:
            raise ToolError(f"{len(data)} bytes of a record are no number for {name}")
        return str(form.unpack(data)[0]).encode()

    return number


class RecordLines:
    """Prints records as lines; a `Printer`, owned by one thread."""

    def __init__(
        self,
        form: LineForm,
        stream: BinaryIO,
        time_words: Mapping[str, str],
        alarm: IdleAlarm,
    ) -> None:
        """`time_words`: the word for the time of records, by topic."""
        self._form = form
        self._stream = stream
        self._time_words = time_words
        self._alarm = alarm
        self.printed = 0
        self.next_offsets: dict[TopicPartition, int] = {}

    def print(self, place: TopicPartition, records: Sequence[Record]) -> None:
        """Print records of a partition, each as a line."""
        self._stream.write(b"".join(self._line(place, record) for record in records))
        self._stream.flush()
        self.printed += len(records)
        self.next_offsets[place] = records[-1].offset + 1
        self._alarm.came(self.printed)

    def end(self) -> None:
        self._alarm.stop()

    def _line(self, place: TopicPartition, record: Record) -> bytes:
        form = self._form
        flags, texts = form.flags, form.texts
        parts = []
        if flags["print.timestamp"]:
            word = self._time_words.get(place.topic, "CreateTime")
            parts.append(
                f"{word}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP"
            )
        if flags["print.partition"]:
            parts.append(b"Partition:%d" % place.partition)
        if flags["print.offset"]:
            parts.append(b"Offset:%d" % record.offset)
        if flags["print.headers"]:
            parts.append(self._headers(record))
        if flags["print.key"]:
            parts.append(self._field("key.deserializer", record.key))
        end = b""
        if flags["print.value"]:
            parts.append(self._field("value.deserializer", record.value))
            end = texts["line.separator"]
        return texts["key.separator"].join(parts) + end

    def _headers(self, record: Record) -> bytes:
        found = [
            name.encode(errors="surrogateescape")
            + b":"
            + self._field("headers.deserializer", value)
            for name, value in record.headers
        ]
        return self._form.texts["headers.separator"].join(found) or b"NO_HEADERS"

    def _field(self, deserializer: str, data: bytes | None) -> bytes:
        if data is None:
            return self._form.texts["null.literal"]
        return self._form.shown[deserializer](data)
