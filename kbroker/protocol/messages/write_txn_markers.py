"""WriteTxnMarkers: a transaction coordinator has leaders write the ends of transactions (KIP-98,
KIP-1228).

v1: flexible.
v2: request gains transaction_version.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=27, versions="0-2", flexible="1+", served="0-1")
class WriteTxnMarkersRequest(Message):
    class WritableTxnMarkerTopic(Struct):
        name: str = wire("string", default="")
        partition_indexes: list[int] = wire("[]int32", default=[])

    class WritableTxnMarker(Struct):
        """The end of one producer's transaction; true is a commit."""

        producer_id: int = wire("int64", default=0)
        producer_epoch: int = wire("int16", default=0)
        transaction_result: bool = wire("bool", default=False)
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = wire(
            "[]WritableTxnMarkerTopic", default=[]
        )
        coordinator_epoch: int = wire("int32", default=0)
        transaction_version: int = wire("int8", "2+", default=0)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = wire(
        "[]WritableTxnMarker", default=[]
    )


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class WritableTxnMarkerTopicResult(Struct):
        name: str = wire("string", default="")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = wire(
            "[]WritableTxnMarkerPartitionResult", default=[]
        )

    class WritableTxnMarkerResult(Struct):
        producer_id: int = wire("int64", default=0)
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = wire(
            "[]WritableTxnMarkerTopicResult", default=[]
        )

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = wire(
        "[]WritableTxnMarkerResult", default=[]
    )
