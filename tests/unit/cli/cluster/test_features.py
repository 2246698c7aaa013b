"""What `kbroker cluster features` shows of brokers that differ, and asks the controller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster import features as module
from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kbroker.protocol.schema import Message

CONTROLLER = 1
SAFE_DOWNGRADE, UPGRADE = 2, 1
WIDE, NARROW = {"a.version": (0, 2)}, {"a.version": (0, 1)}


class Cluster:
    """Brokers that support the `ranges` of their place, from 1 on; None is a broker that is
    silent. The controller answers updates with `code`, or with codes by feature.
    """

    bootstrap = "h:1"

    def __init__(
        self,
        *ranges: Mapping[str, tuple[int, int]] | None,
        levels: Mapping[str, int] | None = None,
        epoch: int = 5,
        keys: Mapping[int, int] | None = None,
        code: int = 0,
        codes: Mapping[str, int] | None = None,
    ) -> None:
        self.ranges, self.levels, self.epoch = ranges, levels or {}, epoch
        self.keys = {ApiKey.UPDATE_FEATURES: 2} if keys is None else keys
        self.code, self.codes = code, codes or {}
        self.silent: dict[int, Exception] = {}
        self.updates: list[UpdateFeaturesRequest] = []

    def describe(self, _names: list[str]) -> MetadataResponse:
        numbers = range(1, len(self.ranges) + 1)
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=number) for number in numbers]
        return MetadataResponse(controller_id=CONTROLLER, brokers=brokers)

    def ask(self, node_id: int, request: Message) -> ApiVersionsResponse:
        assert isinstance(request, ApiVersionsRequest)
        ranges = self.ranges[node_id - 1]
        if ranges is None:
            self.silent[node_id] = ConnectionResetError("it closed the connection")
            raise self.silent[node_id]
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponse.ApiVersion(api_key=key, max_version=version)
                for key, version in self.keys.items()
            ],
            supported_features=[
                ApiVersionsResponse.SupportedFeatureKey(
                    name=name, min_version=lowest, max_version=highest
                )
                for name, (lowest, highest) in ranges.items()
            ],
            finalized_features_epoch=self.epoch,
            finalized_features=[
                ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level)
                for name, level in self.levels.items()
            ],
        )

    def link(self, node_id: int) -> Controller:
        assert node_id == CONTROLLER
        return Controller(self)


class Controller:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        self.cluster.updates.append(request)
        return UpdateFeaturesResponse(
            error_code=self.cluster.code,
            error_message="as Kafka says it",
            results=[
                UpdateFeaturesResponse.UpdatableFeatureResult(
                    feature=name, error_code=code, error_message="as Kafka says it"
                )
                for name, code in self.cluster.codes.items()
            ],
        )


def features(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *options: str) -> Result:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Cluster]:
        yield cluster

    monkeypatch.setattr(module, "cluster_links", connected)
    arguments = [*options, "--output", "jsonl"]
    return CliRunner().invoke(module.features, arguments, standalone_mode=False)


def refusal(result: Result) -> str:
    assert isinstance(result.exception, CommandError), result
    return result.exception.message


def asked(cluster: Cluster) -> list[tuple[str, int, int, bool]]:
    """Feature, level, upgrade type and whether the oldest version may lower it."""
    return [
        (each.feature, each.max_version_level, each.upgrade_type, each.allow_downgrade)
        for request in cluster.updates
        for each in request.feature_updates
    ]


def test_levels_are_those_that_all_brokers_support(monkeypatch: pytest.MonkeyPatch) -> None:
    result = features(monkeypatch, Cluster(WIDE, NARROW, levels={"a.version": 1}))

    (row,) = map(json.loads, result.stdout.splitlines())
    assert row == {
        "feature": "a.version", "supported_min": 0, "supported_max": 1, "finalized_level": 1,
        "epoch": 5,
    }  # fmt: skip
    assert result.stderr == "a.version 2 is not supported by broker 2\n"


def test_a_feature_that_a_broker_does_not_know_has_no_levels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = features(monkeypatch, Cluster(WIDE, {}, epoch=-1))

    (row,) = map(json.loads, result.stdout.splitlines())
    assert (row["supported_max"], row["finalized_level"], row["epoch"]) == (0, 0, None)
    assert result.stderr == "a.version 2 is not supported by broker 2\n"


def test_a_level_of_a_feature_that_nobody_supports_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = features(monkeypatch, Cluster({}, levels={"a.version": 1}))

    (row,) = map(json.loads, result.stdout.splitlines())
    assert (row["supported_max"], row["finalized_level"]) == (0, 1)


def test_silent_brokers_are_told_and_the_others_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    result = features(monkeypatch, Cluster(WIDE, None))

    assert len(result.stdout.splitlines()) == 1
    assert "broker 2 gave no figures: it closed the connection" in result.stderr


def test_nothing_is_shown_where_all_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    result = features(monkeypatch, Cluster(None))

    assert isinstance(result.exception, ConnectionResetError)


def test_brokers_without_features_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    result = features(monkeypatch, Cluster({}))

    assert result.stdout == ""
    assert "no features: " in result.stderr


def test_a_level_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(WIDE, WIDE)

    result = features(monkeypatch, cluster, "--set", "a.version=2")

    assert asked(cluster) == [("a.version", 2, UPGRADE, False)]
    assert cluster.updates[0].validate_only is False
    assert result.stderr == "a.version: raised from 0 to 2\n"


def test_a_level_is_lowered_where_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(WIDE, levels={"a.version": 2})

    refused = features(monkeypatch, cluster, "--set", "a.version=0")
    done = features(monkeypatch, cluster, "--set", "a.version=0", "--downgrade")

    assert refusal(refused) == "a.version is 2, and 0 is lower: add --downgrade to go back"
    assert asked(cluster) == [("a.version", 0, SAFE_DOWNGRADE, True)]
    assert done.stderr == "a.version: lowered from 2 to 0\n"


def test_a_level_that_is_there_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(WIDE, levels={"a.version": 2})

    result = features(monkeypatch, cluster, "--set", "a.version=2")

    assert (result.stderr, cluster.updates) == ("a.version is 2 already\n", [])


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            "a.version=2",
            "a.version 2 is not supported by broker 2: all support 0 to 1",
        ),
        ("b.version=1", "no such feature: b.version (brokers have a.version)"),
    ],
)
def test_what_the_cluster_would_refuse_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, wanted: str, sentence: str
) -> None:
    cluster = Cluster(WIDE, NARROW)

    result = features(monkeypatch, cluster, "--set", "a.version=1", "--set", wanted)

    assert (refusal(result), cluster.updates) == (sentence, [])


@pytest.mark.parametrize(
    "keys", [{ApiKey.UPDATE_FEATURES: 2}, {ApiKey.UPDATE_FEATURES: 1, ApiKey.DESCRIBE_QUORUM: 0}]
)
def test_a_dry_run_only_asks(monkeypatch: pytest.MonkeyPatch, keys: Mapping[int, int]) -> None:
    cluster = Cluster(WIDE, keys=keys)

    result = features(monkeypatch, cluster, "--set", "a.version=1", "--dry-run")

    assert [request.validate_only for request in cluster.updates] == [True]
    assert result.stderr == "a.version: would be raised from 0 to 1\n"


@pytest.mark.parametrize(
    "keys", [{ApiKey.UPDATE_FEATURES: 1}, {ApiKey.UPDATE_FEATURES: 0, ApiKey.DESCRIBE_QUORUM: 0}]
)
def test_a_dry_run_does_not_ask_who_would_write(
    monkeypatch: pytest.MonkeyPatch, keys: Mapping[int, int]
) -> None:
    cluster = Cluster(WIDE, keys=keys)

    result = features(monkeypatch, cluster, "--set", "a.version=1", "--dry-run")

    assert "in spite of --dry-run" in refusal(result)
    assert cluster.updates == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "you may not alter the cluster"),
        (ErrorCode.NOT_CONTROLLER, "the controller has just moved: try again"),
        (ErrorCode.FEATURE_UPDATE_FAILED, "see `kbroker cluster features`, and try again"),
        (ErrorCode.INVALID_REQUEST, "INVALID_REQUEST: as Kafka says it"),
    ],
)
def test_refusals_are_sentences(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, reason: str
) -> None:
    whole = features(monkeypatch, Cluster(WIDE, code=code), "--set", "a.version=1")
    of_one = features(monkeypatch, Cluster(WIDE, codes={"a.version": code}), "--set", "a.version=1")

    for result in (whole, of_one):
        assert refusal(result).startswith("a.version not changed: ")
        assert reason in refusal(result)
