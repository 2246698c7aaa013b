"""What kcat (librdkafka in C) shows; the rest of it is in matrix/."""

from __future__ import annotations

import json

from compat_tests.clients.every_client import run
from compat_tests.running.prerequisites import require_program


def kcat(bootstrap: str, *args: str, stdin: bytes | None = None) -> bytes:
    program = require_program("kcat", "Debian package kcat")
    return run([program, "-b", bootstrap, *args], stdin=stdin)


def test_headers_and_timestamps_are_shown(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-H", "a=1", "-H", "b=2", stdin=b"value\n")
    record = json.loads(kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J", "-o", "beginning"))

    assert record["headers"] == ["a", "1", "b", "2"]
    assert record["payload"] == "value"
    assert record["tstype"] == "create"


def test_metadata_lists_topics_and_brokers(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin=b"x\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J"))

    assert topic in {entry["topic"] for entry in listed["topics"]}
    assert set(bootstrap.split(",")) <= {broker["name"] for broker in listed["brokers"]}
