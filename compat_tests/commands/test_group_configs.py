"""kafka-configs of Apache Kafka 4.3.1 prints the same about settings of groups of either broker."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.group_settings import kbroker
from compat_tests.commands.group_configs import FORMS, RECORDED, printed


def test_kafka_configs_shows_and_changes_settings_of_groups(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker that serves consumer groups")
    with kbroker() as bootstrap:
        ours = printed(bootstrap, 0)

    assert len(ours) == len(FORMS)
    assert ours == json.loads(RECORDED.read_text())
