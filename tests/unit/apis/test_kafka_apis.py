from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbroker.apis.api_versions import handle as handle_api_versions
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import Api
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import NoResponse, Response
from kbroker.protocol.schema import Versions
from kbroker.unserved import UnservedError
from kbroker.zk.tree import (
    SessionExpiredError,
    TreeError,
    TreeStorageError,
    TreeUnavailableError,
)
from tests.fakes.clusters.peers import no_peers
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.running.virtual_time import VirtualTime

CLOCK = VirtualTime()
HEARTBEAT_V0 = encode(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 0)
PRODUCE_V3 = encode(ProduceRequest(acks=0), 3)


def apis_with(handler: Callable[[RequestContext, Any], Any]) -> KafkaApis:
    nothing: Any = object()
    services = Services(
        replicas=nothing,
        groups=nothing,
        transactional=nothing,
        metadata=nothing,
        topics=nothing,
        configs=nothing,
        producer_ids=nothing,
        controller=nothing,
        control=None,
        peers=no_peers(),
        forwarding=None,
        config=KafkaConfig(),
        clock=CLOCK,
    )
    return KafkaApis(
        {
            0: Api(0, "Produce", ProduceRequest, Versions.parse("3-13"), handler),
            12: Api(12, "Heartbeat", HeartbeatRequest, Versions.parse("0-4"), handler),
            18: Api(
                18, "ApiVersions", ApiVersionsRequest, Versions.parse("0-5"), handle_api_versions
            ),
        },
        services,
    )


def sent(result: object) -> bytes:
    assert isinstance(result, Response)
    return b"".join(bytes(piece) for piece in result.pieces)  # type: ignore[arg-type]


def test_a_direct_answer_has_its_header_and_body() -> None:
    apis = apis_with(
        lambda ctx, request: HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    )
    assert sent(apis.handle(request_of(12, 0, HEARTBEAT_V0))) == struct.pack(">ih", 7, 22)


def test_a_flexible_answer_has_a_header_with_tags() -> None:
    apis = apis_with(lambda ctx, request: HeartbeatResponse())
    body = encode(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 4)
    assert sent(apis.handle(request_of(12, 4, body))) == struct.pack(">ibih", 7, 0, 0, 0) + b"\0"


def test_the_handler_sees_message_version_and_connection() -> None:
    seen: list[tuple[int, str, str | None, str]] = []

    def handler(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        seen.append((ctx.api_version, request.group_id, ctx.client_id, ctx.connection.peer_host))
        return HeartbeatResponse()

    apis_with(handler).handle(request_of(12, 0, HEARTBEAT_V0))
    assert seen == [(0, "g", "test", "127.0.0.1")]


async def test_an_awaited_answer_comes_the_same() -> None:
    async def handler(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=25)

    result = apis_with(handler).handle(request_of(12, 0, HEARTBEAT_V0))
    assert isinstance(result, Awaitable)
    assert sent(await result) == struct.pack(">ih", 7, 25)


def refusing(ctx: RequestContext, request: object) -> HeartbeatResponse:
    raise KafkaError(ErrorCode.NOT_COORDINATOR)


async def refusing_later(ctx: RequestContext, request: object) -> HeartbeatResponse:
    raise KafkaError(ErrorCode.NOT_COORDINATOR)


def test_a_refusal_becomes_its_code() -> None:
    answer = sent(apis_with(refusing).handle(request_of(12, 0, HEARTBEAT_V0)))
    assert answer == struct.pack(">ih", 7, 16)


async def test_a_refusal_after_waiting_becomes_its_code() -> None:
    result = apis_with(refusing_later).handle(request_of(12, 0, HEARTBEAT_V0))

    assert isinstance(result, Awaitable)
    assert sent(await result) == struct.pack(">ih", 7, 16)


def test_a_refused_produce_with_acks_0_closes_without_an_answer() -> None:
    assert apis_with(refusing).handle(request_of(0, 3, PRODUCE_V3)) == NoResponse(close=True)


def test_a_bug_is_answered_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def bug(ctx: RequestContext, request: object) -> HeartbeatResponse:
        raise AssertionError("a bug")

    apis = apis_with(bug)
    assert sent(apis.handle(request_of(12, 0, HEARTBEAT_V0))) == struct.pack(">ih", 7, -1)
    apis.handle(request_of(12, 0, HEARTBEAT_V0))
    assert (len(caplog.records), apis.stats.bugs.value) == (1, 2)
    CLOCK.advance(60_000)
    apis.handle(request_of(12, 0, HEARTBEAT_V0))
    assert len(caplog.records) == 2


def test_an_answer_that_cannot_be_encoded_is_a_bug_too() -> None:
    apis = apis_with(lambda ctx, request: HeartbeatResponse(error_code=1 << 20))
    assert sent(apis.handle(request_of(12, 0, HEARTBEAT_V0))) == struct.pack(">ih", 7, -1)


def test_no_response_goes_through() -> None:
    apis = apis_with(lambda ctx, request: NoResponse())
    assert apis.handle(request_of(0, 3, PRODUCE_V3)) == NoResponse()


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [(38, 0, b""), (12, 5, HEARTBEAT_V0), (12, -1, HEARTBEAT_V0), (0, 2, b""), (12, 0, b"\0")],
)
def test_what_is_not_served_or_cannot_be_read_is_a_protocol_error(
    key: int, version: int, body: bytes
) -> None:
    with pytest.raises(ProtocolError):
        apis_with(lambda ctx, request: HeartbeatResponse()).handle(request_of(key, version, body))


@pytest.mark.parametrize(
    ("key", "version", "text"),
    [
        (38, 0, "does not serve CreateDelegationToken: docs/compatibility"),
        (12, 5, "does not serve Heartbeat version 5: it serves 0-4"),
    ],
)
def test_what_is_not_served_is_told_with_who_asked(key: int, version: int, text: str) -> None:
    apis = apis_with(lambda ctx, request: HeartbeatResponse())

    with pytest.raises(UnservedError, match=text) as refused:
        apis.handle(request_of(key, version, b""))

    assert refused.value.client_id == "test"


def test_trailing_bytes_are_accepted_and_counted() -> None:
    apis = apis_with(lambda ctx, request: HeartbeatResponse())
    apis.handle(request_of(12, 0, HEARTBEAT_V0 + b"abc"))
    apis.handle(request_of(12, 0, HEARTBEAT_V0))
    assert (apis.stats.trailing_bytes.value, apis.stats.requests) == (1, 2)


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    answer = sent(apis_with(refusing).handle(request_of(18, 99, b"?")))
    assert answer == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 5)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TreeStorageError("the disk is full"), ErrorCode.KAFKA_STORAGE_ERROR),
        (TreeUnavailableError("/"), ErrorCode.REQUEST_TIMED_OUT),
        (SessionExpiredError("/"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_tree_that_cannot_be_used_is_answered_with_what_clients_try_again_on(
    error: TreeError, code: ErrorCode
) -> None:
    def handler(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise error

    apis = apis_with(handler)
    answer = sent(apis.handle(request_of(12, 0, HEARTBEAT_V0)))
    assert answer == struct.pack(">ih", 7, code)
    assert (code.retriable, apis.stats.bugs.value) == (True, 0)
