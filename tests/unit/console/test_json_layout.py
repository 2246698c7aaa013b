"""JSON in several lines says what it said in one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.console.json_layout import indented

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 3]))
def test_values_stay_the_same(value: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)

    laid_out = indented(text)

    assert json.loads(laid_out) == value
    assert laid_out == json.dumps(value, ensure_ascii=is_ascii, indent=2)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"a":1.10,"a":2}', ["{", '  "a": 1.10,', '  "a": 2', "}"]),
        ('["{,}:\\"]", 1e400]', ["[", '  "{,}:\\"]",', "  1e400", "]"]),
        ("12345678901234567890.0", ["12345678901234567890.0"]),
    ],
)
def test_names_and_numbers_stay_as_they_were_written(text: str, lines: list[str]) -> None:
    assert indented(text).splitlines() == lines


def test_a_text_that_would_become_much_longer_stays_in_one_line() -> None:
    deep = "[" * 900 + ",".join("1" * 100_000) + "]" * 900

    assert indented(deep) is deep
