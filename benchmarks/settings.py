"""Settings of a running broker and of its topics, changed as a client changes them."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC = 2  # resource types
BROKER = 4


def change(broker: RunningBroker, kind: int, name: str, settings: Mapping[str, str]) -> None:
    """Set these settings of the topic or broker `name`; the broker's for all is named ""."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(name=key, value=value)
                    for key, value in settings.items()
                ],
            )
        ]
    )
    client = RawClient(broker.address)
    answer = client.call(request, 44, 0, IncrementalAlterConfigsResponse)
    client.close()
    if answer.responses[0].error_code:
        raise RuntimeError(f"{settings} refused: {answer.responses[0].error_message}")
