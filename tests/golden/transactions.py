"""Leaves, for the sessions, two transactional ids that are used no more and a transaction that hangs
in `ledger`:

    .venv/bin/python -m tests.golden.transactions HOST:PORT
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer

from compat_tests.hanging_transactions import hang
from compat_tests.wire.wire_client import WireClient

TOPIC = "ledger"
LAST_WRITTEN_MS = 1_763_676_000_000  # for three years, how long ago has eight digits


def main(bootstrap: str) -> None:
    """Write them."""
    for name in ("billing", "shipping"):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions(20)
    wire = WireClient(bootstrap)
    hang(wire, TOPIC, 4711, 0, LAST_WRITTEN_MS)
    wire.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
