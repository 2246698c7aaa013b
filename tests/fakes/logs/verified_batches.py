"""Batches that may begin a transaction in a log: their coordinator has said that the log takes
part.
"""

from __future__ import annotations

from typing import TypeVar

from kbroker.apis.produce_validation import transactional_batch
from kbroker.log.partition.log import Log

Records = TypeVar("Records", bytearray, memoryview)


def verified(log: Log, records: Records) -> Records:
    """The records, which the log takes now; those that are of no transaction are as they were."""
    batch = transactional_batch(memoryview(records))
    if batch is not None:
        state = log.producer_state.begin_verification(batch, 0)
        if state is not None:
            state.verify(batch.producer_epoch)
    return records
