"""RecordPrinter: prints records in the chosen form, many in one write.

The rows are those of `record_rows`. Law: in json, jsonl and csv, null, empty and binary values look
different, because they mean different things in a topic: null deletes a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from kbroker.cli.shown.output import csv_cell
from kbroker.cli.shown.record_format import RecordFormat
from kbroker.cli.shown.value_form import ValueForm
from kbroker.decoding.record_rows import RECORD_COLUMNS, headers_of, json_text
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_CSV_HEAD = ",".join(RECORD_COLUMNS) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintForm:
    """The form of printed records: `output` is table (values only), json, jsonl or csv; a `text`
    with verbs wins over it.
    """

    output: str = "table"
    text: str | None = None
    key: ValueForm = field(default_factory=ValueForm)
    value: ValueForm = field(default_factory=ValueForm)


class RecordPrinter:
    """Prints to one stream; owned by one thread."""

    def __init__(self, form: PrintForm, stream: BinaryIO) -> None:
        """Raises UsageError for a text with unknown verbs."""
        self._form = form
        self._output = form.output
        self._stream = stream
        self._text = None if form.text is None else RecordFormat(form.text, form.key, form.value)
        self.printed = 0  # records
        self.next_offsets: dict[TopicPartition, int] = {}  # behind the last printed record
        self.first_failure: str | None = None  # of a decoder

    @property
    def failures(self) -> int:
        return self._form.key.failures + self._form.value.failures

    def print(self, place: TopicPartition, records: Sequence[Record]) -> None:
        """Print records of a partition: they have left this process when this returns."""
        if self._text is not None:
            self._stream.write(self._text.lines(place.topic, place.partition, records))
            self._stream.flush()
        elif self._output == "table":
            self._print_values(records)
        elif self._output == "csv":
            self._write(("" if self.printed else _CSV_HEAD) + self._csv(place, records))
        elif self._output == "jsonl":
            rows = self._json(place, records)
            rows.append("")
            self._write("\n".join(rows))
        else:
            lead = ",\n  " if self.printed else "[\n  "
            self._write(lead + ",\n  ".join(self._json(place, records)))
        self.printed += len(records)
        self.next_offsets[place] = records[-1].offset + 1
        if self.first_failure is None and self.failures:
            self.first_failure = self._failure_in(place, records)

    def end(self) -> None:
        """Close what `print` opened; without any record, print the empty form."""
        if self._text is not None:
            return
        if self._output == "json":
            self._write("\n]\n" if self.printed else "[]\n")
        elif self._output == "csv" and not self.printed:
            self._write(_CSV_HEAD)

    def _write(self, text: str) -> None:
        self._stream.write(text.encode())
        self._stream.flush()

    def _print_values(self, records: Sequence[Record]) -> None:
        form = self._form.value
        if form.name is None:
            values = [record.value or b"" for record in records]
        else:
            values = [form.text(record.value) for record in records]
        values.append(b"")  # a line feed after the last one too
        self._stream.write(b"\n".join(values))
        self._stream.flush()

    def _json(self, place: TopicPartition, records: Sequence[Record]) -> list[str]:
        """Each row as `json_text` writes it."""
        key_json, value_json = self._form.key.json, self._form.value.json
        lead = f'{{"topic": {json_text(place.topic)}, "partition": {place.partition}, "offset": '
        return [
            f'{lead}{offset}, "timestamp_ms": {timestamp}, "key": {key_json(key)}, '
            f'"value": {value_json(value)}, '
            f'"headers": {json_text(headers_of(headers)) if headers else "[]"}}}'
            for offset, timestamp, key, value, headers in records
        ]

    def _csv(self, place: TopicPartition, records: Sequence[Record]) -> str:
        key_cell, value_cell = self._form.key.cell, self._form.value.cell
        lead = f"{csv_cell(place.topic)},{place.partition},"
        return "".join(
            f"{lead}{offset},{timestamp},{csv_cell(key_cell(key))},{csv_cell(value_cell(value))},"
            f"{csv_cell(json_text(headers_of(headers)))}\n"
            for offset, timestamp, key, value, headers in records
        )

    def _failure_in(self, place: TopicPartition, records: Sequence[Record]) -> str | None:
        for record in records:
            for name, form, data in (
                ("key", self._form.key, record.key),
                ("value", self._form.value, record.value),
            ):
                reason = form.reason(data)
                if reason is not None:
                    return (
                        f"the {name} at offset {record.offset} of {place}: {reason}; choose "
                        f"another --{name}-decoder, or none"
                    )
        return None
