"""A bare client: a blocking socket and frames encoded beforehand, so that the broker is what is
measured.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol import codec
from kbroker.protocol.header import request_header_version
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.schema import Message
from kbroker.record import record_batch
from kbroker.record.record_batch import BatchOptions

MessageT = TypeVar("MessageT", bound=Message)
_SIZE = struct.Struct(">i")
_DELETION_S = 600  # of 10,000 partitions, on a disk that has other work
_TOPICS_AT_ONCE = 4_000  # Apache Kafka refuses a request for 10,000


class RawClient:
    """One connection; `call` waits for the answer."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 60) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(8 << 20)

    def send(self, frame: bytes) -> None:
        """Send a whole frame, size included."""
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """The next answer without its size; valid until the next call."""
        view = memoryview(self._buffer)
        self._fill(view[:4])
        (size,) = _SIZE.unpack_from(view)
        self._fill(view[:size])
        return view[:size]

    def call(self, request: Message, key: int, version: int, answer: type[MessageT]) -> MessageT:
        """Send a request and decode its answer."""
        self.send(frame_of(request, key, version))
        view = self.receive()
        return codec.decode(answer, version, bytes(view), 5 if is_flexible(key, version) else 4)[0]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _fill(self, view: memoryview) -> None:
        position = 0
        while position < len(view):
            received = self._socket.recv_into(view[position:])
            if not received:
                raise ConnectionError("the broker closed the connection")
            position += received


_NOT_LED_YET = frozenset({3, 5, 6})  # error codes right after a topic was made


def is_flexible(key: int, version: int) -> bool:
    """Whether requests of this version have header version 2."""
    return request_header_version(key, version) == 2


def frame_of(request: Message, key: int, version: int, correlation_id: int = 7) -> bytes:
    """Size, header and body of a request."""
    header = struct.pack(">hhih5s", key, version, correlation_id, 5, b"bench")
    if is_flexible(key, version):
        header += b"\0"
    body = codec.encode(request, version)
    return _SIZE.pack(len(header) + len(body)) + header + body


def batch_of(batch_bytes: int, record_bytes: int = 1000, producer_id: int | None = None) -> bytes:
    """One uncompressed batch of about `batch_bytes` bytes; the first one of an idempotent producer."""
    now_ms = int(time.time() * 1000)
    count = max(1, batch_bytes // (record_bytes + 12))
    values = [bytes([65 + index % 26]) * record_bytes for index in range(count)]
    records = [
        record_batch.Record(offset=i, timestamp=now_ms, key=None, value=v, headers=())
        for i, v in enumerate(values)
    ]
    if producer_id is None:
        return record_batch.build(records)
    options = BatchOptions(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    return record_batch.build(records, options=options)


def produce_frame(
    topic: str, batch: bytes, acks: int, partition: int = 0, version: int = 9,
    topic_id: UUID = ZERO_UUID,
) -> bytes:  # fmt: skip
    """A Produce request with one batch, or message set, for one partition."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=partition, records=memoryview(batch))
                ],
            )
        ],
    )
    return frame_of(request, 0, version)


class Session(NamedTuple):
    """A fetch session: id 0 and epoch 0 begin one, epoch -1 does without."""

    session_id: int = 0
    epoch: int = -1


WITHOUT_SESSION = Session()


def fetch_frame(
    topic: str,
    offset: int,
    max_wait_ms: int,
    max_bytes: int = 1 << 20,
    version: int = 12,
    *,
    partition: int = 0,
    committed: bool = False,
    topic_id: UUID = ZERO_UUID,
    session: Session = WITHOUT_SESSION,
) -> bytes:
    """A Fetch request for one partition; `committed`: of what is committed."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=int(committed),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )
    return frame_of(request, 1, version)


def produced(answer: memoryview, version: int = 9) -> int:
    """Error code of the only partition of a Produce answer; raises where it is an error."""
    head = 5 if is_flexible(0, version) else 4
    response = codec.decode(ProduceResponse, version, bytes(answer), head)[0]
    code: int = response.responses[0].partition_responses[0].error_code
    if code:
        raise RuntimeError(f"produce answered error {code}")
    return code


def produce_first(client: RawClient, frame: bytes) -> None:
    """Produce to a topic that was just made, until the broker has heard that it leads it."""
    while True:
        client.send(frame)
        response = codec.decode(ProduceResponse, 9, bytes(client.receive()), 5)[0]
        code = response.responses[0].partition_responses[0].error_code
        if not code:
            return
        if code not in _NOT_LED_YET:
            raise RuntimeError(f"produce answered error {code}")


def create_topic(address: tuple[str, int], topic: str, partitions: int = 1) -> None:
    """Create a topic with one replica and return when all partitions have a leader."""
    create_topics(address, [topic], partitions)


def create_topics(
    address: tuple[str, int],
    topics: Sequence[str],
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Create topics with one replica and return when all partitions have a leader."""
    client = RawClient(address)
    configs = [
        CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
        for name, value in (settings or {}).items()
    ]
    for start in range(0, len(topics), _TOPICS_AT_ONCE):
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic, num_partitions=partitions, replication_factor=1, configs=configs
                )
                for topic in topics[start : start + _TOPICS_AT_ONCE]
            ],
            timeout_ms=60_000,
        )
        # From version 5 on the answer has the settings of each topic: 10 MB of 10,000.
        answer: Any = client.call(request, 19, 4, CreateTopicsResponse)
        codes = {topic.error_code for topic in answer.topics}
        if not codes <= {0, 36}:
            raise RuntimeError(f"create answered errors {codes}")
    wanted = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    )
    while True:
        metadata: Any = client.call(wanted, 3, 9, MetadataResponse)
        found = [partition for topic in metadata.topics for partition in topic.partitions]
        if len(found) == partitions * len(topics) and all(
            partition.error_code == 0 and partition.leader_id >= 0 for partition in found
        ):
            break
    client.close()


def topic_id_of(address: tuple[str, int], topic: str) -> UUID:
    """The id that the broker has given a topic."""
    client = RawClient(address)
    wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    answer: Any = client.call(wanted, 3, 12, MetadataResponse)
    client.close()
    topic_id: UUID = answer.topics[0].topic_id
    return topic_id


def delete_topics(address: tuple[str, int], topics: Sequence[str]) -> None:
    """Delete topics and return when clients can no longer see them."""
    client = RawClient(address, timeout_s=_DELETION_S)
    request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=60_000)
    answer: Any = client.call(request, 20, 5, DeleteTopicsResponse)
    client.close()
    codes = {topic.error_code for topic in answer.responses} - {0}
    if codes:
        raise RuntimeError(f"delete answered errors {codes}")
