"""Copies into a target without transactions: records are there at least once.

Law: the place in the source is committed after the records and their stretch of the map are
written. Who goes on after a crash may write some again, and nothing is left out; the map then has
the later ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import commit_offsets, committed_entries
from kbroker.client.record_sender import RecordProducer
from kbroker.client.transactional_producer import NOTHING, Position
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.request import NO_VERSION, OWN_SOFTWARE

_NEEDED = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)


def has_transactions(links: ClusterLinks) -> bool:
    """Whether a cluster serves the requests of transactions. Raises ClientError, KafkaError and
    OSError.
    """
    ask = ApiVersionsRequest(client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION)
    answer = links.ask_any(ask)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "the versions that the target serves")
    served = {entry.api_key for entry in answer.api_keys}
    return served.issuperset(each.spec.key for each in _NEEDED)


class UntransactedCopies:
    """In the place of a TransactionalProducer; a RecordSender makes an idempotent producer of its
    own. Owned by one thread.
    """

    producer: RecordProducer | None = None
    lost_an_answer = False  # no late answer can end a transaction

    def __init__(self, links: ClusterLinks) -> None:
        self._links = links

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing is begun."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, Position]) -> None:
        """Set the offsets of the group. Raises ClientError, KafkaError and OSError."""
        for partition, (offset, note) in offsets.items():
            (code,) = commit_offsets(self._links, group, {partition: offset}, note).values()
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"offsets of group {group}")

    def abort(self) -> None:
        """Nothing can be taken back."""

    def committed(self, group: str, partition: TopicPartition) -> Position:
        """How far a group has come. Raises ClientError, KafkaError and OSError."""
        entry = committed_entries(self._links, group).get(partition)
        if entry is None or entry.committed_offset < 0:
            return NOTHING
        return Position(entry.committed_offset, entry.metadata or "")
