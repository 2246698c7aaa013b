"""RecordPrinter: records on standard output in the chosen form, many in one write.

The rows are those of `record_rows`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import BinaryIO

from kbroker.cli.record_rows import RECORD_COLUMNS, headers_of, json_of, text_of
from kbroker.record.default_record import Record


class RecordPrinter:
    """`output`: table (values only), json, jsonl or csv."""

    def __init__(self, output: str, stream: BinaryIO) -> None:
        self._output = output
        self._stream = stream
        self.printed = 0  # records
        self.next_offsets: dict[int, int] = {}  # by partition: behind the last printed record
        if output == "csv":
            self._write(",".join(RECORD_COLUMNS) + "\n")

    def print(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """Print records of a partition: they have left this process when this returns."""
        if self._output == "table":
            values = [record.value or b"" for record in records]
            values.append(b"")  # for a line feed behind the last one too
            self._stream.write(b"\n".join(values))
            self._stream.flush()
        elif self._output == "csv":
            self._write(_csv(topic, partition, records))
        elif self._output == "jsonl":
            rows = _json(topic, partition, records)
            rows.append("")
            self._write("\n".join(rows))
        else:
            lead = ",\n  " if self.printed else "[\n  "
            self._write(lead + ",\n  ".join(_json(topic, partition, records)))
        self.printed += len(records)
        self.next_offsets[partition] = records[-1].offset + 1

    def end(self) -> None:
        """Close what `print` opened."""
        if self._output == "json":
            self._write("\n]\n" if self.printed else "[]\n")

    def _write(self, text: str) -> None:
        self._stream.write(text.encode())
        self._stream.flush()


def _json(topic: str, partition: int, records: Sequence[Record]) -> list[str]:
    """Each row as `json.dumps` writes it."""
    lead = f'{{"topic": {json.dumps(topic)}, "partition": {partition}, "offset": '
    return [
        f'{lead}{offset}, "timestamp_ms": {timestamp}, "key": {json_of(key)}, '
        f'"value": {json_of(value)}, '
        f'"headers": {json.dumps(headers_of(headers)) if headers else "[]"}}}'
        for offset, timestamp, key, value, headers in records
    ]


def _csv(topic: str, partition: int, records: Sequence[Record]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        (topic, partition, offset, timestamp, text_of(key), text_of(value),
         json.dumps(headers_of(headers)))
        for offset, timestamp, key, value, headers in records
    )  # fmt: skip
    return out.getvalue()
