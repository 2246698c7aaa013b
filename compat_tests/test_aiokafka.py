"""aiokafka."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from compat_tests.clients import CODECS, Sample, samples


async def write(bootstrap: str, topic: str, wanted: list[Sample], **settings: object) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        futures = [
            await producer.send(
                topic,
                value=s.value,
                key=s.key,
                headers=list(s.headers),
                timestamp_ms=s.timestamp_ms,
                partition=0,
            )
            for s in wanted
        ]
        await asyncio.gather(*futures)


async def read(bootstrap: str, topic: str, count: int) -> list[Sample]:
    found: list[Sample] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            polled = await consumer.getmany(timeout_ms=20_000)
            assert polled, f"nothing more after {len(found)} of {count} records"
            for batch in polled.values():
                found += [Sample(r.key, r.value, tuple(r.headers), r.timestamp) for r in batch]
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_everything_written_is_read_back(
    bootstrap: str, topic: str, records: int, codec: str
) -> None:
    wanted = samples(records)

    async def both() -> list[Sample]:
        await write(bootstrap, topic, wanted, compression_type=None if codec == "none" else codec)
        return await read(bootstrap, topic, records)

    assert asyncio.run(both()) == wanted


@pytest.mark.parametrize(
    "settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}]
)
def test_every_acks_setting_writes(bootstrap: str, topic: str, settings: dict[str, object]) -> None:
    wanted = samples(80)

    async def both() -> list[Sample]:
        await write(bootstrap, topic, wanted, **settings)
        return await read(bootstrap, topic, 80)

    assert asyncio.run(both()) == wanted
