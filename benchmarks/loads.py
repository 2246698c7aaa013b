"""The loads. Each takes a running broker and returns figures by name; units are in the names."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable

from benchmarks import raw_client
from benchmarks.processes import RunningBroker
from compat_tests.running import apache_kafka

Figures = dict[str, float]
Load = Callable[[RunningBroker], Figures]


def first_produce(broker: RunningBroker) -> Figures:
    """From starting the process to the first acknowledged record; memory when idle afterwards."""
    raw_client.create_topic(broker.address, "first")
    client = raw_client.RawClient(broker.address)
    frame = raw_client.produce_frame("first", raw_client.batch_of(100, 10), acks=-1)
    raw_client.produce_first(client, frame)
    elapsed = time.perf_counter() - broker.started_at
    client.close()
    time.sleep(1)
    return {"start_to_first_ack_s": elapsed, "idle_rss_mib": broker.rss_mib()}


def producer_performance(
    bootstrap: str, topic: str, records: int, record_bytes: int, *more: str
) -> float:
    """Kafka's own ProducerPerformance with acks=all: the records/s that it reports. `more`: further
    options of it.
    """
    tool = producer_tool(bootstrap, topic, records, record_bytes, *more)
    done = apache_kafka.run_tool(*tool, timeout_s=1_800)
    rates = re.findall(r"([\d.]+) records/sec", done.stdout)
    if not rates:
        raise RuntimeError(
            f"no figure from ProducerPerformance: {done.stdout[-300:]}{done.stderr[-600:]}"
        )
    return float(rates[-1])


def producer_tool(
    bootstrap: str, topic: str, records: int, record_bytes: int, *more: str
) -> tuple[str, ...]:
    """The class and the arguments of `producer_performance`."""
    return (
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes),
        "--throughput", "-1", *more, "--producer-props", f"bootstrap.servers={bootstrap}", "acks=all",
    )  # fmt: skip


def idle_connections(count: int = 2_000) -> Load:
    """Memory for connections that have asked for ApiVersions once and then say nothing."""

    def load(broker: RunningBroker) -> Figures:
        before = broker.rss_mib()
        request = bytes.fromhex("0000000f") + bytes.fromhex("0012000000000001") + b"\0\5bench"
        sockets = []
        for _ in range(count):
            connection = socket.create_connection(broker.address)
            connection.sendall(request)
            connection.recv(65_536)
            sockets.append(connection)
        time.sleep(1)
        more = broker.rss_mib() - before
        for connection in sockets:
            connection.close()
        return {"mib_for_2000_connections": more}

    return load


def many_partitions(count: int = 2_000) -> Load:
    """Memory and time for partitions that exist and are empty."""

    def load(broker: RunningBroker) -> Figures:
        before, begun = broker.rss_mib(), time.perf_counter()
        raw_client.create_topic(broker.address, "wide", partitions=count)
        elapsed = time.perf_counter() - begun
        time.sleep(1)
        return {
            "mib_for_2000_partitions": broker.rss_mib() - before,
            "create_2000_partitions_s": elapsed,
        }

    return load


def clean_stop(broker: RunningBroker) -> Figures:
    """Time from SIGTERM to the end of the idle process; run it last."""
    begun = time.perf_counter()
    broker.process.terminate()
    broker.process.wait(60)
    return {"clean_stop_s": time.perf_counter() - begun}
