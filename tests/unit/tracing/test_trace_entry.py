"""An entry as JSON, and what it says in a sentence."""

from __future__ import annotations

import json
from typing import Any

from kbroker.events.event import SHOWN_CHARACTERS
from kbroker.tracing.trace_entry import FEW, AskedFor, Asker, Coded, TraceEntry, kept

ASKER = Asker(
    client_id="app",
    host="::1",
    port=50_000,
    software="librdkafka 2.3.0",
    principal="User:ANONYMOUS",
    listener="PLAINTEXT",
)


def entry(**more: Any) -> TraceEntry:
    values: dict[str, Any] = {
        "at_ms": 1_700_000_000_000,
        "took_ns": 1_234_567,
        "api": "Produce",
        "version": 0,
        "correlation_id": 0,
        "asker": ASKER,
        "asked": AskedFor(),
        "request_bytes": 100,
        "answer_bytes": None,
    }
    return TraceEntry(**{**values, **more})


def test_an_entry_is_json_without_what_is_empty() -> None:
    assert json.loads(json.dumps(entry().value())) == {
        "at_ms": 1_700_000_000_000,
        "took_ms": 1.235,
        "api": "Produce",
        "version": 0,
        "correlation_id": 0,
        "client_id": "app",
        "address": "[::1]:50000",
        "request_bytes": 100,
        "answer_bytes": None,
        "software": "librdkafka 2.3.0",
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
    }


def test_an_entry_names_what_was_asked_for_and_what_was_refused() -> None:
    asked = AskedFor(
        topics=("t",), topic_count=1, partitions=("t-0", "t-1"), partition_count=2, groups=("g",)
    )
    codes = (Coded(code="NOT_LEADER_OR_FOLLOWER", about="t-1"), Coded(code="NOT_COORDINATOR"))

    value = entry(asked=asked, codes=codes, code_count=7, is_closed=True).value()

    assert value["partitions"] == ("t-0", "t-1")
    assert value["groups"] == ("g",)
    assert value["codes"] == [
        {"code": "NOT_LEADER_OR_FOLLOWER", "about": "t-1"},
        {"code": "NOT_COORDINATOR"},
    ]
    assert (value["code_count"], value["closed"]) == (7, True)


def test_names_are_few_and_cut() -> None:
    names = kept([letter * 10_000 for letter in "abcdefgh"])

    assert len(names) == FEW
    assert all(len(name) < SHOWN_CHARACTERS + 10 for name in names)


def test_a_sentence_names_groups_transactions_and_places_inert() -> None:
    asked = AskedFor(
        topics=("t",),
        topic_count=1,
        groups=("g\x1b[2J\n",),
        transactional_ids=("x",),
    )

    assert asked.sentence() == r"group 'g\x1b[2J\n', transactional id 'x', 't'"
    assert AskedFor().sentence() == ""
