"""Records by a text with verbs."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.shown.record_format import RecordFormat
from kbroker.cli.shown.value_form import ValueForm
from kbroker.record.default_record import Record

RECORDS = [
    Record(7, 1_700_000_000_123, b"k", b"100%b", (("a", b"1"), ("b", None))),
    Record(8, -1, None, None),
]


def lines(text: str, value_decoder: str | None = None) -> bytes:
    return RecordFormat(text, ValueForm(), ValueForm(value_decoder)).lines("t%", 3, RECORDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t-%p@%o\n", b"t%-3@7\nt%-3@8\n"),
        (r"%k=%v|", b"k=100%b|=|"),
        (r"%s\t%S %K;", b"100%b\t5 1;\t-1 -1;"),
        (r"%T %d;", b"1700000000123 2023-11-14T22:13:20.123Z;-1 ;"),
        (r"[%h]", b"[a=1,b=][]"),
        (r"\x25\\\x41%%\0", b"%\\A%\0%\\A%\0"),
        (r"%t\r", b"t%\rt%\r"),
        ("値\n", "値\n値\n".encode()),
        ("", b""),
    ],
)
def test_verbs_and_escapes_stand_for_what_kcat_has(text: str, expected: bytes) -> None:
    assert lines(text) == expected


def test_a_decoder_says_what_a_value_is() -> None:
    assert lines("%v;", "hex") == b"3130302562;;"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("%x", "there is no %x"),
        (r"\q", r"there is no \q"),
        ("%v%", "'%' at its end"),
        ("\\", "'\\'"),
    ],
)
def test_what_means_nothing_is_told(text: str, part: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        lines(text)

    assert part in refused.value.message
