"""Conditions on a place in JSON: what they find, what they compare, what is malformed."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.console.json_paths import json_condition

ORDER = {
    "id": 7,
    "paid": True,
    "note": None,
    "who": {"name": "ann", "first-name": "x y"},
    "lines": [{"price": 5.5}, {"price": 12}],
}


@pytest.mark.parametrize(
    "text",
    [
        "$.id",
        "$.note",
        "$",
        "  $.id == 7 ",
        "$.id=7",
        "$.id == 7.0",
        "$.id != 8",
        '$.id != "7"',
        "$.id > 6",
        "$.id >= 7",
        "$.id < 8",
        "$.id <= 7",
        "$.paid == true",
        "$.note == null",
        '$.who.name == "ann"',
        "$.who.name == ann",
        '$.who.name > "amy"',
        "$.who.first-name ~ x",
        "$['who'][\"name\"] ~ nn",
        "$.lines[1].price == 12",
        "$.lines[-1].price == 12",
        "$.lines[*].price > 10",
        "$.lines[*].price < 10",
        "$[*] == 7",
        "$.who ~ ann",
    ],
)
def test_a_condition_holds(text: str) -> None:
    assert json_condition(text).holds(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "$.other",
        "$.other != 1",
        '$.id == "7"',
        "$.id > 7",
        '$.id > "6"',
        "$.paid == 1",
        "$.paid > 0",
        "$.note == false",
        "$.lines[2]",
        "$.lines[-3]",
        "$.lines.price",
        "$.id[0]",
        "$.id.name",
        "$.lines[*].price > 12",
        "$.who.name ~ ANN",
    ],
)
def test_a_condition_does_not_hold(text: str) -> None:
    assert not json_condition(text).holds(ORDER)


@pytest.mark.parametrize("value", [1, "a", None, [], {}, True])
def test_any_value_may_be_asked(value: Any) -> None:
    assert not json_condition("$.a[0].b == 1").holds(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id", "does not begin with \\$"),
        ("$id", "neither a step nor a test"),
        ("$.a.", "neither a step nor a test"),
        ("$.a[b]", "neither a step nor a test"),
        ("$.a ==", "nothing follows =="),
        ("$.a > true", "neither less nor more"),
        ("$.a > [1]", "neither less nor more"),
        ("$.a; import os", "neither a step nor a test"),
        ("$" + ".a" * 600, "at most 1,000 letters"),
    ],
)
def test_a_malformed_condition_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        json_condition(text)


def test_what_looks_like_code_is_a_text() -> None:
    condition = json_condition("$.a == __import__('os').abort()")

    assert condition.holds({"a": "__import__('os').abort()"})
