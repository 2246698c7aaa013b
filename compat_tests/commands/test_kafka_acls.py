"""`kafka-acls` of Apache Kafka prints at kbroker what it prints at Apache Kafka."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.authorized import kbroker
from compat_tests.commands.acl_lines import LINES, RECORDED, differences, ended
from compat_tests.commands.command_line import run
from compat_tests.running.apache_kafka import NEWEST


@pytest.mark.java
@pytest.mark.timeout(240)
def test_kafka_acls_prints_what_it_prints_at_apache_kafka(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    assert differences() == []


def test_our_own_kafka_acls_prints_what_that_of_apache_kafka_prints(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    differing = []
    with kbroker() as broker:
        for line, theirs in zip(LINES, json.loads(RECORDED.read_text())[NEWEST], strict=True):
            at = ("--bootstrap-server", broker.bootstrap)
            done = run("kafka-tool", "kafka-acls", *at, *line.split())
            ours = ended(done.code, done.out)
            if ours[:1] != theirs[:1] or (theirs[0] == "0" and ours != theirs):
                differing.append((line, ours, theirs))

    assert differing == []
