"""ListConfigResources: what has settings, by type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.list_config_resources import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.trees.stored_configs import StoredConfigs

pytestmark = pytest.mark.usefixtures("small_or_large")

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BROKERS = ["0", "1", "2"]


@pytest.fixture(autouse=True)
def _configs(call: Any) -> None:
    call.services = replace(call.services, configs=StoredConfigs())


def listed(call: Any, *types: int) -> list[tuple[int, str]]:
    response = call(handle, ListConfigResourcesRequest(resource_types=list(types)), 1)
    assert response.error_code == 0
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def of(kind: int, names: list[str]) -> list[tuple[int, str]]:
    return [(kind, name) for name in names]


def test_without_types_all_that_has_settings_is_listed(call: Any, cluster: Any) -> None:
    cluster.hear_of("a")
    cluster.hear_of("b")

    assert sorted(listed(call)) == [
        *of(TOPIC, ["a", "b"]),
        *of(BROKER, BROKERS),
        *of(LOGGER, BROKERS),
    ]


def test_only_the_types_asked_for_are_listed_and_each_once(call: Any, cluster: Any) -> None:
    cluster.hear_of("a")

    assert listed(call, TOPIC) == of(TOPIC, ["a"])
    assert listed(call, BROKER, BROKER) == of(BROKER, BROKERS)
    assert listed(call, CLIENT_METRICS, GROUP) == []


@pytest.mark.parametrize("types", [(0,), (1,), (-1,), (64,), (BROKER, 1)])
def test_an_unknown_type_is_refused(call: Any, cluster: Any, types: tuple[int, ...]) -> None:
    request = ListConfigResourcesRequest(resource_types=list(types))

    response = cluster.loop.run_until_complete(ask(call.services, request, 1))

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.config_resources == []


def test_version_0_lists_client_metrics_of_which_there_are_none(call: Any) -> None:
    response = call(handle, ListConfigResourcesRequest(), 0)

    assert (response.error_code, response.config_resources) == (0, [])


def test_only_who_may_see_the_clusters_settings_is_told(call: Any, cluster: Any) -> None:
    services = services_without(call.services, (AclOperation.DESCRIBE_CONFIGS, CLUSTER))

    response = cluster.loop.run_until_complete(ask(services, ListConfigResourcesRequest(), 1))

    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
