"""IncrementalAlterConfigs as a handler."""

from __future__ import annotations

import logging

import pytest

from kbroker.apis.describe_configs import handle as describe
from kbroker.apis.incremental_alter_configs import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.fakes.requests.admin_context import AdminClient

BROKER, LOGGER = 4, 8


def resource(
    kind: int, name: str, key: str, value: str
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    change = IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )


@pytest.mark.parametrize("version", range(2))
async def test_each_resource_gets_its_own_answer(version: int, client: AdminClient) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(BROKER, "0", "log.cleaner.threads", "2"),
            resource(BROKER, "7", "log.cleaner.threads", "2"),
            resource(LOGGER, "0", "no.such", "DEBUG"),
        ]
    )
    answers = (await client.ask(handle, request, version)).responses
    assert [a.error_code for a in answers] == [
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
    ]
    assert [a.resource_name for a in answers] == ["0", "7", "0"]
    assert answers[0].error_message is None
    assert await client.broker.configs.broker_overrides(0) == {"log.cleaner.threads": "2"}


async def test_a_logger_is_altered_and_described(client: AdminClient) -> None:
    logger = logging.getLogger("of.this.test")

    try:
        request = IncrementalAlterConfigsRequest(
            resources=[resource(LOGGER, "0", "of.this.test", "DEBUG")], validate_only=True
        )
        (answer,) = (await client.ask(handle, request, 1)).responses
        assert (answer.error_code, logger.level) == (0, logging.NOTSET)

        request.validate_only = False
        (answer,) = (await client.ask(handle, request, 1)).responses
        assert answer.error_code == 0
        wanted = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=LOGGER, resource_name="0", configuration_keys=["of.this.test"]
        )
        described = DescribeConfigsRequest(resources=[wanted])
        (result,) = (await client.ask(describe, described, 4)).results
        assert [(c.name, c.value) for c in result.configs] == [("of.this.test", "DEBUG")]
        assert logger.isEnabledFor(logging.DEBUG)
    finally:
        logger.setLevel(logging.NOTSET)
