"""Settings of topics as brokers tell them: which are a topic's own, and which are refused."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kbroker.client.cluster_configs import (
    Resource,
    Setting,
    describe_configs,
    describe_each,
    own_settings,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ConfigSource, ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

ORDERS, SECRETS = (Resource(ResourceType.TOPIC, name) for name in ("orders", "secrets"))
Row = DescribeConfigsResponse.DescribeConfigsResourceResult


class Topics:
    """All tell their settings, but for one that refuses."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def ask_any(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        self.sizes.append(len(request.resources))
        return DescribeConfigsResponse(results=[self._result(each) for each in request.resources])

    def _result(self, asked: Any) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name
        )
        if asked.resource_name == "secrets":
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return result
        source = int(ConfigSource.DYNAMIC_TOPIC_CONFIG)
        result.configs = [Row(name="retention.ms", value="5", config_source=source)]
        return result


LINKS = cast("ClusterLinks", Topics())


def setting(name: str, value: str | None, origin: str, *, is_secret: bool = False) -> Setting:
    return Setting(name=name, value=value, origin=origin, is_secret=is_secret)


def test_own_settings_are_those_of_the_topic_alone() -> None:
    told = [
        setting("cleanup.policy", "compact", "topic"),
        setting("retention.ms", "5", "set"),
        setting("segment.bytes", "100", "broker (static)"),
        setting("segment.ms", "7", "default"),
        setting("hidden", None, "topic", is_secret=True),
        setting("shown", "x", "topic", is_secret=True),
    ]

    assert own_settings(told) == {"cleanup.policy": "compact", "retention.ms": "5"}


def test_a_refusal_does_not_hide_the_settings_of_others() -> None:
    found = describe_each(LINKS, [SECRETS, ORDERS])

    refusal = found[SECRETS]
    assert isinstance(refusal, KafkaError)
    assert refusal.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (own,) = cast("list[Setting]", found[ORDERS])
    assert (own.name, own.value, own.origin) == ("retention.ms", "5", "topic")
    assert own.source == ConfigSource.DYNAMIC_TOPIC_CONFIG


def test_one_refusal_is_the_end_for_who_needs_them_all() -> None:
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: secrets: "):
        describe_configs(LINKS, [ORDERS, SECRETS])


def test_many_topics_are_asked_about_in_several_requests() -> None:
    topics = Topics()
    resources = [Resource(ResourceType.TOPIC, f"t{number}") for number in range(450)]

    found = describe_each(cast("ClusterLinks", topics), resources)

    assert topics.sizes == [200, 200, 50]
    assert list(found) == resources
