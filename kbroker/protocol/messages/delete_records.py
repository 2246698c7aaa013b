"""DeleteRecords: remove the records before an offset (KIP-107).

v1: Same bytes as v0.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    class DeleteRecordsPartition(Struct):
        """A partition and the first offset to keep; -1 is the high watermark."""

        partition_index: int = wire("int32", default=0)
        offset: int = wire("int64", default=0)

    class DeleteRecordsTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = wire(
            "[]DeleteRecordsPartition", default=[]
        )

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = wire("[]DeleteRecordsTopic", default=[])
    timeout_ms: int = wire("int32", default=0)


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The new log start offsets of the partitions."""

    class DeleteRecordsPartitionResult(Struct):
        """The first offset that every live replica still has; -1 with an error."""

        partition_index: int = wire("int32", default=0)
        low_watermark: int = wire("int64", default=0)
        error_code: int = wire("int16", default=0)

    class DeleteRecordsTopicResult(Struct):
        name: str = wire("string", default="")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = wire(
            "[]DeleteRecordsPartitionResult", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = wire(
        "[]DeleteRecordsTopicResult", default=[]
    )
