"""The audit log, held against what AclAuthorizer of Apache Kafka 3.9.2 logged of the same requests."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.audit import RECORDED, lines_of, unexplained
from compat_tests.answers.authorized import kbroker


def test_decisions_are_logged_as_apache_kafka_logs_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with an authorizer")
    with kbroker() as broker:
        ours = lines_of(broker)

    assert unexplained(ours, json.loads(RECORDED.read_text())) == []
