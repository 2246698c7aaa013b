"""DescribeCluster: cluster id, controller and brokers (KIP-700, KIP-919, KIP-1073).

v1: request gains endpoint_type; response gains endpoint_type.
v2: request gains include_fenced_brokers; response gains is_fenced.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    """Options of the answer; endpoint type 1 is brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = wire("bool", default=False)
    endpoint_type: int = wire("int8", "1+", default=1)
    include_fenced_brokers: bool = wire("bool", "2+", default=False)


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    class DescribeClusterBroker(Struct):
        broker_id: int = wire("int32", default=0)
        host: str = wire("string", default="")
        port: int = wire("int32", default=0)
        rack: str | None = wire("string", nullable="0+", default=None)
        is_fenced: bool = wire("bool", "2+", default=False)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default=None)
    endpoint_type: int = wire("int8", "1+", default=1)
    cluster_id: str = wire("string", default="")
    controller_id: int = wire("int32", default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = wire(
        "[]DescribeClusterBroker", default=[]
    )
    cluster_authorized_operations: int = wire("int32", default=-2147483648)
