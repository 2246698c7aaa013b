"""Sentences about unknown names."""

from __future__ import annotations

import pytest

from kbroker.client.unknown_names import no_such


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ordres", "no such topic: ordres, did you mean orders?"),
        ("sales", "no such topic: sales (see `kbroker topic list`)"),
        ("", "no such topic: '' (see `kbroker topic list`)"),
        (" ", "no such topic: ' ' (see `kbroker topic list`)"),
        ("a\x1b[31m\n", "no such topic: 'a\\x1b[31m\\n' (see `kbroker topic list`)"),
        ("orders ", "no such topic: 'orders ', did you mean orders?"),
    ],
)
def test_an_unknown_name_can_be_seen(name: str, sentence: str) -> None:
    assert no_such("topic", name, ["orders"]) == sentence
