"""ControlledShutdown: a broker that is about to stop asks the controller to move its leaderships
(KIP-49).

v1: Same bytes as v0, but the request's header has a client id.
v2: request gains broker_epoch.
v3: flexible.

Not in 4.x, where no controller uses ZooKeeper.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", "2+", default=-1)


@message(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    """The partitions that it still leads although others have replicas of them."""

    class RemainingPartition(Struct):
        topic_name: str = wire("string", default="")
        partition_index: int = wire("int32", default=0)

    error_code: int = wire("int16", default=0)
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = wire(
        "[]RemainingPartition", default=[]
    )
