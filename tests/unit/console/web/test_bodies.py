from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kbroker.console.web.api.bodies import body_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A part of a body."""

    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """A body with a field of each kind."""

    name: str
    is_sure: bool = False
    numbers: Sequence[int] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    places: Sequence[Inner] = ()


def test_a_body_becomes_a_value_of_its_type() -> None:
    sent = {
        "name": "a", "is_sure": True, "numbers": [1, 2], "settings": {"b": "c"},
        "places": [{"offset": 7}, {"offset": None}, {}],
    }  # fmt: skip

    assert body_of(Outer, json.dumps(sent).encode()) == Outer(
        name="a",
        is_sure=True,
        numbers=(1, 2),
        settings={"b": "c"},
        places=(Inner(offset=7), Inner(), Inner()),
    )
    assert body_of(Outer, b'{"name": "a"}') == Outer(name="a")


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ([], "the body is an object, and not []"),
        ({}, "the body lacks the field name"),
        ({"name": 1}, "name is a text, and not 1"),
        ({"name": "a", "is_sure": 1}, "is_sure is true or false, and not 1"),
        ({"name": "a", "numbers": [True]}, "numbers[0] is a whole number, and not true"),
        ({"name": "a", "numbers": 7}, "numbers is a list, and not 7"),
        ({"name": "a", "settings": {"b": None}}, "settings.b is a text, and not null"),
        ({"name": "a", "places": [{"at": 1}]}, "places[0] has no field 'at'; there are offset"),
        ({"name": "a", "places": [{"offset": 1.5}]}, "offset is a whole number, and not 1.5"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(sent: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the sentence is compared whole
        body_of(Outer, json.dumps(sent).encode())

    assert str(refused.value) == sentence


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="the body is not JSON"):
        body_of(Outer, body)
