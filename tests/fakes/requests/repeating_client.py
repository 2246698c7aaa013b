"""A client whose requests repeat, and take the short way then."""

from __future__ import annotations

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.protocol.request import NoResponse, Response
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import answer_to, frame_of, response_of


class RepeatingClient:
    """A connection to `apis`; what it repeats takes the short way, as in a Channel."""

    def __init__(self, apis: KafkaApis) -> None:
        self.apis = apis
        self.connection = local_connection()
        self.short_ways = 0

    def send(self, frame: bytes):
        """Bytes of an answer that came in the short way; else what the handler of requests gives,
        None if the request has to be decoded."""
        buffer = bytearray(b"\0\0" + frame + b"\0")
        lanes = self.connection.short_way
        result = None if lanes is None else lanes.answer(buffer, 2, len(buffer) - 1)
        self.short_ways += result is not None
        return result

    async def ask(self, request, version, client_id="client"):
        """The answer to a request, decoded; None without one."""
        data = await self.answer(frame_of(request, version, client_id))
        return response_of(request, version, data) if data else None

    async def answer(self, frame: bytearray) -> bytes:
        """The bytes of the answer to a frame, none without one."""
        result = self.send(frame)
        if result is None:
            return await answer_to(self.apis, frame, self.connection)
        if isinstance(result, bytes):
            return result[4:]
        while not isinstance(result, (Response, NoResponse)):
            result = await result
        return b"".join(result.pieces) if isinstance(result, Response) else b""
