"""Leaves, for the sessions, two transactional ids that are used no more and a transaction that hangs
in `ledger`; or, when told so, one there that its producer may still end:

    .venv/bin/python -m tests.golden.transactions HOST:PORT [open]
"""

from __future__ import annotations

import os
import sys

from confluent_kafka import Producer

from compat_tests.clients.hanging_transactions import hang
from compat_tests.wire.wire_client import WireClient

TOPIC = "ledger"
WAIT_S = 20
LAST_WRITTEN_MS = 1_763_676_000_000  # for three years, how long ago has eight digits


def main(bootstrap: str, what: str = "hanging") -> None:
    """Write them."""
    if what == "open":
        producer = _producer(bootstrap, "billing", timeout_ms=900_000)
        producer.begin_transaction()
        producer.produce(TOPIC, b"42", partition=0)
        assert producer.flush(WAIT_S) == 0
        os._exit(0)  # as one that is killed: what ends in order aborts it
    for name in ("billing", "shipping"):
        _producer(bootstrap, name)
    wire = WireClient(bootstrap)
    hang(wire, TOPIC, 4711, 0, LAST_WRITTEN_MS)
    wire.close()


def _producer(bootstrap: str, name: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer({
        "bootstrap.servers": bootstrap, "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
    })  # fmt: skip
    producer.init_transactions(WAIT_S)
    return producer


if __name__ == "__main__":
    main(*sys.argv[1:])
