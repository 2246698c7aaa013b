from __future__ import annotations

import csv
import io
import json

import pytest

from kbroker.cli.shown.record_printer import PrintForm, RecordPrinter
from kbroker.cli.shown.value_form import ValueForm
from kbroker.decoding.record_rows import headers_of, json_text, text_of
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

RECORDS = [
    Record(0, 1_700_000_000_000, None, b"plain"),
    Record(1, -1, b"", b"", (("a", b"1"), ("a", None), ("\udcff", b"\xff"))),
    Record(5, 0, b'"\\\n\x7f', "値\U0001f600\u2028".encode()),
    Record(6, 1, b"\xff\xfe", None),
]
PLACE = TopicPartition('t"t', 3)


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


def printed(output: str, *batches: list[Record], **form: object) -> bytes:
    stream = io.BytesIO()
    printer = RecordPrinter(PrintForm(output=output, **form), stream)
    for records in batches:
        printer.print(PLACE, records)
    printer.end()
    return stream.getvalue()


def test_each_line_is_what_json_makes_of_the_row() -> None:
    expected = "".join(json_text(row(record)) + "\n" for record in RECORDS)

    assert printed("jsonl", RECORDS[:1], RECORDS[1:]) == expected.encode()


def test_json_is_one_list() -> None:
    rows = ",\n  ".join(json_text(row(record)) for record in RECORDS)

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
    assert [row["key"] for row in rows] == ["", "", '"\\\n\x7f', '{"base64": "//4="}']
    assert [json.loads(row["headers"]) for row in rows] == [
        headers_of(record.headers) for record in RECORDS
    ]


def test_csv_tells_null_from_empty() -> None:
    lines = printed("csv", [Record(0, 1, None, b""), Record(1, 1, b"", None)]).splitlines()

    assert lines[1:] == [b'"t""t",3,0,1,,"",[]', b'"t""t",3,1,1,"",,[]']


def test_a_table_is_the_values_alone() -> None:
    assert printed("table", RECORDS[:2], RECORDS[3:]) == b"plain\n\n\n"


def test_the_next_offsets_are_those_behind_what_was_printed() -> None:
    printer = RecordPrinter(PrintForm(), io.BytesIO())

    printer.print(TopicPartition("t", 0), RECORDS[:2])
    printer.print(TopicPartition("u", 0), RECORDS[2:])

    assert printer.printed == 4
    assert printer.next_offsets == {TopicPartition("t", 0): 2, TopicPartition("u", 0): 7}


def test_decoded_values_stand_as_json_in_rows_and_as_text_by_themselves() -> None:
    records = [Record(0, 1, b"\0\0\0\x2a", b'{"a": 1.10}'), Record(1, 1, None, None)]
    forms = {"key": ValueForm("int"), "value": ValueForm("json")}

    rows = [json.loads(line) for line in printed("jsonl", records, **forms).splitlines()]

    assert [(row["key"], row["value"]) for row in rows] == [(42, {"a": 1.1}), (None, None)]
    assert b'"value": {"a": 1.10}' in printed("jsonl", records, **forms)
    assert printed("table", records, **forms) == b'{"a": 1.1}\n\n'
    assert b',42,"{""a"": 1.1}",[]' in printed("csv", records, **forms)


def test_what_cannot_be_decoded_is_printed_as_it_is_and_told() -> None:
    stream = io.BytesIO()
    printer = RecordPrinter(PrintForm(output="jsonl", value=ValueForm("int")), stream)

    printer.print(PLACE, [Record(4, 1, None, b"\0\x05"), Record(5, 1, None, b"abc")])

    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [row["value"] for row in rows] == [5, "abc"]
    assert printer.failures == 1
    assert printer.first_failure is not None
    assert printer.first_failure.startswith('the value at offset 5 of t"t-3: an int has')
