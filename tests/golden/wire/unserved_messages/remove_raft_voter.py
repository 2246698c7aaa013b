"""RemoveRaftVoter: remove a voter from the metadata quorum (KIP-853).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, message, wire


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest(Message):
    """The voter."""

    cluster_id: str | None = wire("string", nullable="0+", default="")
    voter_id: int = wire("int32", default=0)
    voter_directory_id: UUID = wire("uuid", default=ZERO_UUID)


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse(Message):
    """Whether it votes no longer."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
