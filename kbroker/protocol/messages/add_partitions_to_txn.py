"""AddPartitionsToTxn: a producer, or a broker for it, adds partitions to a transaction (KIP-98,
KIP-890).

v1: Same bytes as v0.
v2: Same bytes as v1; the code PRODUCER_FENCED.
v3: flexible.
v4: request gains transactions; request drops v3_and_below_transactional_id,
    v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics; response gains
    error_code, results_by_transaction; response drops results_by_topic_v3_and_below. Many
    transactions in one request, from brokers only.
v5: Same bytes as v4; the code TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    """The partitions; from v4 on those of many transactions, which may be asked about only."""

    class AddPartitionsToTxnTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class AddPartitionsToTxnTransaction(Struct):
        """One transaction; with verify_only nothing is added."""

        transactional_id: str = wire("string", "4+", default="")
        producer_id: int = wire("int64", "4+", default=0)
        producer_epoch: int = wire("int16", "4+", default=0)
        verify_only: bool = wire("bool", "4+", default=False)
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = wire(
            "[]AddPartitionsToTxnTopic", "4+", default=[]
        )

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = wire(
        "[]AddPartitionsToTxnTransaction", "4+", default=[]
    )
    v3_and_below_transactional_id: str = wire("string", "0-3", default="")
    v3_and_below_producer_id: int = wire("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = wire("int16", "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = wire(
        "[]AddPartitionsToTxnTopic", "0-3", default=[]
    )


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = wire("int32", default=0)
        partition_error_code: int = wire("int16", default=0)

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = wire("string", default="")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (
            wire("[]AddPartitionsToTxnPartitionResult", default=[])
        )

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = wire("string", "4+", default="")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = wire(
            "[]AddPartitionsToTxnTopicResult", "4+", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", "4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = wire(
        "[]AddPartitionsToTxnResult", "4+", default=[]
    )
    results_by_topic_v3_and_below: list[
        AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    ] = wire("[]AddPartitionsToTxnTopicResult", "0-3", default=[])
