"""Lines of standard input as records."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cli.records.line_form import (
    JsonLines,
    KeyedLines,
    LineForm,
    Part,
    PartitionChoice,
    ValueLines,
    unescaped,
)
from kbroker.cli.shown.record_printer import PrintForm, RecordPrinter
from kbroker.client.partitioner import partition_of
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import body_of, build_from_bodies, read_records
from kbroker.record.default_record import Record
from kbroker.record.record_batch import BatchOptions, read_header

NOW_MS = 1_700_000_000_000


def spread(count: int = 1, only: int | None = None, turn: int = 0) -> PartitionChoice:
    return PartitionChoice(count=count, only=0 if count == 1 else only, in_turn=lambda: turn)


def records_of(parts: Sequence[Part]) -> Iterator[tuple[int, Record]]:
    """Yield the records that a broker would store of rows."""
    for partition, bodies, times in parts:
        batch = build_from_bodies(bodies, None, times, BatchOptions())
        for record in read_records(read_header(batch), batch):
            yield partition, record


def row(**fields: object) -> bytes:
    return json.dumps({"value": "v"} | fields).encode()


def reasons(form: LineForm, *lines: bytes) -> list[tuple[int, str]]:
    return [tuple(bad) for bad in form.place(lines, NOW_MS)[1]]


def test_lines_are_values_of_the_partition_whose_turn_it_is() -> None:
    parts, bad = ValueLines(spread(3, turn=2), None, has_nulls=True).place([b"a", b""], NOW_MS)

    assert parts == [Part(2, [body_of(None, b"a"), body_of(None, None)])]
    assert bad == []


def test_lines_of_one_key_go_to_its_partition() -> None:
    parts, _ = ValueLines(spread(7), b"k", has_nulls=False).place([b"a", b""], NOW_MS)

    assert parts == [Part(partition_of(b"k", 7), [body_of(b"k", b"a"), body_of(b"k", b"")])]


def test_no_line_is_no_record() -> None:
    for form in (
        ValueLines(spread(), None, has_nulls=False),
        KeyedLines(spread(), b":", has_nulls=False),
        JsonLines(spread()),
    ):
        assert form.place([], NOW_MS) == ([], [])


def test_keys_end_at_the_first_separator_and_place_their_values() -> None:
    lines = [b"a:1", b"bb:2:3", b":", b"a:"]

    parts, bad = KeyedLines(spread(5), b":", has_nulls=True).place(lines, NOW_MS)

    placed = {part.partition: part.bodies for part in parts}
    assert placed[partition_of(b"a", 5)][0] == body_of(b"a", b"1")
    assert placed[partition_of(b"a", 5)][-1] == body_of(b"a", None)
    assert body_of(b"bb", b"2:3") in placed[partition_of(b"bb", 5)]
    assert body_of(b"", None) in placed[partition_of(b"", 5)]
    assert bad == []


def test_lines_without_separator_are_told_and_the_others_are_records() -> None:
    form = KeyedLines(spread(), b"->", has_nulls=False)

    parts, bad = form.place([b"a->1", b"b-1", b"", b"c->"], NOW_MS)

    assert parts == [Part(0, [body_of(b"a", b"1"), body_of(b"c", b"")])]
    assert [at for at, _ in bad] == [1, 2]
    assert "no key separator '->'" in bad[0].reason


def test_a_row_keeps_what_it_says_and_is_placed_by_its_key_where_it_does_not() -> None:
    lines = [
        row(partition=2, timestamp_ms=5, key="k", headers=[["a", "1"], ["a", None]], topic="x"),
        row(key="k", offset=9),
        row(value={"base64": "/w=="}, timestamp_ms=-1, headers={"h": ""}),
        row(timestamp_ms=-(1 << 63), partition=3),  # as a broker stores it, and consume prints it
        b" ",
        b"",
    ]

    parts, bad = JsonLines(spread(4, turn=1)).place(lines, NOW_MS)

    assert bad == []
    found = [(p, r.timestamp, r.key, r.value, r.headers) for p, r in records_of(parts)]
    assert found == [
        (2, 5, b"k", b"v", (("a", b"1"), ("a", None))),
        (partition_of(b"k", 4), NOW_MS, b"k", b"v", ()),
        (1, -1, None, b"\xff", (("h", b""),)),
        (3, -(1 << 63), None, b"v", ()),
    ]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"{", "not JSON at column 2"),
        (b"\xff", "not UTF-8 at byte 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b'{"key": "k"}', 'no "value"'),
        (row(vaule="v"), 'no field "vaule", did you mean value?'),
        (row(zzz=1), 'no field "zzz", there are: topic, partition'),
        (row(value=5), "its value cannot be written"),
        (row(value={"a": 1}), "in quotes"),
        (row(key={"base64": "?"}), "its base64 is broken"),
        (row(key="\ud800"), "half a character"),
        (row(partition=4), "no partition 4, the topic has 4"),
        (row(partition=-1), "no partition -1"),
        (row(partition="0"), 'its partition is "0", not a number'),
        (row(partition=True), "its partition is true"),
        (row(timestamp_ms=1.5), "its timestamp_ms is 1.5"),
        (row(timestamp_ms=1 << 63), "its timestamp_ms is 9223372036854775808"),
        (row(timestamp_ms=-(1 << 63) - 1), "its timestamp_ms is -9223372036854775809"),
        (row(headers=5), "its headers are not pairs"),
        (row(headers=[["a"]]), "its headers are not pairs"),
        (row(headers=[[1, "a"]]), "the name of a header is 1"),
        (row(headers=[["a", 1]]), "its header a cannot be written"),
    ],
)
def test_a_row_that_is_no_record_is_told(line: bytes, part: str) -> None:
    ((at, reason),) = reasons(JsonLines(spread(4)), row(), line, row())

    assert at == 1
    assert part in reason


fields = st.none() | st.binary(max_size=5) | st.text(max_size=3).map(str.encode)
names = st.text(st.characters(codec="utf-8"), max_size=3) | st.just("\udcff")
rows = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(-1, 2**45),
    key=fields,
    value=fields,
    headers=st.lists(st.tuples(names, fields), max_size=3).map(tuple),
)


@given(st.lists(rows, min_size=1, max_size=5))
def test_what_is_printed_as_jsonl_is_read_as_the_same_records(records: list[Record]) -> None:
    records = [record._replace(offset=n) for n, record in enumerate(records)]
    stream = io.BytesIO()
    RecordPrinter(PrintForm(output="jsonl"), stream).print(TopicPartition("t", 1), records)

    parts, bad = JsonLines(spread(3)).place(stream.getvalue().split(b"\n")[:-1], NOW_MS)

    assert bad == []
    assert list(records_of(parts)) == [(1, record) for record in records]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"\\t", b"\t"),
        (b"|", b"|"),
        (b"\t", b"\t"),
        (b"\\x1f", b"\x1f"),
        (b"\\xE9->\\0", b"\xe9->\0"),
        (b"\\\\t", b"\\t"),
        (b"\\|", b"\\|"),
        (b"\\", b"\\"),
        (b"\\x1", b"\\x1"),
    ],
)
def test_escapes_of_a_separator_are_the_bytes_that_they_stand_for(
    text: bytes, expected: bytes
) -> None:
    assert unescaped(text) == expected
