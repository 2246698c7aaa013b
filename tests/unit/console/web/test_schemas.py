"""Schemas of the API describe the JSON that it answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from kbroker.console.web.api.answers import plain
from kbroker.console.web.api.schemas import Schemas

T = TypeVar("T")


class Colour(StrEnum):
    """A colour of something or other."""

    RED = "red"


class Place(NamedTuple):
    """A place of something or other."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Generic[T]):
    """Rows of something or other."""

    rows: tuple[T, ...]
    of: Colour | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The whole of something or other."""

    page: Rows[Place]
    by_number: Mapping[int, tuple[str, int]]
    data: bytes
    identity: UUID
    some: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A body of something or other."""

    name: str
    flags: Sequence[bool] = ()


def test_values_become_json_of_the_form_that_their_schema_says() -> None:
    value = Whole(
        page=Rows(rows=(Place("a", 1),), of=Colour.RED),
        by_number={7: ("x", 2)},
        data=b"\x00",
        identity=UUID(int=1),
        some=frozenset({2, 1}),
    )
    schemas = Schemas()

    assert plain(value) == {
        "page": {"rows": [{"name": "a", "number": 1}], "of": "red"},
        "by_number": {"7": ["x", 2]},
        "data": "AA==",
        "identity": "00000000-0000-0000-0000-000000000001",
        "some": [1, 2],
    }
    assert schemas.of(Whole) == {"$ref": "#/components/schemas/Whole"}
    assert schemas.components["Whole"]["required"] == [*Whole.__slots__]
    assert schemas.components["Whole"]["properties"] == {
        "page": {"$ref": "#/components/schemas/RowsPlace"},
        "by_number": {
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
        "data": {"type": "string", "contentEncoding": "base64"},
        "identity": {"type": "string", "format": "uuid"},
        "some": {"type": "array", "items": {"type": "integer"}},
    }
    assert schemas.components["RowsPlace"]["properties"]["rows"]["items"] == {
        "$ref": "#/components/schemas/Place"
    }
    assert schemas.components["Place"]["description"] == "A place of something or other."


def test_a_body_may_lack_what_has_a_default() -> None:
    answered, sent = Schemas(), Schemas(of_bodies=True)

    answered.of(Sent)
    sent.of(Sent)

    assert answered.components["Sent"]["required"] == ["name", "flags"]
    assert sent.components["Sent"]["required"] == ["name"]
