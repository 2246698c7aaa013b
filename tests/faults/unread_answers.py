"""What answers that nobody reads take: for every API whose small requests may have large answers,
many connections send one at once to a broker that has much to tell, and read nothing, while another
client pings it.

    python -m tests.faults.unread_answers [--only DescribeConfigs,ListGroups] [--clients 500]

Each line has the 99th percentile and the longest of the pings, in ms, what the broker's resident
memory rose to above that at rest, in MB, and the bytes of one answer that is read, and how long it
takes. A busy machine makes pings longer: compare with the line of the broker at rest.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, create_connection, socket
from typing import Any

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    encode_request_header,
    response_header_version,
)
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.schema import response_class
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.faults.largest_requests import Others
from tests.faults.many_partitions import creations
from tests.faults.running_broker import RunningBroker, read_answer

_TOPICS = 1_500  # of ten partitions
_GROUPS = 1_000
_IDS = 600  # transactional ids, and producers of one partition
_MEMBER_BYTES = 800_000
_SESSION_MS = 1_800_000  # nobody sends heartbeats, and all lines together take longer than minutes
_RECORD_BYTES = 900_000
_RECORDS = 20
_NOT_READ_ANY_MORE = struct.pack("ii", 1, 0)  # closed, it says so; else it may only send no more
_LOOK_S = 1.0
_MOST_LOOKS = 40
_AT_REST = 0.1  # of the time

_NOW_MS = int(time.time() * 1000)

NAMES = [f"t{number}" for number in range(_TOPICS)]


def _frame(request: Any, version: int) -> bytes:
    head = encode_request_header(RequestHeader(type(request).spec.key, version, 1, "c"))
    return encode(request, version, head)


def _send(connection: socket, data: bytes) -> None:
    connection.sendall(struct.pack(">i", len(data)) + data)


class Teller:
    """One connection, over which a broker is given what it has to tell."""

    def __init__(self, port: int) -> None:
        self._connection = create_connection(("127.0.0.1", port))

    def ask(self, request: Any, version: int) -> Any:
        """Return the answer."""
        _send(self._connection, _frame(request, version))
        data = read_answer(self._connection)
        start = 4 + response_header_version(type(request).spec.key, version)
        return decode(response_class(type(request)), version, data, start)[0]

    def _wait_for(self, key_type: int) -> None:
        """Until the coordinator of groups (0) or transactions (1) is there."""
        request = FindCoordinatorRequest(key="g", key_type=key_type)
        while self.ask(request, 2).error_code:
            time.sleep(0.1)

    def give(self) -> None:
        """All of it."""
        self._wait_for(0)
        self._wait_for(1)
        for data in creations(NAMES):
            _send(self._connection, data)
            read_answer(self._connection)
        self._offsets()
        self._group()
        self._producers()
        self._records()

    def _offsets(self) -> None:
        def topics(names: list[str], partitions: int) -> list[Any]:
            row = OffsetCommitRequest.OffsetCommitRequestPartition
            return [
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        row(partition_index=index, committed_offset=1, committed_metadata="m" * 50)
                        for index in range(partitions)
                    ],
                )
                for name in names
            ]

        for start in range(0, len(NAMES), 100):
            names = NAMES[start : start + 100]
            self.ask(OffsetCommitRequest(group_id="offsets", topics=topics(names, 10)), 2)
        for number in range(_GROUPS):
            name = f"a-group-with-a-long-name-{number}"
            self.ask(OffsetCommitRequest(group_id=name, topics=topics(NAMES[:1], 1)), 2)

    def _group(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name="p", metadata=b"m" * _MEMBER_BYTES
        )
        joined = self.ask(
            JoinGroupRequest(
                group_id="members",
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_SESSION_MS,
                protocol_type="consumer",
                protocols=[protocol],
            ),
            3,
        )
        self.ask(
            SyncGroupRequest(
                group_id="members", generation_id=joined.generation_id, member_id=joined.member_id
            ),
            2,
        )

    def _producers(self) -> None:
        for number in range(_IDS):
            name = f"a-transactional-id-{number}"
            given = self.ask(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=900_000), 1
            )
            options = BatchOptions(
                producer_id=given.producer_id + 1_000_000, producer_epoch=0, base_sequence=0
            )
            self._produce("t0", build([Record(0, _NOW_MS, None, b"v")], options=options))
        row = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=given.producer_id,
                v3_and_below_producer_epoch=given.producer_epoch,
                v3_and_below_topics=[row(name=each, partitions=list(range(10))) for each in NAMES],
            ),
            2,
        )

    def _records(self) -> None:
        for number in range(_RECORDS):
            value = bytes([number]) * _RECORD_BYTES
            self._produce("t1", build([Record(0, _NOW_MS, None, value)]))

    def _produce(self, topic: str, records: bytes) -> None:
        data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(records))
        entry = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
        self.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[entry]), 3)


def requests() -> Iterator[tuple[str, bytes]]:
    """Each that is asked: a name, and a frame."""
    request: Any
    resource = DescribeConfigsRequest.DescribeConfigsResource
    for count in (300, _TOPICS):
        asked = [resource(resource_type=2, resource_name=name) for name in NAMES[:count]]
        request = DescribeConfigsRequest(resources=asked, include_documentation=True)
        yield f"DescribeConfigs of {count}", _frame(request, 4)
    brokers = [resource(resource_type=4, resource_name="0")] * 100
    request = DescribeConfigsRequest(resources=brokers, include_documentation=True)
    yield "DescribeConfigs of brokers", _frame(request, 4)
    yield "DescribeGroups of a large one", _frame(DescribeGroupsRequest(groups=["members"]), 4)
    yield (
        "DescribeGroups of a large one twice",
        _frame(DescribeGroupsRequest(groups=["members"] * 2), 4),
    )
    yield "ListGroups", _frame(ListGroupsRequest(), 3)
    yield "OffsetFetch of all v5", _frame(OffsetFetchRequest(group_id="offsets", topics=None), 5)
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="offsets", topics=None)
    yield "OffsetFetch of all v8", _frame(OffsetFetchRequest(groups=[group]), 8)
    yield "ListTransactions", _frame(ListTransactionsRequest(), 0)
    ids = [f"a-transactional-id-{_IDS - 1}"]
    yield "DescribeTransactions", _frame(DescribeTransactionsRequest(transactional_ids=ids), 0)
    topic = DescribeProducersRequest.TopicRequest(name="t0", partition_indexes=[0])
    yield "DescribeProducers", _frame(DescribeProducersRequest(topics=[topic]), 0)
    yield "DescribeLogDirs", _frame(DescribeLogDirsRequest(topics=None), 2)
    for version in (1, 4, 12):
        yield f"Metadata of all v{version}", _frame(MetadataRequest(topics=None), version)
    request = DescribeTopicPartitionsRequest(response_partition_limit=2_000)
    yield "DescribeTopicPartitions", _frame(request, 0)
    yield "ListConfigResources", _frame(ListConfigResourcesRequest(), 1)
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=2**30)
    fetched = [FetchRequest.FetchTopic(topic="t1", partitions=[partition])]
    for version in (0, 2):
        request = FetchRequest(replica_id=-1, max_wait_ms=10, min_bytes=1, topics=fetched)
        yield f"Fetch v{version}", _frame(request, version)


class Rest:
    """Says once that a broker has done what it does for now."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._seen = 0.0, time.monotonic()
        self._left = _MOST_LOOKS

    def __call__(self) -> bool:
        last_s, last = self._seen
        now = time.monotonic()
        if now < last + _LOOK_S:
            return False
        cpu_s = self._broker.cpu_s()
        self._seen = cpu_s, now
        self._left -= 1
        return cpu_s - last_s < _AT_REST * (now - last) or not self._left


def _read_one(port: int, data: bytes) -> tuple[int, float]:
    """(bytes of the answer, milliseconds)."""
    with create_connection(("127.0.0.1", port), timeout=60) as connection:
        begin = time.monotonic()
        _send(connection, data)
        return len(read_answer(connection)), (time.monotonic() - begin) * 1000


def lines(only: str | None, clients: int, directory: str) -> Iterator[str]:
    """One for each request."""
    broker = RunningBroker(Path(directory) / "data").start()
    Teller(broker.port).give()
    others = Others(broker)
    yield f"{'p99 ms':>8} {'worst ms':>8} {'MB more':>8} {'s':>7}"
    yield f"{others.see(b'', 0)} at rest"
    for name, data in requests():
        if only and name.partition(" ")[0] not in only.split(","):
            continue
        _read_one(broker.port, data)
        size, took_ms = _read_one(broker.port, data)
        with ExitStack() as connections:
            ask = partial(_ask, broker.port, data, clients, connections)
            seen = others.see_until(ask, Rest(broker))
        yield f"{seen} {size:11,} bytes in {took_ms:6.0f} ms  {name}"
        if broker.process is None or broker.process.poll() is not None:
            yield f"THE BROKER ENDED: {broker.said()[-500:]}"
            return
    others.end()
    broker.end()


def _ask(port: int, data: bytes, clients: int, connections: ExitStack) -> None:
    for _ in range(clients):
        connection = connections.enter_context(create_connection(("127.0.0.1", port)))
        connection.setsockopt(SOL_SOCKET, SO_LINGER, _NOT_READ_ANY_MORE)
        _send(connection, data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for line in lines(options.only, options.clients, directory):
            print(line, flush=True)


if __name__ == "__main__":
    main()
