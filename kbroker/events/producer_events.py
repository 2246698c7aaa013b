"""Events of transactional producers: why one is fenced.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kbroker.events.event import Fields, known, quoted


class FenceCause(Enum):
    """The cause for which a producer may write no more."""

    NEWER_PRODUCER = "another one has begun under the same transactional id"
    TIMED_OUT = "its transaction was open for over {timeout_ms:,} ms (transaction.timeout.ms)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ProducerFenced:
    """A producer is fenced; producer id and epoch are those that it had."""

    name = "producer_fenced"
    group = None
    topic_partition = None

    transactional_id: str
    producer_id: int
    epoch: int
    why: FenceCause
    timeout_ms: int = 0
    aborted_partitions: int = 0  # of its open transaction

    @property
    def cause(self) -> str:
        return self.why.name.lower()

    def sentence(self) -> str:
        """Say who is fenced, by what, and what is aborted with it."""
        count = self.aborted_partitions
        noun = "partition" if count == 1 else "partitions"
        aborted = f"; its transaction in {count:,} {noun} is aborted" if count else ""
        return (
            f"The producer of transactional id {quoted(self.transactional_id)} is fenced (producer "
            f"id {self.producer_id}, epoch {self.epoch}): "
            f"{self.why.value.format(timeout_ms=self.timeout_ms)}{aborted}"
        )

    def fields(self) -> Fields:
        """Name the transactional id and the producer."""
        return known(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
