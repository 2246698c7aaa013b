"""Raw sequences of logins, held against what Apache Kafka 3.9.2 and 4.3.1 answered to the same."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.logins import RECORDED, kbroker, play, unexplained


def test_logins_are_answered_as_apache_kafka_answers_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with users of its own")
    with kbroker() as port:
        ours = play(port)

    assert len(ours) >= 150
    assert unexplained(ours, json.loads(RECORDED.read_text())) == []
