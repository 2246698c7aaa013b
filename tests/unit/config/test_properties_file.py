from __future__ import annotations

import pytest

from kbroker.config.properties_file import parse_properties, properties_text

PROPERTIES = [
    ("a=1", {"a": "1"}),
    ("a = 1 ", {"a": "1"}),
    ("a: 1", {"a": "1"}),
    ("a 1", {"a": "1"}),
    ("a", {"a": ""}),
    ("a==1", {"a": "=1"}),
    ("  # note\n! note\n\na=1", {"a": "1"}),
    ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=x,\\\n    y,\\\n    z", {"a": "x,y,z"}),
    ("a=x\\\n#y", {"a": "x#y"}),
    ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
    ("a=x\\", {"a": "x"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\ b=c", {"a b": "c"}),
    ("a=\\u0041\\tB\\q", {"a": "A\tBq"}),
    ("a=C:\\\\kafka", {"a": "C:\\kafka"}),
    ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "values"), PROPERTIES)
def test_a_properties_file_is_read_as_java_reads_it(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


def test_a_properties_file_is_written_as_it_is_read() -> None:
    values = {"a": "x=y #z", "b.c": "C:\\kafka", "pem": "BEGIN\n+/=\n\nEND", "none": ""}

    text = properties_text(values)

    assert parse_properties(text) == values
    assert "pem=BEGIN\\n\\\n+/=\\n\\\n" in text
