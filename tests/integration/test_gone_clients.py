"""A client that is gone leaves nothing behind of the request that it waited for."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.memory_room import REQUESTS_BYTES
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.schema import Message
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.requests.request_frames import frame_of
from tests.fakes.running.waiting import until


def list_offsets() -> ListOffsetsRequest:
    """A request of 3 KB, which may have a large answer."""
    asked = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(250)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=asked)
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def fetch() -> FetchRequest:
    """A request of 160 KB."""
    asked = [FetchRequest.FetchPartition(partition=n) for n in range(10_000)]
    topic = FetchRequest.FetchTopic(topic="t", partitions=asked)
    return FetchRequest(topics=[topic])


@pytest.mark.parametrize(("asked", "version"), [(list_offsets, 1), (fetch, 4)])
async def test_a_request_that_waits_for_memory_goes_with_its_client(
    tmp_path: Path, asked: Callable[[], Message], version: int
) -> None:
    server = await started(tmp_path)
    room = server.parts.services.room
    held = room.share()
    held.hold(REQUESTS_BYTES + 1)
    request = frame_of(asked(), version)
    _, writer = await asyncio.open_connection("127.0.0.1", server.end_points[0].port)
    writer.write(len(request).to_bytes(4, "big") + request)
    await until(lambda: room.is_wanted)

    reset(writer)

    await until(lambda: not room.is_wanted)
    await until(lambda: not [task for task in asyncio.all_tasks() if is_of_request(task)])
    assert room.taken_bytes == held.size_bytes
    await server.shutdown()


def fetch_of_one(offset: int) -> FetchRequest:
    """A request that waits for weeks at the end of the log."""
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1_000)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(
        max_wait_ms=2_000_000_000, min_bytes=1, max_bytes=1_000, session_epoch=-1, topics=topics
    )


@pytest.mark.parametrize(("version", "before"), [(12, 0), (12, 3), (3, 0)])
async def test_a_fetch_that_waits_for_records_goes_with_its_client(
    tmp_path: Path, version: int, before: int
) -> None:
    server = await started(tmp_path)
    replicas = server.parts.services.replicas
    _, writer = await asyncio.open_connection("127.0.0.1", server.end_points[0].port)

    def send(request: Message, in_version: int) -> None:
        frame = frame_of(request, in_version)
        writer.write(len(frame).to_bytes(4, "big") + frame)

    send(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 4)
    await until(lambda: replicas.hosted.find(TopicPartition("t", 0)))
    for _ in range(before):  # out of range: answered at once, and it takes the short way then
        send(fetch_of_one(99), version)
    send(fetch_of_one(0), version)
    await until(lambda: len(replicas.waiting.fetches) == 1)

    reset(writer)

    await until(lambda: len(replicas.waiting.fetches) == 0)
    await until(lambda: not [task for task in asyncio.all_tasks() if is_of_request(task)])
    await server.shutdown()


async def started(directory: Path) -> KafkaServer:
    settings = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    server = KafkaServer(KafkaConfig.for_profile("dev", settings))
    await server.startup()
    return server


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off, as a client that is killed."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


def is_of_request(task: asyncio.Task[None]) -> bool:
    return task.get_name().startswith("request-")
