"""The assignor in docs/groups.md, as its members meet it."""

from __future__ import annotations

import sys
from types import ModuleType
from uuid import UUID

import pytest

from tests.docs.pages import blocks, section, text_of
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, topic
from tests.fakes.brokers.group_broker import GroupBroker

TEXT = section(text_of("groups"), "## Assignors of your own")


async def test_the_assignor_of_the_page_gives_whole_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks("python", TEXT)
    module = ModuleType("whole_topics")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "whole_topics", module)
    broker = GroupBroker(
        consumer_groups=consumer_groups(assignors=("uniform", "whole_topics:WholeTopics"))
    )
    broker.metadata.update(topic("u", UUID(int=8), 3))
    members = [MemberOf(broker, name, ("t", "u")) for name in ("m1", "m2")]

    for member in members:
        await member.later(**{**member.first(), "server_assignor": "whole-topics"})

    targets = broker.groups.store.find("g").group.targets
    assert sorted(sorted(map(len, targets[one].values())) for one in ("m1", "m2")) == [[3], [4]]
    broker.groups.shutdown()
