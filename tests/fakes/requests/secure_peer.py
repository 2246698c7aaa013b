"""The other end of a BrokerClient, on a real port: TLS, a login, and SyncGroup, whose assignment comes
back.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kbroker.errors import ErrorCode
from kbroker.model import EndPoint
from kbroker.protocol.codec import decode
from kbroker.protocol.header import API_VERSIONS_KEY, RequestHeader, decode_request_header
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.schema import Message
from kbroker.sasl.login_gate import LoginGate, Moment, Outcome, Step
from tests.fakes.requests.scripted_peer import ScriptedPeer, answer_frame

SIZE_MAX = 1 << 24
BETWEEN_FRAMES_MS = 1_000  # on the clock of a gate


class SecurePeer:
    """Listens on a free port of this machine from `async with` on."""

    def __init__(
        self, context: ssl.SSLContext | None = None, begin: Callable[[], LoginGate] | None = None
    ) -> None:
        self.steps: list[Step] = []  # of all logins
        self.connections = 0
        self._context, self._begin = context, begin
        self._others = ScriptedPeer(lambda *_: None)
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut()

    @property
    def end_point(self) -> EndPoint:
        tls = "SSL" if self._context is not None else "PLAINTEXT"
        return EndPoint(
            listener_name="INSIDE",
            host="127.0.0.1",
            port=self._server.sockets[0].getsockname()[1],
            security_protocol=tls if self._begin is None else f"SASL_{tls}",
        )

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        gate = self._begin() if self._begin is not None else None
        now_ms = 0
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if size > SIZE_MAX:
                    break
                frame = memoryview(await reader.readexactly(size))
                now_ms += BETWEEN_FRAMES_MS
                step = Step(Outcome.PASSED)
                if gate is not None:
                    step = gate.receive(frame, Moment(now_ms, now_ms))
                    self.steps.append(step)
                answer = self._answer(step, frame)
                writer.write(struct.pack(">i", len(answer)) + answer)
                if step.outcome is Outcome.FAILED:
                    break
        except (OSError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, step: Step, frame: memoryview) -> bytes:
        if step.outcome is not Outcome.PASSED:
            assert step.header is not None
            assert isinstance(step.answer, Message), step
            return answer_frame(step.header, step.answer)
        header, offset = decode_request_header(frame)
        if header.api_key == API_VERSIONS_KEY:
            return self._others.api_versions(header)
        request, _ = decode(SyncGroupRequest, header.api_version, frame, offset)
        assignment = b"".join(each.assignment for each in request.assignments)
        return answer_frame(header, SyncGroupResponse(assignment=assignment))


def answer_versions(header: RequestHeader, _body: memoryview) -> ApiVersionsResponse:
    """Answer a client before its login: all that is declared."""
    peer = ScriptedPeer(lambda *_: None)
    listed = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in peer.served.items()
    ]
    assert header.api_version <= peer.api_versions_highest
    return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=listed)


def sync(assignment: bytes) -> SyncGroupRequest:
    """A request that SecurePeer answers with these bytes."""
    entry = SyncGroupRequest.SyncGroupRequestAssignment(member_id="m", assignment=assignment)
    return SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[entry])
