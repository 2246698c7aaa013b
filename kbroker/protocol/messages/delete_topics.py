"""DeleteTopics: delete topics by name or id (KIP-516, KIP-525, KIP-599).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: Same bytes as v2; the code TOPIC_DELETION_DISABLED.
v4: flexible.
v5: response gains error_message.
v6: request gains topics; request drops topic_names; response gains topic_id; response may have null
    name.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest(Message):
    class DeleteTopicState(Struct):
        """A topic by name, or by id with a null name."""

        name: str | None = wire("string", "6+", nullable="6+", default=None)
        topic_id: UUID = wire("uuid", "6+", default=ZERO_UUID)

    topics: list[DeleteTopicsRequest.DeleteTopicState] = wire(
        "[]DeleteTopicState", "6+", default=[]
    )
    topic_names: list[str] = wire("[]string", "0-5", default=[])
    timeout_ms: int = wire("int32", default=0)


@message(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Message):
    class DeletableTopicResult(Struct):
        name: str | None = wire("string", nullable="6+", default="")
        topic_id: UUID = wire("uuid", "6+", default=ZERO_UUID)
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", "5+", nullable="5+", default=None)

    throttle_time_ms: int = wire("int32", "1+", default=0)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = wire(
        "[]DeletableTopicResult", default=[]
    )
