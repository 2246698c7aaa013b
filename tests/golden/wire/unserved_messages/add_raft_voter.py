"""AddRaftVoter: add a voter to the metadata quorum (KIP-853, KIP-1186).

v0: flexible.
v1: request gains ack_when_committed.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest(Message):
    """The voter and where it is reached."""

    class Listener(Struct):
        """Where a listener of the voter is reached."""

        name: str = wire("string", default="")
        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    cluster_id: str | None = wire("string", nullable="0+", default="")
    timeout_ms: int = wire("int32", default=0)
    voter_id: int = wire("int32", default=0)
    voter_directory_id: UUID = wire("uuid", default=ZERO_UUID)
    listeners: list[AddRaftVoterRequest.Listener] = wire("[]Listener", default=[])
    ack_when_committed: bool = wire("bool", "1+", default=True)


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse(Message):
    """Whether it votes now."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
