"""DeleteShareGroupOffsets: forget where a share group stands (KIP-932).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    """The topics to forget."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = wire("string", default="")

    group_id: str = wire("string", default="")
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = wire(
        "[]DeleteShareGroupOffsetsRequestTopic", default=[]
    )


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    """The result for each topic."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        """The answer for one topic."""

        topic_name: str = wire("string", default="")
        topic_id: UUID = wire("uuid", default=ZERO_UUID)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default=None)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = wire(
        "[]DeleteShareGroupOffsetsResponseTopic", default=[]
    )
