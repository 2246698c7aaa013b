"""Produce: append record batches to partitions (KIP-98, KIP-467, KIP-951, KIP-516).

v0: Record data in format 0; v1 too.
v1: response gains throttle_time_ms.
v2: response gains log_append_time_ms. Record data in format 1.
v3: request gains transactional_id. Record data in format 2; transactions.
v4: Same bytes as v3; the code KAFKA_STORAGE_ERROR.
v5: response gains log_start_offset.
v6: Same bytes as v5.
v7: Same bytes as v6; zstd is allowed.
v8: response gains record_errors, error_message.
v9: flexible.
v10: response gains current_leader, node_endpoints.
v11: Same bytes as v10.
v12: Same bytes as v11; transactions of the second protocol (KIP-890).
v13: request gains topic_id; request drops name; response gains topic_id; response drops name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest(Message):
    class PartitionProduceData(Struct):
        """The batches of one partition; in v3 and later exactly one, in format 2."""

        index: int = wire("int32", default=0, varies=True)
        records: memoryview | None = wire("records", nullable="0+", default=None, varies=True)

    class TopicProduceData(Struct):
        name: str = wire("string", "0-12", default="")
        topic_id: UUID = wire("uuid", "13+", default=ZERO_UUID)
        partition_data: list[ProduceRequest.PartitionProduceData] = wire(
            "[]PartitionProduceData", default=[]
        )

    error_values: ClassVar[Mapping[str, Any]] = {"base_offset": -1}
    # More partitions than a broker leads.
    max_elements: ClassVar[int] = 32_768

    transactional_id: str | None = wire("string", "3+", nullable="3+", default=None)
    acks: int = wire("int16", default=0)
    timeout_ms: int = wire("int32", default=0)
    topic_data: list[ProduceRequest.TopicProduceData] = wire("[]TopicProduceData", default=[])


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse(Message):
    class BatchIndexAndErrorMessage(Struct):
        """A record that was refused, by its index in the batch."""

        batch_index: int = wire("int32", "8+", default=0)
        batch_index_error_message: str | None = wire("string", "8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(Struct):
        """The current leader of the partition, for a client that asked the wrong broker."""

        leader_id: int = wire("int32", "10+", default=-1)
        leader_epoch: int = wire("int32", "10+", default=-1)

    class PartitionProduceResponse(Struct):
        index: int = wire("int32", default=0, varies=True)
        error_code: int = wire("int16", default=0)
        base_offset: int = wire("int64", default=0, varies=True)
        log_append_time_ms: int = wire("int64", "2+", default=-1, varies=True)
        log_start_offset: int = wire("int64", "5+", default=-1, varies=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = wire(
            "[]BatchIndexAndErrorMessage", "8+", default=[]
        )
        error_message: str | None = wire("string", "8+", nullable="8+", default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch = wire(
            "LeaderIdAndEpoch", "10+", tag=0, default=...
        )

    class TopicProduceResponse(Struct):
        name: str = wire("string", "0-12", default="")
        topic_id: UUID = wire("uuid", "13+", default=ZERO_UUID)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = wire(
            "[]PartitionProduceResponse", default=[]
        )

    class NodeEndpoint(Struct):
        """Address of a leader named in current_leader."""

        node_id: int = wire("int32", "10+", default=0)
        host: str = wire("string", "10+", default="")
        port: int = wire("int32", "10+", default=0)
        rack: str | None = wire("string", "10+", nullable="10+", default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = wire(
        "[]TopicProduceResponse", default=[]
    )
    throttle_time_ms: int = wire("int32", "1+", default=0)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = wire(
        "[]NodeEndpoint", "10+", tag=0, default=[]
    )
