"""Raw sequences of access rules, held against what Apache Kafka 3.9.2 and 4.3.1 answered to the same."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.authorized import kbroker
from compat_tests.answers.rules import RECORDED, RECORDED_SEQUENCES, Played, play, unexplained


def test_rules_are_answered_as_apache_kafka_answers_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    theirs = json.loads(RECORDED.read_text())
    with kbroker() as broker:
        ours = play(Played(broker), RECORDED_SEQUENCES)

    assert unexplained(ours, theirs) == []
