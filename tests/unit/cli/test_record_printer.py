from __future__ import annotations

import csv
import io
import json

import pytest

from kbroker.cli.record_printer import RecordPrinter
from kbroker.cli.record_rows import headers_of, text_of
from kbroker.record.default_record import Record

RECORDS = [
    Record(0, 1_700_000_000_000, None, b"plain"),
    Record(1, -1, b"", b"", (("a", b"1"), ("a", None), ("\udcff", b"\xff"))),
    Record(5, 0, b'"\\\n\x7f', "値\U0001f600\u2028".encode()),
    Record(6, 1, b"\xff\xfe", None),
]


def row(record: Record) -> dict[str, object]:
    return {
        "topic": 't"t',
        "partition": 3,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": headers_of(record.headers),
    }


def printed(output: str, *batches: list[Record]) -> bytes:
    stream = io.BytesIO()
    printer = RecordPrinter(output, stream)
    for records in batches:
        printer.print('t"t', 3, records)
    printer.end()
    return stream.getvalue()


def test_each_line_is_what_json_makes_of_the_row() -> None:
    expected = "".join(json.dumps(row(record)) + "\n" for record in RECORDS)

    assert printed("jsonl", RECORDS[:1], RECORDS[1:]) == expected.encode()


def test_json_is_one_list() -> None:
    rows = ",\n  ".join(json.dumps(row(record)) for record in RECORDS)

    assert printed("json", RECORDS[:2], RECORDS[2:]) == f"[\n  {rows}\n]\n".encode()


@pytest.mark.parametrize(
    ("output", "empty"),
    [
        ("json", "[]\n"),
        ("jsonl", ""),
        ("table", ""),
        ("csv", "topic,partition,offset,timestamp_ms,key,value,headers\n"),
    ],
)
def test_no_record_is_an_empty_output(output: str, empty: str) -> None:
    assert printed(output) == empty.encode()


def test_csv_has_the_same_cells() -> None:
    rows = list(csv.DictReader(io.StringIO(printed("csv", RECORDS).decode(), newline="")))

    assert [row["value"] for row in rows] == ["plain", "", "値\U0001f600\u2028", ""]
    assert [json.loads(row["headers"]) for row in rows] == [
        headers_of(record.headers) for record in RECORDS
    ]


def test_a_table_is_the_values_alone() -> None:
    assert printed("table", RECORDS[:2], RECORDS[3:]) == b"plain\n\n\n"


def test_the_next_offsets_are_those_behind_what_was_printed() -> None:
    printer = RecordPrinter("table", io.BytesIO())

    printer.print("t", 0, RECORDS[:2])
    printer.print("t", 1, RECORDS[2:])

    assert (printer.printed, printer.next_offsets) == (4, {0: 2, 1: 7})
