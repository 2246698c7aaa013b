"""Every answer says how long its client is throttled, whatever API and whatever way it took."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from kbroker.apis.api_versions import handle as handle_api_versions
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_requests import LARGE_BYTES
from kbroker.apis.registry import Api, registered
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.declaration import field_specs
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import NoResponse, Response
from kbroker.protocol.schema import Message, response_class
from kbroker.quotas.quota_keys import ClientQuotaType
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.requests.recording_replier import local_connection, request_of

THROTTLE_MS = 1234
HEARTBEAT = encode(HeartbeatRequest(group_id="g", member_id="m"), 1)


@pytest.fixture
def quotas() -> RecordingQuotas:
    return RecordingQuotas(THROTTLE_MS)


@pytest.fixture
def services(call: Any, quotas: RecordingQuotas) -> Services:
    found: Services = replace(call.services, quotas=quotas)
    return found


def apis_with(services: Services, request_class: type[Message], handler: Any, **api: Any) -> Any:
    key = request_class.spec.key
    assert key is not None
    name = request_class.__name__.removesuffix("Request")
    known = Api(key, name, request_class, request_class.spec.served, handler, **api)
    return KafkaApis({key: known}, services)


def answered(result: Any) -> Response | NoResponse:
    async def wait() -> Any:
        return await result

    return asyncio.run(wait()) if isinstance(result, Awaitable) else result


def body_of(result: Any, offset: int = 4) -> bytes:
    assert isinstance(result, Response)
    return b"".join(bytes(piece) for piece in result.pieces)[offset:]  # type: ignore[arg-type]


def now(ctx: RequestContext, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=25)


async def later(ctx: RequestContext, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=25)


def refusing(ctx: RequestContext, request: Any) -> HeartbeatResponse:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


async def refusing_later(ctx: RequestContext, request: Any) -> HeartbeatResponse:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("handler", [now, later, refusing, refusing_later])
def test_the_answer_says_for_how_long(services: Services, handler: Callable[..., Any]) -> None:
    result = answered(
        apis_with(services, HeartbeatRequest, handler).handle(request_of(12, 1, HEARTBEAT))
    )

    assert body_of(result) == struct.pack(">ih", THROTTLE_MS, 25)
    assert result.throttle_ms == THROTTLE_MS


def test_a_version_without_the_field_is_throttled_all_the_same(services: Services) -> None:
    body = encode(HeartbeatRequest(group_id="g", member_id="m"), 0)
    result = apis_with(services, HeartbeatRequest, now).handle(request_of(12, 0, body))

    assert body_of(result) == struct.pack(">h", 25)
    assert result.throttle_ms == THROTTLE_MS


def test_a_large_request_that_is_answered_in_parts_is_throttled_once(
    services: Services, quotas: RecordingQuotas
) -> None:
    def describe(ctx: RequestContext, request: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse()

    names = [f"group-{number}" for number in range(LARGE_BYTES // 8)]
    apis = apis_with(services, DescribeGroupsRequest, describe, parts=Parts("groups", "groups"))
    frame = encode(DescribeGroupsRequest(groups=names), 4)
    result = answered(apis.handle(request_of(15, 4, frame)))

    response, _ = decode(DescribeGroupsResponse, 4, body_of(result))
    assert (response.throttle_time_ms, len(quotas.used)) == (THROTTLE_MS, 1)


@pytest.mark.parametrize("version", [2, 99])
def test_api_versions_is_throttled_too(services: Services, version: int) -> None:
    apis = apis_with(services, ApiVersionsRequest, handle_api_versions)
    result = apis.handle(request_of(18, version, b""))

    assert result.throttle_ms == THROTTLE_MS


@pytest.mark.parametrize(
    ("kinds", "throttle_ms"),
    [({ClientQuotaType.PRODUCE}, THROTTLE_MS), ({ClientQuotaType.REQUEST}, 0)],
)
def test_a_producer_that_gets_no_answer_is_muted_for_its_bytes_all_the_same_not_for_its_time(
    call: Any, kinds: frozenset[ClientQuotaType], throttle_ms: int
) -> None:
    body = encode(ProduceRequest(acks=0), 3)
    services = replace(call.services, quotas=RecordingQuotas(THROTTLE_MS, frozenset(kinds)))
    apis = apis_with(services, ProduceRequest, lambda ctx, request: NoResponse())

    assert apis.handle(request_of(0, 3, body)) == NoResponse(throttle_ms=throttle_ms)


def test_a_producer_pauses_for_its_bytes_or_its_time_whichever_is_longer(call: Any) -> None:
    body = encode(ProduceRequest(acks=1), 3)
    quotas = RecordingQuotas(
        THROTTLE_MS, frozenset({ClientQuotaType.PRODUCE, ClientQuotaType.REQUEST})
    )
    services = replace(call.services, quotas=quotas)
    apis = apis_with(services, ProduceRequest, lambda ctx, request: ProduceResponse())
    result = apis.handle(request_of(0, 3, body))

    assert result.throttle_ms == THROTTLE_MS
    assert [(kind, amount) for kind, *_, amount in quotas.used] == [
        (ClientQuotaType.PRODUCE, len(body)),
        (ClientQuotaType.REQUEST, quotas.used[1][3]),
    ]


def test_waiting_is_not_time_of_the_loop(services: Services, quotas: RecordingQuotas) -> None:
    async def wait(ctx: RequestContext, request: Any) -> HeartbeatResponse:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.2)
        return HeartbeatResponse()

    answered(apis_with(services, HeartbeatRequest, wait).handle(request_of(12, 1, HEARTBEAT)))

    assert quotas.used[0][3] < 10  # percent of a second; the wait was 20


def test_an_api_that_nobody_has_limits_for_passes_no_stage(call: Any) -> None:
    quotas = RecordingQuotas(THROTTLE_MS, frozenset({ClientQuotaType.FETCH}))
    apis = apis_with(replace(call.services, quotas=quotas), HeartbeatRequest, now)

    assert apis.handle(request_of(12, 1, HEARTBEAT)).throttle_ms == 0
    assert quotas.used == []


def test_usage_says_who_used_what(services: Services, quotas: RecordingQuotas) -> None:
    apis_with(services, HeartbeatRequest, now).handle(request_of(12, 1, HEARTBEAT))

    [(kind, principal, client_id, percent)] = quotas.used
    assert (kind, principal, client_id) == (ClientQuotaType.REQUEST, "User:ANONYMOUS", "test")
    assert 0 < percent < 100


def test_a_client_of_another_broker_is_left_to_that_one(
    services: Services, quotas: RecordingQuotas
) -> None:
    request = request_of(12, 1, HEARTBEAT)._replace(
        connection=replace(local_connection(), is_forwarded=True)
    )
    result = apis_with(services, HeartbeatRequest, now).handle(request)

    assert (result.throttle_ms, quotas.used) == (0, [])


def test_what_the_controller_has_throttled_longer_stays(services: Services) -> None:
    response = HeartbeatResponse(throttle_time_ms=9_999)
    apis = apis_with(services, HeartbeatRequest, lambda ctx, request: response)
    result = apis.handle(request_of(12, 1, HEARTBEAT))

    assert body_of(result) == struct.pack(">ih", 9_999, 0)
    assert result.throttle_ms == 9_999


def test_what_brokers_say_to_each_other_is_not_throttled(
    services: Services, quotas: RecordingQuotas
) -> None:
    class EverybodyIsHeard:
        def are_heard_on(self, listener_name: str) -> bool:
            return True

    peers: Any = EverybodyIsHeard()
    apis = apis_with(
        replace(services, peers=peers), EnvelopeRequest, lambda ctx, request: EnvelopeResponse()
    )
    result = answered(apis.handle(request_of(58, 0, encode(EnvelopeRequest(), 0))))

    assert isinstance(result, Response)
    assert (result.throttle_ms, quotas.used) == (0, [])


@pytest.mark.parametrize("version", [4, 14, 15, 17])
@pytest.mark.parametrize("is_follower", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_fetch_of_a_follower_is_not_throttled_and_that_of_a_consumer_is(
    services: Services, quotas: RecordingQuotas, version: int, is_follower: bool, fails: bool
) -> None:
    async def fetch(ctx: RequestContext, request: Any) -> FetchResponse:
        if fails:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchResponse()

    broker_id = 1 if is_follower else -1
    request = (
        FetchRequest(replica_id=broker_id)
        if version < 15
        else FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=broker_id))
    )
    apis = apis_with(services, FetchRequest, fetch, exempt=registered()[1].exempt)

    result = answered(apis.handle(request_of(1, version, encode(request, version))))

    expected = (0, 0) if is_follower else (THROTTLE_MS, 1)
    assert (result.throttle_ms, len(quotas.used)) == expected


def test_every_answer_to_a_client_has_a_place_for_it_but_for_those_that_kafka_gave_none() -> None:
    without = {
        api.name
        for api in registered().values()
        if not any(
            field.name == "throttle_time_ms"
            for field in field_specs(response_class(api.request_class))
        )
    }

    assert without == {
        "ControlledShutdown", "Envelope", "LeaderAndIsr", "SaslAuthenticate", "SaslHandshake",
        "StopReplica", "UpdateMetadata", "WriteTxnMarkers",
    }  # fmt: skip
