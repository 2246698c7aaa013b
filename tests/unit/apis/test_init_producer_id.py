"""InitProducerId for idempotent producers."""

from __future__ import annotations

import pytest

from kbroker.apis.init_producer_id import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.fakes.requests.admin_context import AdminClient


@pytest.mark.parametrize("version", range(6))
async def test_two_calls_give_ids_one_apart_with_epoch_0(version: int, client: AdminClient) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    first = await client.ask(handle, request, version)
    second = await client.ask(handle, request, version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert second.producer_id - first.producer_id == 1


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
async def test_half_a_producer_is_none(producer_id: int, epoch: int, client: AdminClient) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, producer_id=producer_id, producer_epoch=epoch
    )
    answer = await client.ask(handle, request, 4)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
