"""DescribeLogDirs: the data directories of a broker and the replicas in them (KIP-113, KIP-827).

v1: Same bytes as v0.
v2: flexible.
v3: response gains error_code.
v4: response gains total_bytes, usable_bytes.
v5: response gains is_cordoned (KIP-1066).
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    """The partitions to describe; null is all."""

    class DescribableLogDirTopic(Struct):
        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = wire(
        "[]DescribableLogDirTopic", nullable="0+", default=[]
    )


@message(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    class DescribeLogDirsPartition(Struct):
        """A replica: bytes of its segments, and how far it lags behind (-1: unknown)."""

        partition_index: int = wire("int32", default=0)
        partition_size: int = wire("int64", default=0)
        offset_lag: int = wire("int64", default=0)
        is_future_key: bool = wire("bool", default=False)

    class DescribeLogDirsTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = wire(
            "[]DescribeLogDirsPartition", default=[]
        )

    class DescribeLogDirsResult(Struct):
        """One directory; sizes are those of its volume, -1 if unknown."""

        error_code: int = wire("int16", default=0)
        log_dir: str = wire("string", default="")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = wire(
            "[]DescribeLogDirsTopic", default=[]
        )
        total_bytes: int = wire("int64", "4+", default=-1)
        usable_bytes: int = wire("int64", "4+", default=-1)
        is_cordoned: bool = wire("bool", "5+", default=False)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", "3+", default=0)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = wire(
        "[]DescribeLogDirsResult", default=[]
    )
