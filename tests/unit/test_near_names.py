"""Which names a person may have meant."""

from __future__ import annotations

import pytest

from kbroker.near_names import did_you_mean

TOPICS = ("payments", "orders", "orders-eu", "Orders-US")


@pytest.mark.parametrize(
    ("name", "shown", "hint"),
    [
        ("ordres", 3, ", did you mean orders, Orders-US or orders-eu?"),
        ("orders-u", 3, ", did you mean Orders-US, orders-eu or orders?"),
        ("ORDERS-US", 1, ", did you mean Orders-US?"),
        ("clicks", 3, ""),
    ],
)
def test_near_names_are_offered(name: str, shown: int, hint: str) -> None:
    assert did_you_mean(name, TOPICS, shown=shown) == hint
