"""DescribeConfigs as a handler: resources, refusals, versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.apis.context import RequestContext
from kbroker.apis.describe_configs import handle
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import KafkaError
from kbroker.memory_room import REQUESTS_BYTES, MemoryRoom
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from tests.fakes.requests.received_answers import received
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.trees.stored_configs import StoredConfigs

pytestmark = pytest.mark.usefixtures("small_or_large")

TOPIC, BROKER, LOGGER, METRICS, GROUP, NOTHING = 2, 4, 8, 16, 32, 64
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library "
    "or the message was sent "
    "to an incompatible broker. See the broker logs for more details."
)


def resource(
    resource_type: int, name: str, keys: list[str] | None = None
) -> DescribeConfigsRequest.DescribeConfigsResource:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )


def ask(
    *resources: DescribeConfigsRequest.DescribeConfigsResource,
    synonyms: bool = False,
    documentation: bool = False,
    others: Callable[[], None] = lambda: None,
    brokers: dict[int | None, dict[str, str]] | None = None,
    version: int = 4,
) -> list[DescribeConfigsResponse.DescribeConfigsResult]:
    services = SimpleNamespace(
        config=KafkaConfig({"broker.id": "3"}),
        configs=StoredConfigs(
            topics={
                "t": {"retention.ms": "123456"},
                "same": {"retention.ms": "123456"},
                "spoilt": {"retention.ms": "many", "segment.ms": "5"},
            },
            in_force=KafkaConfig({"broker.id": "3"}),
            brokers=brokers
            or {None: {"message.max.bytes": "2000012"}, 3: {"log.cleaner.threads": "2"}},
        ),
        metadata=SimpleNamespace(contains_topic={"t", "plain", "same", "spoilt"}.__contains__),
        room=MemoryRoom(REQUESTS_BYTES),
        refusals=None,
    )
    header = RequestHeader(32, version, 1, "c")
    context = RequestContext(header, local_connection(), cast(Any, services))
    request = DescribeConfigsRequest(
        resources=list(resources), include_synonyms=synonyms, include_documentation=documentation
    )

    async def answer() -> DescribeConfigsResponse:
        task = asyncio.ensure_future(handle(context, request))
        while not task.done():
            others()
            await asyncio.sleep(0)
        try:
            return task.result()
        except KafkaError as error:  # as the caller of handlers does
            return request.error_response(error.code, version, error.message)  # type: ignore[return-value]

    return received(asyncio.run(answer()), version).results


def test_topics_asked_for_together_are_told_as_those_asked_for_alone() -> None:
    asked = [
        resource(TOPIC, "t"),
        resource(TOPIC, "plain"),
        resource(TOPIC, "same"),
        resource(TOPIC, "plain", ["retention.ms"]),
        resource(TOPIC, "missing"),
        resource(TOPIC, "plain"),
    ]
    together = ask(*asked, synonyms=True)
    alone = [ask(one, synonyms=True)[0] for one in asked]

    assert together == alone
    assert encode(DescribeConfigsResponse(results=together), 4) == encode(
        DescribeConfigsResponse(results=alone), 4
    )
    assert [len(result.configs) for result in together][3:5] == [1, 0]
    assert encode(DescribeConfigsResponse(results=together), 1) == encode(
        DescribeConfigsResponse(results=alone), 1
    )


def test_others_have_their_turns_while_many_topics_are_told() -> None:
    turns: list[None] = []
    results = ask(*[resource(TOPIC, "plain")] * 100, others=lambda: turns.append(None))

    assert len(results) == 100
    assert len(turns) > 10


def test_others_have_their_turns_after_each_resource_with_settings_of_its_own() -> None:
    turns: list[None] = []
    resources = [resource(TOPIC, name) for name in ("t", "plain", "spoilt")] * 2
    ask(*resources, resource(BROKER, "3"), resource(BROKER, "3"), others=lambda: turns.append(None))

    assert len(turns) > 8


def test_others_have_their_turns_while_many_settings_of_one_broker_are_told() -> None:
    turns: list[None] = []
    many = {f"no.such{number:04}": "1" for number in range(1_000)}
    (result,) = ask(
        resource(BROKER, "3"), brokers={None: {}, 3: many}, others=lambda: turns.append(None)
    )

    assert [config.name for config in result.configs if config.name in many] == list(many)
    assert len(turns) > 10


def test_a_topics_override_is_told_with_its_synonyms() -> None:
    (result,) = ask(resource(TOPIC, "t", ["retention.ms"]), synonyms=True)
    (config,) = result.configs
    assert (result.error_code, result.error_message, config.value, config.config_source) == (
        0,
        "",
        "123456",
        1,
    )
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [("retention.ms", "123456", 1)]


def test_the_clusters_dynamic_value_is_a_topics_default() -> None:
    (result,) = ask(resource(TOPIC, "plain", ["max.message.bytes"]))
    assert (result.configs[0].value, result.configs[0].config_source) == ("2000012", 3)
    assert result.configs[0].synonyms == []


@pytest.mark.parametrize(
    ("keys", "count"), [(None, 36), ([], 36), (["no.such"], 0), (["retention.ms"], 1)]
)
def test_names_pick_settings_and_no_names_stand_for_all(keys: list[str] | None, count: int) -> None:
    (result,) = ask(resource(TOPIC, "t", keys))
    assert (result.error_code, len(result.configs)) == (0, count)


def test_a_brokers_dynamic_value_shows_on_that_broker_alone() -> None:
    own, cluster = ask(resource(BROKER, "3", ["log.cleaner.threads"]), resource(BROKER, ""))
    assert (own.configs[0].value, own.configs[0].config_source) == ("2", 2)
    assert [(c.name, c.value, c.config_source) for c in cluster.configs] == [
        ("message.max.bytes", "2000012", 3)
    ]


def test_documentation_comes_when_asked_for() -> None:
    (told,) = ask(resource(TOPIC, "t", ["retention.ms"]), documentation=True)
    (silent,) = ask(resource(TOPIC, "t", ["retention.ms"]))
    assert told.configs[0].documentation
    assert silent.configs[0].documentation is None


@pytest.mark.parametrize("name", ["3", "+3", "03"])
def test_loggers_are_shown_with_their_levels(name: str) -> None:
    (result,) = ask(resource(LOGGER, name, ["root", "kbroker", "no.such"]))
    assert [(c.name, c.config_source, c.config_type, c.read_only) for c in result.configs] == [
        ("kbroker", 6, 0, False),
        ("root", 6, 0, False),
    ]


REFUSED = [
    (TOPIC, "missing", 3, ""),
    (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
    (TOPIC, "..", 17, "Topic name is invalid: '..' is not allowed"),
    (
        TOPIC,
        "a b",
        17,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
        "alphanumerics, '.', '_' and '-'",
    ),
    (
        TOPIC,
        "x" * 250,
        17,
        f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
        "length 249",
    ),
    (BROKER, "2147483648", 42, "Broker id must be an integer, but it is: 2147483648"),
    (BROKER, " 3", 42, "Broker id must be an integer, but it is:  3"),
    (BROKER, "999", 42, "Unexpected broker id, expected 3 or empty string, but received 999"),
    (BROKER, "b", 42, "Broker id must be an integer, but it is: b"),
    (BROKER, "--3", 42, "Broker id must be an integer, but it is: --3"),
    (LOGGER, "999", 42, "Unexpected broker id, expected 3 but received 999"),
    (LOGGER, "", 42, "Broker id must not be empty"),
    (METRICS, "m", 42, "Config type client-metrics is only supported on KRaft clusters"),
    (NOTHING, "x", 42, MALFORMED),
]


@pytest.mark.parametrize(("resource_type", "name", "code", "message"), REFUSED)
def test_refusals_are_those_of_kafka(
    resource_type: int, name: str, code: int, message: str
) -> None:
    (result,) = ask(resource(resource_type, name))
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])
    assert (result.resource_type, result.resource_name) == (resource_type, name)


def test_one_refused_resource_leaves_the_others_alone() -> None:
    missing, there = ask(resource(TOPIC, "missing"), resource(TOPIC, "t"))
    assert (missing.error_code, there.error_code, len(there.configs)) == (3, 0, 36)


def test_a_stored_setting_that_cannot_be_used_hides_no_other() -> None:
    spoilt, other = ask(
        resource(TOPIC, "spoilt", ["retention.ms", "segment.ms"]), resource(TOPIC, "t")
    )
    assert [(c.name, c.value, c.config_source) for c in spoilt.configs] == [
        ("retention.ms", "604800000", 5),
        ("segment.ms", "5", 1),
    ]
    assert (spoilt.error_code, other.error_code) == (0, 0)


@pytest.mark.parametrize(
    "stored", [{"advertised.listeners": "x"}, {"log.cleaner.threads": "x"}], ids=str
)
def test_stored_settings_of_a_broker_that_cannot_be_used_leave_those_in_force(
    stored: dict[str, str],
) -> None:
    topic, broker = ask(
        resource(TOPIC, "t"),
        resource(BROKER, "3", ["log.cleaner.threads"]),
        brokers={3: {"log.retention.ms": "7", **stored}},
    )
    assert (topic.error_code, broker.error_code) == (0, 0)
    assert [(c.value, c.config_source) for c in broker.configs] == [("1", 5)]


def test_an_unknown_kind_of_resource_spoils_the_request() -> None:
    results = ask(resource(TOPIC, "t"), resource(NOTHING, "x"))
    assert [result.error_code for result in results] == [42, 42]
    assert [result.error_message for result in results] == [MALFORMED, MALFORMED]


@pytest.mark.parametrize("version", range(5))
def test_every_version_can_carry_the_answer(version: int) -> None:
    response = DescribeConfigsResponse(
        results=ask(resource(BROKER, "3"), synonyms=True, documentation=True)
    )
    decoded, _ = decode(DescribeConfigsResponse, version, encode(response, version))
    sent = {config.name: config.value for config in response.results[0].configs}
    assert {config.name: config.value for config in decoded.results[0].configs} == sent


def test_version_0_says_whether_a_value_is_the_default() -> None:
    (result,) = ask(resource(TOPIC, "t", ["retention.ms", "segment.bytes"]), version=0)
    assert [(config.name, config.is_default) for config in result.configs] == [
        ("retention.ms", False),
        ("segment.bytes", True),
    ]
