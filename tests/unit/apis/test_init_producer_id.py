"""InitProducerId as a handler: idempotent producers only, after Kafka's checks."""

from __future__ import annotations

import pytest

from kbroker.apis.init_producer_id import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.fakes.admin_context import AdminClient


@pytest.mark.parametrize("version", range(6))
async def test_two_calls_give_ids_one_apart_with_epoch_0(version: int, client: AdminClient) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    first = await client.ask(handle, request, version)
    second = await client.ask(handle, request, version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert second.producer_id - first.producer_id == 1


REFUSALS = [
    (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
    (
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=900_001),
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ),
    (InitProducerIdRequest(transactional_id="x"), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    (
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=-1),
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ),
    (
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000),
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("request_", "code"), REFUSALS)
async def test_what_cannot_be_given_is_refused_without_an_id(
    request_: InitProducerIdRequest, code: ErrorCode, client: AdminClient
) -> None:
    answer = await client.ask(handle, request_, 4)
    assert (answer.error_code, answer.producer_id) == (code, -1)
