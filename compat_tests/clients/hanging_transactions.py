"""Transactions that nobody will end: what a producer leaves that writes past its coordinator."""

from __future__ import annotations

import time

from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import TRANSACTIONAL, Batch
from compat_tests.wire.wire_client import WireClient, stored_at

UNVERIFIED = "transaction.partition.verification.enable=false"
"""The setting with which a broker takes their records."""
_BEFORE_THE_SECOND_PROTOCOL = 8  # later versions of Produce tell the coordinator


def hang(
    wire: WireClient,
    topic: str,
    producer_id: int,
    offset: int,
    timestamp_ms: int | None = None,
    partition: int = 0,
) -> None:
    """Let a transaction hang in a partition from this offset on, its end; since an hour if not said
    otherwise.
    """
    wire.wait_for_topic(topic)
    written = Batch(
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        timestamp_ms=int(time.time() - 3600) * 1000 if timestamp_ms is None else timestamp_ms,
    )
    until(
        lambda: stored_at(offset) == wire.produce(
            topic,
            written.to_bytes(),
            _BEFORE_THE_SECOND_PROTOCOL,
            partition,
            transactional_id="zombie",
        ),
        f"{topic}-{partition} takes what nobody will end at {offset}",
    )  # fmt: skip
