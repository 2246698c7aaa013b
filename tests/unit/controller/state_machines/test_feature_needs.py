"""What a cluster needs for a level of a feature, and with which levels a new one begins."""

from __future__ import annotations

import pytest

from kbroker.controller.state_machines.feature_needs import TopicIds, first_levels, unmet_need
from kbroker.controller.state_machines.feature_rules import (
    FeatureUpdate,
    UpgradeType,
    updated_levels,
)
from kbroker.features import GROUP_VERSION, supported_features
from kbroker.model import SupportedFeature

SUPPORTED = supported_features({GROUP_VERSION: 1, "transaction.version": 2})
RAISED = FeatureUpdate(GROUP_VERSION, 1, UpgradeType.UPGRADE)
LOWERED = FeatureUpdate(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
NEED = "Could not apply finalized feature update because consumer groups need topic ids, "


@pytest.mark.parametrize(
    ("topic_ids", "words"),
    [
        (TopicIds(["t"]), "and 1 topic lacks one: t"),
        (TopicIds(["t", "s"]), "and 2 topics lack one: s ..."),
        (
            TopicIds([], are_given=False),
            "which topics get from inter.broker.protocol.version 2.8 on.",
        ),
    ],
)
def test_consumer_groups_come_once_all_topics_have_ids(topic_ids: TopicIds, words: str) -> None:
    after, refusals = updated_levels([RAISED], {}, SUPPORTED, [SUPPORTED], topic_ids)

    refusal = refusals[GROUP_VERSION]
    assert refusal is not None
    assert (after, refusal.message) == ({}, NEED + words)
    assert unmet_need("transaction.version", 2, topic_ids) is None


def test_consumer_groups_come_once_every_broker_knows_them() -> None:
    for older in ((), (SupportedFeature("transaction.version", 0, 2),)):
        after, refusals = updated_levels([RAISED], {}, SUPPORTED, [SUPPORTED, older])
        assert (after, refusals[GROUP_VERSION] is None) == ({}, False)

    assert updated_levels([RAISED], {}, SUPPORTED, [SUPPORTED])[0] == {GROUP_VERSION: 1}


def test_they_go_whatever_topics_and_brokers_there_are() -> None:
    lacking = TopicIds(["t"], are_given=False)

    assert updated_levels([LOWERED], {GROUP_VERSION: 1}, SUPPORTED, [()], lacking) == (
        {}, {GROUP_VERSION: None},
    )  # fmt: skip


def test_a_new_cluster_has_them_unless_it_shares_a_zookeeper() -> None:
    both = ("classic", "consumer")
    assert first_levels(SUPPORTED, is_alone=True, group_protocols=both) == {GROUP_VERSION: 1}
    assert first_levels(SUPPORTED, is_alone=True, group_protocols=["classic"]) == {}
    assert first_levels(SUPPORTED, is_alone=False, group_protocols=both) == {}
    unsupported = supported_features({GROUP_VERSION: 0})
    assert first_levels(unsupported, is_alone=True, group_protocols=both) == {}
