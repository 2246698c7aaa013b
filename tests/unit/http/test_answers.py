"""Answers over HTTP as bytes."""

from __future__ import annotations

import json

import pytest

from kbroker.http.answers import json_bytes


@pytest.mark.parametrize(
    "value",
    [None, [], {"a": [1, 2.5, "\u20ac\ud800\x1b<b>"], "b": {"c": None, "d": True}}, [[]] * 3],
)
def test_json_made_in_pieces_is_what_json_makes(value: object) -> None:
    assert json_bytes(value) == json.dumps(value, separators=(",", ":")).encode()
