from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.apis.api_versions import handle, unsupported_version_response
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import registered
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.model import FinalizedFeatures, SupportedFeature
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.clusters.peers import peers_over
from tests.fakes.requests.recording_replier import local_connection

BETWEEN_BROKERS = {4, 5, 6, 7, 56, 58, 67}


def context(
    version: int,
    *peer_listeners: str,
    metadata: MetadataCache | None = None,
    protocol: str = "3.9",
) -> RequestContext:
    nothing: Any = None
    services: Any = SimpleNamespace(
        peers=peers_over(nothing, nothing, *peer_listeners),
        metadata=metadata or MetadataCache(0),
        config=KafkaConfig.for_profile("dev", {"inter.broker.protocol.version": protocol}),
    )
    return RequestContext(RequestHeader(18, version, 1, "c"), local_connection(), services)


def request(name: str, version: str) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def test_the_list_is_the_registry_in_rising_order() -> None:
    answer = handle(context(0, "PLAINTEXT"), ApiVersionsRequest())
    listed = [(entry.api_key, entry.min_version, entry.max_version) for entry in answer.api_keys]
    served = registered().values()
    assert listed == [(api.key, api.versions.lowest, api.versions.highest) for api in served]
    assert (18, 0, 5) in listed


@pytest.mark.parametrize(("protocol", "highest"), [("2.7", 12), ("2.8", 13)])
def test_producers_name_topics_where_topics_have_no_ids(protocol: str, highest: int) -> None:
    answer = handle(context(0, protocol=protocol), ApiVersionsRequest())
    (produce,) = (entry for entry in answer.api_keys if entry.api_key == 0)
    assert produce.max_version == highest


@pytest.mark.parametrize("listeners", [(), ("INTERNAL",)])
def test_what_brokers_say_is_listed_where_they_are_heard(listeners: tuple[str, ...]) -> None:
    answer = handle(context(0, *listeners), ApiVersionsRequest())
    listed = {entry.api_key for entry in answer.api_keys}
    assert set(registered()) - listed == BETWEEN_BROKERS


def test_the_client_software_is_noted_on_the_connection() -> None:
    ctx = context(3)
    assert handle(ctx, request("apache-kafka-java", "3.9.2")).error_code == 0
    noted = (ctx.connection.client_software_name, ctx.connection.client_software_version)
    assert noted == ("apache-kafka-java", "3.9.2")


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a b", "1"), ("a", "-1"), ("a", "1\n")])
def test_a_software_name_that_does_not_fit_is_refused_without_keys(name: str, version: str) -> None:
    answer = handle(context(3), request(name, version))
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


def test_versions_before_3_have_no_software_name_to_refuse() -> None:
    assert handle(context(2), ApiVersionsRequest()).error_code == 0


def test_nothing_is_claimed_of_features_whose_protocols_are_missing() -> None:
    answer = handle(context(4), request("apache-kafka-java", "3.9.2"))
    claimed = [
        (each.name, each.min_version, each.max_version) for each in answer.supported_features
    ]
    assert claimed == [("group.version", 0, 1), ("transaction.version", 0, 2)]
    assert answer.finalized_features == []


@pytest.mark.parametrize(("version", "names"), [(3, ["b"]), (4, ["a", "b"]), (5, ["a", "b"])])
def test_features_are_shown_and_those_from_level_0_to_newer_clients(
    version: int, names: list[str]
) -> None:
    metadata = MetadataCache(0)
    metadata.supported_features = (SupportedFeature("a", 0, 2), SupportedFeature("b", 1, 1))
    metadata.finalized_features = FinalizedFeatures({"a": 2}, 7)

    answer = handle(context(version, metadata=metadata), request("librdkafka", "2.16.1"))

    assert [feature.name for feature in answer.supported_features] == names
    (settled,) = answer.finalized_features
    assert (settled.name, settled.min_version_level, settled.max_version_level) == ("a", 2, 2)
    assert answer.finalized_features_epoch == 7


def test_the_answer_to_an_unknown_version_lists_its_own_key_alone() -> None:
    answer = unsupported_version_response(registered()[18])
    assert answer.error_code == 35
    assert [(entry.api_key, entry.max_version) for entry in answer.api_keys] == [(18, 5)]
