"""Raw sequences of delegation tokens, held against what Apache Kafka 3.9.2 and 4.3.1 answered to the
same.
"""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.authorized import kbroker
from compat_tests.answers.logins import unexplained
from compat_tests.answers.token_steps import Stage
from compat_tests.answers.tokens import DIFFERENT, RECORDED, WITH_TOKENS, play


def test_delegation_tokens_are_answered_as_apache_kafka_answers_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with tokens")
    with kbroker(WITH_TOKENS) as broker:
        ours = play(Stage(broker))

    assert len(ours) >= 60
    assert unexplained(ours, json.loads(RECORDED.read_text()), DIFFERENT) == []
