"""The short form of the hunt for answers that differ from Apache Kafka's, and what it would find."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from compat_tests.answers import fetches, lookups, sessions, writes
from compat_tests.answers.allowed import unexplained
from compat_tests.answers.hunt import KBROKER, NEW, OLD, ask_all, prepared, running
from compat_tests.apache_kafka import NEWEST, ZOOKEEPER_LINE, jars

_ASKS = (
    fetches.every_version,
    fetches.at_edges,
    partial(fetches.what_waits, versions=(12,)),
    fetches.twice,
    partial(sessions.one_after_the_other, versions=(13,)),
    sessions.of_two_kinds,
    sessions.that_nobody_made,
    *lookups.ALL,
    *writes.ALL,
)


@pytest.mark.java
@pytest.mark.timeout(300)
def test_raw_requests_are_answered_as_kafka_answers_them(target: str, tmp_path: Path) -> None:
    if target != "kbroker":
        pytest.skip("starts all three brokers itself")
    for version in (NEWEST, ZOOKEEPER_LINE):
        jars(version)

    with running(tmp_path) as brokers:
        answers = ask_all(prepared(brokers), _ASKS)

    assert len(answers[KBROKER]) > 3_000
    assert unexplained(answers[KBROKER], answers[OLD], answers[NEW]) == []


def test_one_field_that_both_answer_otherwise_is_found() -> None:
    theirs = {"fetch v4": {"answer": {"topics": [{"code": 3}]}, "came": "later"}}
    at_once = {"fetch v4": {"answer": {"topics": [{"code": 3}]}, "came": "at once"}}
    other_code = {"fetch v4": {"answer": {"topics": [{"code": 6}]}, "came": "later"}}

    assert unexplained(at_once, theirs, theirs) == ["fetch v4: came: at once, Apache later"]
    assert unexplained(other_code, theirs, theirs) == [
        "fetch v4: answer.topics[].code: 6, Apache 3"
    ]
    assert unexplained(other_code, theirs, other_code) == []
    assert unexplained(other_code, {}, theirs) != []
