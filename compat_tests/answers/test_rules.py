"""Raw sequences of access rules, and the words of refusals, held against what Apache Kafka 3.9.2 and
4.3.1 answered to the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from compat_tests.answers import refusals
from compat_tests.answers.authorized import Authorized, kbroker
from compat_tests.answers.rules import RECORDED, RECORDED_SEQUENCES, Played, play, unexplained


@pytest.fixture(scope="module")
def broker(target: str) -> Iterator[Authorized]:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    with kbroker() as running:
        yield running


def test_who_has_no_rights_is_refused_in_the_words_of_apache_kafka(broker: Authorized) -> None:
    assert refusals.unexplained(refusals.said(broker)) == []


def test_rules_are_answered_as_apache_kafka_answers_them(broker: Authorized) -> None:
    ours = play(Played(broker), RECORDED_SEQUENCES)

    assert unexplained(ours, json.loads(RECORDED.read_text())) == []
