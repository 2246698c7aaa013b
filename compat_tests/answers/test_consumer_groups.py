"""Raw sequences of consumer groups, compared with what Apache Kafka 4.3.1 answered to them."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.consumer_groups import DIFFERENT, RECORDED, ours
from compat_tests.answers.logins import unexplained


def test_consumer_groups_are_answered_for_as_apache_kafka_answers_for_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker whose targets come at once")
    found = ours()

    assert len(found) == 213 + 3 * 37
    assert unexplained(found, json.loads(RECORDED.read_text()), DIFFERENT) == []
