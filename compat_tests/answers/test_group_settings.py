"""Raw sequences about settings of groups, compared with what Apache Kafka 4.3.1 answered to them."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.group_settings import DIFFERENT, RECORDED, kbroker, play
from compat_tests.answers.logins import unexplained


def test_settings_of_groups_are_answered_as_apache_kafka_answers_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker that serves consumer groups")
    with kbroker() as bootstrap:
        ours = play(bootstrap, 0)

    assert len(ours) == 100
    assert unexplained(ours, json.loads(RECORDED.read_text()), DIFFERENT) == []
