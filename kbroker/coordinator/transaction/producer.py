"""Producer: who writes a transaction. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Producer(NamedTuple):
    """A producer id and its epoch, both -1 if there is none."""

    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
