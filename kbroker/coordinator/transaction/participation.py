"""Participation: the question whether partitions take part in a transaction, and its answer.

Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition

Codes = dict[TopicPartition, ErrorCode]


class Participation(NamedTuple):
    """A question: do these partitions take part in the transaction of that producer? With `adds`
    they are to from now on.
    """

    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]
    adds: bool = False

    def all_are(self, code: ErrorCode) -> Codes:
        return dict.fromkeys(self.partitions, code)
