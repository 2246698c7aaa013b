"""`python -m compat_tests.compare` as its users run it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields

import pytest
from kio.index import load_request_schema

from compat_tests.answers.accepted import ANSWERS, OF_TWO_BROKERS, SEQUENCES, reason
from compat_tests.answers.normal import differences
from compat_tests.answers.variations import fitted, variations
from compat_tests.commands.command_line import CANNOT_CONNECT, HEEDING, UNUSED, USAGE, Done
from compat_tests.compare.comparing import Question, explained
from compat_tests.conftest import BrokerProcess
from compat_tests.wire.wire_client import LIST_GROUPS, METADATA, WireClient

DIFFERENT, INTERRUPTED = 1, 130
_COMMAND = (sys.executable, "-m", "compat_tests.compare", "--diff")


def _compare(*arguments: str) -> Done:
    done = subprocess.run(
        [*_COMMAND, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _left(bootstrap: str) -> list[str]:
    """Topics and groups that are on a broker, but for Kafka's own."""
    client = WireClient(bootstrap)
    topics = [entry.name for entry in client.call(METADATA, 5, topics=None).topics]
    groups = [entry.group_id for entry in client.call(LIST_GROUPS, 2).groups]
    client.close()
    return [name for name in topics + groups if not name.startswith("__")]


def test_two_brokers_that_differ_in_a_setting_are_told_apart(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    one = own_broker().bootstrap
    other = own_broker("--override", "group.min.session.timeout.ms=20000").bootstrap

    apart = _compare(one, other, "--only", "^JoinGroup$", "--output", "json")

    assert apart.code == DIFFERENT, apart
    found = json.loads(apart.out)["differences"]
    first = next(each for each in found if each["asked"] == "join_group")
    assert (first["key"], first["path"], first["why"]) == ("JoinGroup", "answer.error_code", None)
    assert {first["a"], first["b"]} <= {0, 26, 79}
    assert _left(one) == _left(other) == []


def test_an_interrupted_comparison_leaves_nothing(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    bootstrap = own_broker().bootstrap
    process = subprocess.Popen(
        [*HEEDING, *_COMMAND, bootstrap, bootstrap], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Produce: ")

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out) == (INTERRUPTED, "")
    assert err.splitlines()[-1].startswith("Error: interrupted; ")
    assert _left(bootstrap) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("kbroker", "kafka"), USAGE, "'kafka' is no broker"),
        (("kbroker", "kbroker", "--only", "Find("), USAGE, "--only 'Find(' is not a regular expr"),
        (("kbroker", "kbroker", "--only", "Fnd"), USAGE, "--only 'Fnd' finds none of the keys"),
        (
            ("kbroker", UNUSED),
            CANNOT_CONNECT,
            f" and {UNUSED}: no broker answers at {UNUSED} (Connection refused)",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(
    target: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = _compare(*arguments)

    assert said in done.refused(code)


def test_each_field_of_a_request_is_varied() -> None:
    schema = load_request_schema(12, 4)
    heartbeat = fitted(schema, {"group_id": "g", "generation_id": 1, "member_id": "m", "name": "x"})

    found = {(path[0], shown): values for path, shown, values in variations(schema, heartbeat)}

    assert heartbeat == {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert {name for name, _ in found} == {each.name for each in fields(schema)}
    assert found["group_id", "empty"] == {**heartbeat, "group_id": ""}
    assert found["generation_id", str(2**31 - 1)] == {**heartbeat, "generation_id": 2**31 - 1}


def test_only_what_is_on_the_list_is_accepted() -> None:
    entries = ANSWERS + OF_TWO_BROKERS + SEQUENCES

    assert all(entry.why for entry in entries)
    like = [e for e in ANSWERS + OF_TWO_BROKERS if e.why.startswith("as ")]
    assert all(re.match(rf"as {re.escape(e.like)}\b", e.why) and e.like for e in like)
    assert reason(entries, "heartbeat v4", "answer.error_code", 0, 25) is None
    assert reason(entries, "api versions of 'a' '' v3", "answer.api_keys", "1", "2") is not None
    assert list(differences({"a": [{"b": 1}]}, {"a": [{"b": 2}]})) == [("a[].b", 1, 2)]


def test_kbroker_may_not_differ_from_the_apache_kafka_that_it_is_like() -> None:
    named = ("offset_commit with group_id unknown v9", "answer.topics[t].partitions[0].error_code")
    question = Question("OffsetCommit", "9", "with group_id unknown")

    def why(a: str, b: str, values: tuple[int, int]) -> str | None:
        return explained((a, b), named[0], question, named[1], values).why

    assert str(why("kbroker", "kafka-3.9.2", (69, 22))).startswith("as 4.3.1")
    assert str(why("kafka-3.9.2", "kbroker", (22, 69))).startswith("as 4.3.1")
    assert str(why("kafka-3.9.2", "kafka-4.3.1", (22, 69))).startswith("as 4.3.1")
    assert str(why("127.0.0.1:1", "127.0.0.1:2", (69, 22))).startswith("as 4.3.1")
    assert why("kbroker", "kafka-4.3.1", (69, 22)) is None
    assert why("kbroker", "kafka-3.9.2", (22, 69)) is None
