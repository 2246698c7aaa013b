"""Raw sequences about settings of groups, compared with what Apache Kafka 4.3.1 answered to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.answers.group_settings import (
    ASSIGNMENT,
    DIFFERENT,
    GROUP,
    RECORDED,
    SESSION,
    SET,
    Stage,
    alter,
    describe,
    kbroker,
    listed,
    play,
)
from compat_tests.answers.logins import unexplained
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.wire.wire_client import WireClient

API_VERSIONS = 18


def test_settings_of_groups_are_answered_as_apache_kafka_answers_them(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker that serves consumer groups")
    with kbroker() as bootstrap:
        ours = play(bootstrap, 0)

    assert len(ours) == 100
    assert unexplained(ours, json.loads(RECORDED.read_text()), DIFFERENT) == []


def test_a_directory_of_apache_kafka_goes_on_with_its_groups_settings_and_levels(
    tmp_path: Path, target: str
) -> None:
    if target != "kbroker":
        pytest.skip("adopts a directory")
    apache = ApacheBroker(tmp_path / "data")
    apache.start()
    there = Stage(WireClient(apache.bootstrap), "a/b", 0.1)
    there.wire.create_topic()
    assert alter((SESSION, SET, "50000"), (ASSIGNMENT, SET, "7"))(there) == "32 {g}: 0 None"
    wanted = describe()(there)
    there.wire.close()
    apache.stop()

    metadata = f"metadata.log.dir={tmp_path}/data-metadata"
    options = ("--data", str(apache.data), "--adopt", "--override", metadata)
    with kbroker(*options) as bootstrap:
        here = Stage(WireClient(bootstrap), "a/b", 0)
        assert describe()(here) == wanted
        assert listed(GROUP)(here) == "0 ['32 {g}']"
        told = here.wire.call(
            API_VERSIONS, 3, client_software_name="t", client_software_version="1"
        )
        here.wire.close()

    levels = {each.name: each.max_version_level for each in told.finalized_features}
    assert levels == {"group.version": 1, "transaction.version": 2}
