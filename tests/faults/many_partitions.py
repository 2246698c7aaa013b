"""How long a broker with very many partitions holds its loop: while it makes and deletes them, in
each of its duties, and as it stops and starts. What counts is the CPU time of the longest single
turn of the loop, as that is what all clients wait.

    python -m tests.faults.many_partitions --partitions 10000
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kbroker.config.kafka_config import KafkaConfig
from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.server.background.background_services import broker_duties
from kbroker.server.background.background_work import BackgroundWork
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.system_clock import SystemClock
from kbroker.start_collections import collecting_rarely, started
from tests.faults.loop_holds import Turns, say

_EACH = 10  # partitions of a topic
_TOPICS_PER_REQUEST = 200
_CREATE_VERSION, _DELETE_VERSION = 4, 3
_TIMEOUT_MS = 300_000
_REST_S = 3.0  # so that all that a duty has begun is done


def _frame(key: int, version: int, request: Any) -> bytes:
    return encode(request, version, encode_request_header(RequestHeader(key, version, 1, "c")))


def creations(names: Sequence[str]) -> Iterator[bytes]:
    """Requests that make topics."""
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=_EACH, replication_factor=1
            )
            for name in names[start : start + _TOPICS_PER_REQUEST]
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)
        yield _frame(19, _CREATE_VERSION, request)


def deletion(names: Sequence[str]) -> bytes:
    """A request that deletes topics."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=_TIMEOUT_MS)
    return _frame(20, _DELETE_VERSION, request)


class Measuring:
    """Prints a line for each piece of a broker's work."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._turns.install()

    async def see(self, what: str, work: Awaitable[object]) -> None:
        """Wait for the work's end."""
        self._turns.take_ms()
        begin, cpu_begin = time.monotonic(), time.process_time()
        await work
        seconds, cpu_s = time.monotonic() - begin, time.process_time() - cpu_begin
        print(f"{self._turns.take_ms():8.1f} {seconds:8.2f} {cpu_s:8.2f}  {what}", flush=True)


async def _duties(measuring: Measuring, server: KafkaServer, config: KafkaConfig) -> None:
    data = server.parts.data
    for duty in broker_duties(config, data.logs, data.replicas, SystemClock()):
        work = BackgroundWork([replace(duty, first_delay_ms=0)])
        work.start()
        await measuring.see(duty.name, asyncio.sleep(_REST_S))
        work.stop()


async def run(partitions: int, directory: str) -> None:
    values = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory}
    config = KafkaConfig.for_profile("dev", values)
    measuring = Measuring()
    names = [f"t{number}" for number in range(partitions // _EACH)]
    print(f"{'turn ms':>8} {'s':>8} {'CPU s':>8}  work", flush=True)
    server = KafkaServer(config)
    await server.startup()
    started()
    port = server.end_points[0].port
    for frame in creations(names):
        topics = min(_TOPICS_PER_REQUEST, len(names))
        await measuring.see(f"make {topics * _EACH:,}", asyncio.to_thread(say, port, frame))
    await _duties(measuring, server, config)
    await measuring.see("stop", server.shutdown())
    server = KafkaServer(config)
    with collecting_rarely():  # as a broker that is started alone
        await measuring.see("start", server.startup())
        started()
    port = server.end_points[0].port
    await measuring.see("delete all", asyncio.to_thread(say, port, deletion(names)))
    await server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(options.partitions, directory))


if __name__ == "__main__":
    main()
