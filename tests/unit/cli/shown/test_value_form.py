"""What decoders make of keys and values."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest

from kbroker.cli.shown.value_form import ValueForm


@pytest.mark.parametrize(
    ("decoder", "data", "expected"),
    [
        (None, b"a\xc3\xa4", "aä"),
        (None, b"\xff", {"base64": "/w=="}),
        (None, b"", ""),
        ("utf-8", "値".encode(), "値"),
        ("int", b"\xff", -1),
        ("int", b"\x01\x00", 256),
        ("int", b"\x00\x00\x00\x2a", 42),
        ("int", b"\x80" + bytes(7), -(2**63)),
        ("hex", b"\x00\xff", "00ff"),
        ("base64", b"\x00\xff", "AP8="),
        ("json", b'{"a":\n [1, null]}', {"a": [1, None]}),
        ("json", b'"\\ud800"', "\ud800"),
    ],
)
def test_bytes_are_what_the_decoder_says(
    decoder: str | None, data: bytes, expected: object
) -> None:
    form = ValueForm(decoder)

    text = form.json(data)

    assert json.loads(text) == expected
    assert "\n" not in text
    text.encode()
    assert form.failures == 0


@pytest.mark.parametrize("decoder", [None, "utf-8", "int", "hex", "base64", "json"])
def test_null_is_null_whatever_the_decoder(decoder: str | None) -> None:
    form = ValueForm(decoder)

    assert (form.json(None), form.text(None), form.cell(None)) == ("null", b"", None)
    assert form.failures == 0


@pytest.mark.parametrize(
    ("decoder", "data"),
    [("utf-8", b"\xff"), ("int", b"abc"), ("json", b"{"), ("json", b""), ("json", b"[" * 100_000)],
)
def test_what_is_something_else_stays_and_is_counted(decoder: str, data: bytes) -> None:
    form, plain = ValueForm(decoder), ValueForm()

    assert form.json(data) == plain.json(data)
    assert form.text(data) == data
    assert form.failures == 2
    assert form.reason(data)


def test_what_is_not_json_is_told_with_its_beginning() -> None:
    assert ValueForm("json").reason(b"hello") == "'hello' is not JSON"
    assert ValueForm("json").reason(b"x" * 41) == f"'{'x' * 40}...' is not JSON"


def test_json_takes_several_lines_where_it_is_to_be_pretty() -> None:
    assert ValueForm("json", pretty=True).text(b'{"a":1}') == b'{\n  "a": 1\n}'
    assert ValueForm("json").text(b'{"a":1}') == b'{"a": 1}'


def test_a_decoder_that_there_is_not_is_told() -> None:
    with pytest.raises(click.UsageError, match="decoder 'rot13' is none of utf-8"):
        ValueForm("rot13")


def test_avro_without_its_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "kbroker.decoding.avro_decoder", raising=False)

    with pytest.raises(click.UsageError, match="pip install"):
        ValueForm("avro:some.avsc")


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}
DATUM = b"\x02" + b"\x02\x04hi" + b"\x02\xff" + b"\x02"
JSON = {"id": 1, "note": "hi", "raw": {"base64": "/w=="}, "day": "1970-01-02"}


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\0\x07"])
def test_avro_is_read_by_a_schema_with_and_without_the_id_of_one(
    tmp_path: Path, frame: bytes
) -> None:
    pytest.importorskip("fastavro")
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(SCHEMA))
    form = ValueForm(f"avro:{path}")

    assert json.loads(form.json(frame + DATUM)) == JSON
    assert form.json(frame + DATUM + b"x") != form.json(frame + DATUM)
    assert form.failures == 1


def test_an_avro_datum_that_begins_with_a_zero_is_read(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    path = tmp_path / "long.avsc"
    path.write_text('{"type": "array", "items": "string"}')

    assert ValueForm(f"avro:{path}").json(b"\0") == "[]"


def test_a_schema_that_is_not_there_is_told(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")

    with pytest.raises(
        click.UsageError,
        match=r"cannot read the schema of avro:\S+none\.avsc: No such file or directory; give",
    ):
        ValueForm(f"avro:{tmp_path / 'none.avsc'}")


@pytest.mark.parametrize("content", ["{", '{"type": "nonsense"}'])
def test_a_schema_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    pytest.importorskip("fastavro")
    path = tmp_path / "bad.avsc"
    path.write_text(content)

    with pytest.raises(click.UsageError, match=r"bad\.avsc"):
        ValueForm(f"avro:{path}")
