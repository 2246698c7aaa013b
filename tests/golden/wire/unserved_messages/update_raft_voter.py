"""UpdateRaftVoter: a voter of the metadata quorum has other addresses or abilities (KIP-853).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest(Message):
    """The voter as it is now."""

    class Listener(Struct):
        """Where a listener of the voter is reached."""

        name: str = wire("string", default="")
        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)

    class KRaftVersionFeature(Struct):
        """The levels of kraft.version that the voter supports."""

        min_supported_version: int = wire("int16", default=0)
        max_supported_version: int = wire("int16", default=0)

    cluster_id: str | None = wire("string", nullable="0+", default="")
    current_leader_epoch: int = wire("int32", default=0)
    voter_id: int = wire("int32", default=0)
    voter_directory_id: UUID = wire("uuid", default=ZERO_UUID)
    listeners: list[UpdateRaftVoterRequest.Listener] = wire("[]Listener", default=[])
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = wire(
        "KRaftVersionFeature", default=...
    )


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse(Message):
    """Whether the quorum has taken note, and who leads it."""

    class CurrentLeader(Struct):
        """The leader and where it is reached."""

        leader_id: int = wire("int32", default=-1)
        leader_epoch: int = wire("int32", default=-1)
        host: str = wire("string", default="")
        port: int = wire("int32", default=0)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    current_leader: UpdateRaftVoterResponse.CurrentLeader = wire(
        "CurrentLeader", tag=0, default=...
    )
