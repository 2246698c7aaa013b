"""Names of topics that are made of names of tests."""

from __future__ import annotations

import pytest

from kbroker.admin.topic_validation import validate_topic_name
from kbroker.testing.fresh_topic import fresh_name


@pytest.mark.parametrize("test", ["test_a", "test_a[x-1/ü b]", "t" * 500, "."])
def test_every_test_has_a_name_that_a_topic_may_have(test: str) -> None:
    validate_topic_name(fresh_name(test))


def test_a_name_begins_as_that_of_the_test() -> None:
    assert fresh_name("test_orders[book]").startswith("test_orders-book-")


def test_the_same_test_has_another_name_each_time() -> None:
    assert fresh_name("test_a") != fresh_name("test_a")
