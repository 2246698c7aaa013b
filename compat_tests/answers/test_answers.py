"""The short form of the hunt for answers that differ from Apache Kafka's, and what it would find."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from compat_tests.answers import asking, fetches, lookups, sessions, writes
from compat_tests.answers.allowed import unexplained
from compat_tests.answers.asking import WAIT_MS, Caller, Target
from compat_tests.answers.hunt import KBROKER, NEW, OLD, ask_all, prepared, running
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE, jars
from compat_tests.wire.wire_client import FETCH, METADATA

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


@pytest.mark.parametrize(
    ("key", "fetch", "took_s", "came"),
    [
        (FETCH, {"max_wait": WAIT_MS}, [0.4], "at once"),
        (FETCH, {"max_wait": WAIT_MS}, [0.95], "later"),
        (FETCH, {"max_wait": WAIT_MS}, [0.5, 0.4], "at once"),
        (FETCH, {"max_wait": WAIT_MS}, [0.5, 0.95], "later"),
        (FETCH, {"max_wait": 0}, [1.3, 0.1], "at once"),
        (FETCH, {"max_wait": -1}, [0.5, 0.5, 0.5], "later"),
        (FETCH, {"max_wait": WAIT_MS, "session_epoch": 1}, [0.5], "later"),
        (FETCH, {"max_wait": 0, "session_epoch": 0}, [0.5], None),
        (FETCH, {"max_wait": 0, "session_id": 5}, [0.5], None),
        (METADATA, {"max_wait": 0}, [9.0], None),
    ],
)
def test_a_fetch_that_waits_and_must_not_is_told_from_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
    key: int,
    fetch: dict[str, int],
    took_s: list[float],
    came: str | None,
) -> None:
    now_s = 0.0
    answers = iter(took_s)

    class SlowClient:
        """Its answers take times that nobody has to wait for."""

        def __init__(self, *_: object) -> None: ...

        def send(self, *_: int, **__: object) -> int:
            return 1

        def receive(self, *_: int) -> None:
            nonlocal now_s
            now_s += next(answers)

    monkeypatch.setattr(asking, "WireClient", SlowClient)
    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: now_s))
    caller = Caller(Target("slow", "nowhere:1", ranges={key: (4, 4)}))

    caller.ask("a question", key, 4, **fetch)

    assert caller.answers["a question v4"].get("came") == came
    assert list(answers) == []
