"""IncrementalAlterConfigs as a handler."""

from __future__ import annotations

import pytest

from kbroker.apis.incremental_alter_configs import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.fakes.admin_context import AdminClient, with_client

BROKER, LOGGER = 4, 8


def resource(
    kind: int, name: str, key: str, value: str
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    change = IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )


@pytest.mark.parametrize("version", range(2))
def test_each_resource_gets_its_own_answer(version: int) -> None:
    async def scenario(client: AdminClient) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(BROKER, "0", "log.cleaner.threads", "2"),
                resource(BROKER, "7", "log.cleaner.threads", "2"),
                resource(LOGGER, "0", "root", "DEBUG"),
            ]
        )
        answers = (await client.ask(handle, request, version)).responses
        assert [a.error_code for a in answers] == [0, *[ErrorCode.INVALID_REQUEST] * 2]
        assert [a.resource_name for a in answers] == ["0", "7", "0"]
        assert answers[0].error_message is None
        assert await client.broker.configs.broker_overrides(0) == {"log.cleaner.threads": "2"}

    with_client(scenario)
