"""Copies into a target without transactions: records are there at least once.

Law: the place in the source is committed after the records and their stretch of the offset map are
written. A run after a crash may write some records again, and leaves none out; the map then points
at the later ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import commit_offsets, committed_entries
from kbroker.client.transactional_producer import NOTHING, Position, TransactionalProducer
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
    """Say whether a cluster serves the requests of transactions. Raises ClientError, KafkaError and
    OSError.
    """
    ask = ApiVersionsRequest(client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION)
    answer = links.ask_any(ask)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "the versions that the target serves")
    served = {entry.api_key for entry in answer.api_keys}
    return served.issuperset(each.spec.key for each in _NEEDED)


class UntransactedCopies(TransactionalProducer):
    """Stands in for the producer: its senders write with idempotent producers of their own, which
    no late answer can end.
    """

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin nothing, for there are no transactions."""

    def commit(self, place: Position) -> None:
        """Set the offset of the group. Raises ClientError, KafkaError and OSError."""
        group, partition = self._identity.group, self._identity.partition
        offsets = {partition: place.offset}
        (code,) = commit_offsets(self._cluster, group, offsets, place.metadata).values()
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"offsets of group {group}")
        self.place = place

    def abort(self) -> None:
        """Take nothing back, for nothing can be."""

    def _begin(self) -> None:
        return None

    def _committed(self) -> Position:
        entries = committed_entries(self._cluster, self._identity.group)
        entry = entries.get(self._identity.partition)
        if entry is None or entry.committed_offset < 0:
            return NOTHING
        return Position(entry.committed_offset, entry.metadata or "")
