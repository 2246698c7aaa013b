"""One topic written into a tree, where the broker itself writes all of a request at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kbroker.zk.topic_nodes import NewTopicNodes
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils


async def create_topic(
    zk: ZkUtils,
    topic: str,
    assignment: TopicAssignment,
    *,
    overrides: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Create a topic. Raises what `create_topics` returns."""
    (refusal,) = await zk.create_topics([NewTopicNodes(topic, assignment, overrides)])
    if refusal is not None:
        raise refusal
