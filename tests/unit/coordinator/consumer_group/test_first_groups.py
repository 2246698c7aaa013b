"""What serves consumer groups comes with the first of them, and not with others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kbroker.errors import ConfigError
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker

OF_CONSUMER_GROUPS = (
    "kbroker.coordinator.consumer_group",
    "kbroker.coordinator.group.consumer_group_requests",
    "kbroker.coordinator.group.consumer_groups",
    "re2",
    "xxhash",
)
PROGRAM = """
import sys
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from tests.fakes.brokers.group_broker import GroupBroker

services = ConsumerGroupServices(settings_of=None, max_size=9, assignors=("uniform",))
broker = GroupBroker(consumer_groups=services)
broker.stable_member()
other = broker.restarted(consumer_groups=services)
assert [group.group_state for group in other.groups.list_groups((), ())[1]] == ["Stable"]
print(*sys.modules)
"""


@pytest.mark.parametrize("replication", ["immediate"])
def test_classic_groups_import_nothing_of_consumer_groups(replication: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )

    loaded = done.stdout.split()
    assert "kbroker.coordinator.group.classic_group" in loaded
    assert [name for name in loaded if name.startswith(OF_CONSUMER_GROUPS)] == []


def test_nobody_hears_of_topics_before_there_is_a_consumer_group() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    assert broker.metadata.on_topics_changed is None

    MemberOf(broker, "m1").join()

    assert broker.metadata.on_topics_changed is not None


def test_groups_that_were_loaded_hear_of_topics() -> None:
    member = MemberOf(GroupBroker(consumer_groups=consumer_groups()), "m1")
    member.join()
    member.broker = member.broker.restarted(consumer_groups=consumer_groups())
    member.beat()

    member.broker.metadata.update(topic("t", TOPIC_ID, 7))

    assert member.beat().member_epoch == 3


def test_assignors_that_cannot_be_had_are_refused_when_they_are_checked() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(assignors=("uniform", "uniform")))

    with pytest.raises(ConfigError, match="two assignors"):
        broker.groups.check_assignors()
