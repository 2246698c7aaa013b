"""UpdateFeatures as a handler: what the controller writes, and what each version is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbroker.admin.finalized_feature_change_listener import FinalizedFeatureChangeListener
from kbroker.apis.update_features import handle
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import FinalizedFeatures, SupportedFeature
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kbroker.zk.nodes.features import encode_features
from kbroker.zk.zk_paths import FEATURE
from tests.fakes.clusters.controller_cluster import ControllerCluster, running
from tests.fakes.requests.admin_context import AdminClient

SUPPORTED = (SupportedFeature("a", 0, 3), SupportedFeature("b", 0, 1))
Update = UpdateFeaturesRequest.FeatureUpdateKey


@pytest.fixture
def supported() -> tuple[SupportedFeature, ...]:
    """By every broker."""
    return SUPPORTED


@pytest.fixture
def node() -> bytes | None:
    """The node in the tree before there is a broker."""
    return None


@pytest.fixture
async def cluster(
    supported: tuple[SupportedFeature, ...], node: bytes | None
) -> AsyncIterator[ControllerCluster]:
    """Brokers 0, which is controller, and 1."""
    cluster = ControllerCluster()
    cluster.supported_features = supported
    if node is not None:
        await cluster.tree.session().create(FEATURE, node)
    async with running(cluster, brokers=2):
        yield cluster


@pytest.fixture
async def client(cluster: ControllerCluster) -> AsyncIterator[AdminClient]:
    """Of broker 0, which follows the features."""
    broker = cluster.brokers[0]
    listener = FinalizedFeatureChangeListener(
        broker.zk, broker.metadata, broker.waiter, lambda error: None
    )
    await listener.start()
    yield AdminClient(broker)
    await listener.stop()


async def ask(
    client: AdminClient, *updates: Update, version: int = 1, validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=list(updates), timeout_ms=1000, validate_only=validate_only
    )
    response: UpdateFeaturesResponse = await client.ask(handle, request, version)
    return response


def codes(response: UpdateFeaturesResponse) -> dict[str, int]:
    assert (response.error_code, response.error_message) == (0, None)
    return {row.feature: row.error_code for row in response.results}


def shown(client: AdminClient) -> FinalizedFeatures:
    return client.broker.metadata.finalized_features


def written(cluster: ControllerCluster) -> bytes | None:
    return next(data for path, data, _ in cluster.tree.dump() if path == FEATURE)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_level_is_written_and_shown_when_the_answer_comes(
    version: int, cluster: ControllerCluster, client: AdminClient
) -> None:
    assert shown(client) == FinalizedFeatures({}, 0)

    response = await ask(client, Update(feature="a", max_version_level=2), version=version)

    assert codes(response) == ({"a": 0} if version < 2 else {})
    assert shown(client) == FinalizedFeatures({"a": 2}, 1)
    assert written(cluster) == encode_features({"a": 2})


@pytest.mark.parametrize("node", [encode_features({"a": 2, "b": 1})])
async def test_levels_are_lowered_and_removed_where_the_client_means_it(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    lower = Update(feature="a", max_version_level=1, allow_downgrade=True)
    assert codes(await ask(client, lower, version=0)) == {"a": 0}
    assert written(cluster) == encode_features({"a": 1, "b": 1})

    gone = Update(feature="a", max_version_level=0, upgrade_type=2)
    assert codes(await ask(client, gone)) == {"a": 0}
    assert shown(client) == FinalizedFeatures({"b": 1}, 2)


async def test_before_version_2_each_feature_stands_for_itself(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    updates = [
        Update(feature="a", max_version_level=1),
        Update(feature="nope", max_version_level=1),
    ]

    assert codes(await ask(client, *updates)) == {"a": 0, "nope": ErrorCode.INVALID_REQUEST}
    assert written(cluster) == encode_features({"a": 1})


async def test_from_version_2_on_one_refusal_stops_all(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    updates = [
        Update(feature="a", max_version_level=1),
        Update(feature="nope", max_version_level=1),
    ]

    response = await ask(client, *updates, version=2)

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == (
        "The update failed for all features since the following feature had an error: Could "
        "not apply finalized feature update because the provided feature is not supported."
    )
    assert written(cluster) == encode_features({})


@pytest.mark.parametrize("version", [1, 2])
async def test_validation_alone_writes_nothing(
    version: int, cluster: ControllerCluster, client: AdminClient
) -> None:
    update = Update(feature="a", max_version_level=1)
    response = await ask(client, update, version=version, validate_only=True)

    assert response.error_code == 0
    assert shown(client) == FinalizedFeatures({}, 0)
    assert written(cluster) == encode_features({})


@pytest.mark.parametrize("supported", [()])
async def test_as_long_as_its_protocol_is_missing_no_feature_can_be_raised(
    client: AdminClient,
) -> None:
    update = Update(feature="group.version", max_version_level=1)
    (row,) = (await ask(client, update)).results

    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert row.error_message == (
        "Could not apply finalized feature update because the provided feature is not supported."
    )


async def test_a_broker_that_does_not_support_a_level_holds_it_up(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    cluster.supported_features = (SupportedFeature("a", 0, 2),)
    await cluster.start(2)

    update = Update(feature="a", max_version_level=3)
    assert codes(await ask(client, update)) == {"a": ErrorCode.INVALID_REQUEST}


async def test_consumer_groups_wait_until_topics_have_ids() -> None:
    cluster = ControllerCluster(KafkaConfig({"inter.broker.protocol.version": "2.7"}))
    cluster.supported_features = (SupportedFeature("group.version", 0, 1),)
    async with running(cluster, brokers=1):
        update = Update(feature="group.version", max_version_level=1)
        (row,) = (await ask(AdminClient(cluster.brokers[0]), update)).results

    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert row.error_message == (
        "Could not apply finalized feature update because consumer groups need topic ids, which "
        "topics get from inter.broker.protocol.version 2.8 on."
    )


@pytest.mark.parametrize(("node", "levels"), [(None, {"b": 1}), (encode_features({}), {})])
async def test_only_a_new_cluster_begins_with_the_first_levels(
    node: bytes | None, levels: dict[str, int]
) -> None:
    cluster = ControllerCluster()
    cluster.supported_features, cluster.first_levels = SUPPORTED, {"b": 1}
    if node is not None:
        await cluster.tree.session().create(FEATURE, node)
    async with running(cluster, brokers=1):
        assert written(cluster) == encode_features(levels)


async def test_more_features_than_any_cluster_has_are_refused(client: AdminClient) -> None:
    updates = [Update(feature=f"f{number}", max_version_level=1) for number in range(1_001)]

    assert len(codes(await ask(client, *updates[1:]))) == 1_000
    with pytest.raises(KafkaError, match="1001 features, 1000 are the most") as raised:
        await ask(client, *updates)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


async def test_only_the_controller_answers(cluster: ControllerCluster) -> None:
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await ask(AdminClient(cluster.brokers[1]), Update(feature="a", max_version_level=1))


async def test_levels_that_are_not_seen_in_time_are_not_promised(client: AdminClient) -> None:
    client.broker.metadata.finalized_features = FinalizedFeatures()
    other = AdminClient(client.broker)
    request = UpdateFeaturesRequest(
        feature_updates=[Update(feature="a", max_version_level=1)], timeout_ms=0
    )

    response = await other.ask(handle, request, 1)

    assert codes(response) == {"a": ErrorCode.FEATURE_UPDATE_FAILED}


@pytest.mark.parametrize("node", [b"?"])
async def test_a_node_that_cannot_be_read_is_left_as_it_is(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    update = Update(feature="a", max_version_level=1)
    assert codes(await ask(client, update)) == {"a": ErrorCode.FEATURE_UPDATE_FAILED}
    assert written(cluster) == b"?"


@pytest.mark.parametrize("node", [encode_features({"a": 1}).replace(b'"status":1', b'"status":0')])
async def test_a_new_controller_lets_a_disabled_node_count_without_its_features(
    cluster: ControllerCluster, client: AdminClient
) -> None:
    assert written(cluster) == encode_features({})
    assert shown(client) == FinalizedFeatures({}, 1)
