"""`kbroker.flush=acks-all`: an acks=all answer leaves after the records are on the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.disk import file_system
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer


class FlushWatch:
    """Notes when the data file of a partition was synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        real = file_system.RealFile.sync

        def sync(file: file_system.RealFile) -> None:
            self.synced.append(file.path)
            real(file)

        monkeypatch.setattr(file_system.RealFile, "sync", sync)

    def data_files(self, topic: str) -> list[str]:
        return [path for path in self.synced if f"/{topic}-0/" in path and path.endswith(".log")]


async def call(port: int, key: int, version: int, request: object) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    header = encode_request_header(RequestHeader(key, version, 1, "test"))
    frame = header + encode(request, version)  # type: ignore[arg-type]
    writer.write(len(frame).to_bytes(4, "big") + frame)
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = await reader.readexactly(size)
    writer.close()
    return answer[5:]


def produce(acks: int) -> ProduceRequest:
    batch = build([Record(0, 1_700_000_000_000, b"k", b"v")])
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[topic])


@pytest.mark.parametrize(
    ("setting", "acks", "expected"),
    [("acks-all", -1, 1), ("acks-all", 1, 0), ("never", -1, 0)],
)
async def test_only_acks_all_waits_for_the_disk_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, acks: int, expected: int
) -> None:
    config = KafkaConfig.for_profile(
        "dev",
        {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "kbroker.flush": setting,
        },
    )
    server = KafkaServer(config)
    await server.startup()
    port = server.end_points[0].port
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await call(port, 19, 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    watch = FlushWatch(monkeypatch)
    answer = await call(port, 0, 9, produce(acks))
    flushed = len(watch.data_files("t"))
    response = decode(ProduceResponse, 9, answer)[0]
    await server.shutdown()

    assert response.responses[0].partition_responses[0].error_code == 0
    assert flushed == expected
