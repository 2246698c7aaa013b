"""What brokers say to each other, said by anybody: random requests of every version, half of them
with numbers and names that matter to the broker, sent to a running one. A member of a cluster takes
them for those of its controller, whose id and epoch most of them have; alone it takes none.

    python -m tests.faults.hostile_orders --rounds 20000 --seed 1
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
from pathlib import Path
from random import Random
from socket import socket
from typing import Any

from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.envelope import EnvelopeRequest
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.schema import Message, Struct, field_specs
from tests.faults.running_broker import RunningBroker, read_answer
from tests.properties.message_samples import random_struct

ORDERS: list[type[Message]] = [
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
    StopReplicaRequest,
    ControlledShutdownRequest,
    AllocateProducerIdsRequest,
    EnvelopeRequest,
]
INSIDE: list[type[Message]] = [
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    MetadataRequest,
]
NAMES = ["orders", "a", "..", "../../escaped", "/tmp/escaped", "x" * 249, "__consumer_offsets", ""]
NUMBERS = [0, 0, 0, 1, 2, -1, -2, 7, 2**31 - 1, -(2**31)]
EPOCHS = [1] * 9 + [0]  # the cluster's own controller has 1
IN_A_CLUSTER = ("--brokers", "2")
FUTURE_EPOCHS = [1, 2, 3, 2**31 - 1]
CHOICES: dict[str, list[Any]] = {
    "topic_name": NAMES,
    "name": NAMES,
    "partition_index": NUMBERS,
    "partition_indexes": [[0], [0, 0, 1], [-1], [2**31 - 1], list(range(300))],
    "leader": NUMBERS,
    "leader_epoch": NUMBERS,
    "partition_epoch": NUMBERS,
    "replicas": [[0], [0, 1], [], [0, 0, 0], [-1], [2**31 - 1]],
    "isr": [[0], [], [5], [0, 0]],
    "controller_id": NUMBERS,
    "broker_id": NUMBERS,
    "id": NUMBERS,
    "security_protocol": [0, 0, 1, 3, 4, -1],
    "num_partitions": [-1, 0, 1, 3],
    "replication_factor": [-1, 0, 1, 2],
}


def order(random: Random, epochs: list[int]) -> bytes:
    """One frame with its size."""
    cls = random.choice(ORDERS)
    version = random.randrange(cls.spec.versions.lowest, cls.spec.versions.highest + 1)
    request = _random_request(cls, version, random)
    if hasattr(request, "controller_epoch"):
        request.controller_epoch = random.choice(epochs)
        request.controller_id = random.choice([0] * 9 + [1])
    if hasattr(request, "broker_epoch"):
        request.broker_epoch = random.choice([-1, -1, -1, 0, 2**62, -(2**63)])
    if isinstance(request, EnvelopeRequest) and random.random() < 0.8:
        inner = random.choice(INSIDE)
        inner_version = random.randrange(inner.spec.versions.highest + 1)
        request.request_data = _body(_random_request(inner, inner_version, random), inner_version)
        request.request_principal = bytes.fromhex("00000555736572026100" + "00")
        request.client_host_address = random.choice([bytes(4), bytes(16), b""])
    frame = _body(request, version)
    if random.random() < 0.1:
        frame = frame[: random.randrange(8, len(frame) + 1)]
    return struct.pack(">i", len(frame)) + frame


def _random_request(cls: type[Message], version: int, random: Random) -> Any:
    request = random_struct(cls, version, random)
    if random.random() < 0.8:
        _choose(request, version, random)
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = random.choice([0, -1, 10])  # a topic that no tree holds never goes
    return request


def _choose(value: Struct, version: int, random: Random) -> None:
    for field in field_specs(type(value)):
        if version not in field.versions:
            continue
        if field.name in CHOICES:
            setattr(value, field.name, random.choice(CHOICES[field.name]))
        elif field.struct is not None and field.is_array:
            for entry in getattr(value, field.name) or ():
                _choose(entry, version, random)


def _body(request: Message, version: int) -> bytes:
    key = request.spec.key
    assert key is not None
    return encode(request, version, encode_request_header(RequestHeader(key, version, 1, "x")))


def run(directory: Path, seed: int, rounds: int, *options: str) -> int:
    """Send so many orders; returns how many were answered.

    Raises AssertionError when the broker ended, answered one with a bug, or wrote outside its
    directory.
    """
    random = Random(seed)
    broker = RunningBroker(directory / "data", *options).start()
    outside = {path.name for path in directory.iterdir()}
    answered = 0
    connection: socket | None = None
    try:
        for number in range(rounds):
            if connection is None:
                connection = broker.connect()
            # At the end somebody says to be a later controller.
            epochs = EPOCHS if number < rounds - rounds // 10 else FUTURE_EPOCHS
            connection.sendall(order(random, epochs))
            if read_answer(connection):
                answered += 1
            else:
                connection.close()
                connection = None
        broker.assert_serves()
        assert "no longer controller" not in broker.said(), f"seed {seed}: {broker.said()[-4000:]}"
        assert "UNKNOWN_SERVER_ERROR" not in broker.said(), f"seed {seed}: {broker.said()[-4000:]}"
        assert {path.name for path in directory.iterdir()} == outside, f"seed {seed}"
    finally:
        if connection is not None:
            connection.close()
        broker.end()
    return answered


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name, of_cluster in (("alone", ()), ("member", IN_A_CLUSTER)):
            (Path(directory) / name).mkdir()
            answered = run(Path(directory) / name, options.seed, options.rounds, *of_cluster)
            print(f"{name}: {answered} of {options.rounds} orders were answered, others closed on")


if __name__ == "__main__":
    sys.exit(main())
