"""AlterConfigs as a handler."""

from __future__ import annotations

import pytest

from kbroker.apis.alter_configs import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from tests.fakes.requests.admin_context import AdminClient

BROKER, LOGGER = 4, 8


def resource(
    kind: int, name: str, **configs: str | None
) -> AlterConfigsRequest.AlterConfigsResource:
    return AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


@pytest.mark.parametrize("version", range(3))
async def test_all_settings_of_a_resource_are_replaced(version: int, client: AdminClient) -> None:
    first = resource(BROKER, "0", log_cleaner_threads="2", log_retention_ms="1000")
    second = resource(BROKER, "0", log_retention_ms="2000", num_io_threads="4")
    for wanted in (first, second):
        request = AlterConfigsRequest(resources=[wanted])
        (answer,) = (await client.ask(handle, request, version)).responses
        assert (answer.error_code, answer.error_message) == (0, None)

    assert await client.broker.configs.broker_overrides(0) == {
        "log.retention.ms": "2000",
        "num.io.threads": "4",
    }


async def test_each_resource_gets_its_own_answer_and_a_refused_one_keeps_its_settings(
    client: AdminClient,
) -> None:
    good = resource(BROKER, "", log_retention_ms="1000")
    await client.ask(handle, AlterConfigsRequest(resources=[good]), 1)
    request = AlterConfigsRequest(
        resources=[
            resource(BROKER, "", log_retention_ms=None),
            resource(BROKER, "7", log_retention_ms="1"),
            resource(LOGGER, "0", root="DEBUG"),
        ]
    )
    answers = (await client.ask(handle, request, 1)).responses

    assert [a.error_code for a in answers] == [ErrorCode.INVALID_REQUEST] * 3
    assert await client.broker.configs.broker_overrides(None) == {"log.retention.ms": "1000"}


async def test_a_resource_named_twice_is_refused_twice(client: AdminClient) -> None:
    twice = [resource(BROKER, "0", log_retention_ms="1000")] * 2
    answers = (await client.ask(handle, AlterConfigsRequest(resources=twice), 1)).responses

    assert [a.error_code for a in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert await client.broker.configs.broker_overrides(0) == {}


async def test_a_check_changes_nothing(client: AdminClient) -> None:
    wanted = [resource(BROKER, "0", log_retention_ms="1000")]
    request = AlterConfigsRequest(resources=wanted, validate_only=True)
    (answer,) = (await client.ask(handle, request, 1)).responses

    assert answer.error_code == 0
    assert await client.broker.configs.broker_overrides(0) == {}
