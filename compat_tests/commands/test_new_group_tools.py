"""Kafka's commands about groups print the same of new groups of either broker."""

from __future__ import annotations

import json

import pytest

from compat_tests.answers.consumer_groups import SETTINGS, overriding
from compat_tests.answers.group_settings import kbroker
from compat_tests.commands.new_group_tools import FORMS, RECORDED, printed


def test_the_tools_of_apache_kafka_show_and_change_new_groups(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker whose targets come at once")
    with kbroker(*overriding(SETTINGS)) as bootstrap:
        ours = printed(bootstrap)

    assert len(ours) == len(FORMS)
    assert ours == json.loads(RECORDED.read_text())
