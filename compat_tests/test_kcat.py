"""kcat (librdkafka in C)."""

from __future__ import annotations

import json

import pytest

from compat_tests.clients import CODECS, run
from compat_tests.prerequisites import require_program


def kcat(bootstrap: str, *args: str, stdin: bytes | None = None) -> bytes:
    program = require_program("kcat", "Debian package kcat")
    return run([program, "-b", bootstrap, *args], stdin=stdin)


@pytest.mark.parametrize("codec", CODECS)
def test_everything_written_is_read_back(
    bootstrap: str, topic: str, records: int, codec: str
) -> None:
    lines = b"".join(b"k%d:value %d\n" % (index % 7, index) for index in range(records))

    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, stdin=lines)
    read = kcat(
        bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%k:%s\n"
    )

    assert read == lines


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


def test_an_offset_is_found_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"one\ntwo\n")

    found = kcat(bootstrap, "-Q", "-t", f"{topic}:0:0")

    assert b"offset 0" in found


def test_a_group_of_kcat_reads_all(bootstrap: str, topic: str, group: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin=b"a\nb\nc\n")

    read = kcat(bootstrap, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", group, topic)

    assert sorted(read.split()) == [b"a", b"b", b"c"]
