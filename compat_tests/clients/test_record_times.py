"""What KafkaJS leaves out of a batch's header: a fresh record is found by its time, and stays."""

from __future__ import annotations

import time

import pytest

from compat_tests.clients import node_clients
from compat_tests.clients.every_client import run
from compat_tests.running.prerequisites import require_program
from compat_tests.wire.record_bytes import first_batch
from compat_tests.wire.wire_client import WireClient

HOUR_MS = 3_600_000


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("order", ["aged-first", "fresh-first"])
def test_a_record_whose_time_kafkajs_leaves_out_is_found(
    wire: WireClient, bootstrap: str, codec: str, order: str
) -> None:
    topic = wire.create_topic()
    now_ms = int(time.time() * 1000)
    node = require_program("node", "install Node.js 20 or newer")
    run([node, str(node_clients.folder() / "aged.js"), bootstrap, topic, codec, order])

    newest = first_batch(wire.fetch(topic, 0).records)["max_timestamp"]
    fresh = 0 if order == "fresh-first" else 1

    assert abs(newest - now_ms) < HOUR_MS
    assert wire.list_offsets(topic, now_ms - HOUR_MS).startswith(f"0 offset={fresh} ")
