"""The loads. Each takes a running broker and returns figures by name; units are in the names."""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Callable

from benchmarks import raw_client
from benchmarks.processes import RunningBroker
from compat_tests.running import apache_kafka

Figures = dict[str, float]
Load = Callable[[RunningBroker], Figures]

_IN_FLIGHT = 5  # max.in.flight.requests.per.connection of the Java producer


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


def produce_requests(acks: int, in_flight: int, requests: int = 20_000) -> Load:
    """One 16 KiB batch per request over one connection."""

    def load(broker: RunningBroker) -> Figures:
        raw_client.create_topic(broker.address, "requests")
        client = raw_client.RawClient(broker.address)
        frame = raw_client.produce_frame("requests", raw_client.batch_of(16_384), acks)
        raw_client.produce_first(client, frame)
        client.pipeline(frame, requests, in_flight)  # what this load alone uses is warm, too
        cpu, begun = broker.cpu_s(), time.perf_counter()
        client.pipeline(frame, requests, in_flight)
        elapsed, cpu = time.perf_counter() - begun, broker.cpu_s() - cpu
        client.close()
        return {"cpu_us_per_request": cpu / requests * 1e6, "requests_per_s": requests / elapsed}

    return load


def java_producer(records: int = 1_000_000, record_bytes: int = 1_000) -> Load:
    """Kafka's own ProducerPerformance, acks=all."""

    def load(broker: RunningBroker) -> Figures:
        raw_client.create_topic(broker.address, "perf")
        cpu = broker.cpu_s()
        rate = producer_performance(broker.bootstrap, "perf", records, record_bytes)
        return {"broker_cpu_s": broker.cpu_s() - cpu, "records_per_s": rate}

    return load


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


def java_consumer(records: int = 1_000_000) -> Load:
    """Kafka's own ConsumerPerformance over what `java_producer` wrote."""

    def load(broker: RunningBroker) -> Figures:
        cpu = broker.cpu_s()
        done = apache_kafka.run_tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            "--topic", "perf", "--num-records", str(records), "--bootstrap-server", broker.bootstrap,
            "--group", f"perf-{time.monotonic_ns()}", "--timeout", "60000",
            timeout_s=600,
        )  # fmt: skip
        cells = done.stdout.strip().splitlines()[-1].split(",")
        if len(cells) < 10:
            raise RuntimeError(
                f"no figure from ConsumerPerformance: {done.stdout[-300:]}{done.stderr[-600:]}"
            )
        return {
            "broker_cpu_s": broker.cpu_s() - cpu,
            "records_per_s": float(cells[5]),
            "fetch_records_per_s": float(cells[9]),
        }

    return load


def end_to_end_latency(records: int = 3_000) -> Load:
    """A record is produced with acks=all while a consumer's Fetch waits for it; time until it has
    arrived.
    """

    def load(broker: RunningBroker) -> Figures:
        topic = f"latency-{time.monotonic_ns()}"
        raw_client.create_topic(broker.address, topic)
        return latencies_of(broker.address, topic, records)

    return load


def latencies_of(leader: tuple[str, int], topic: str, records: int) -> Figures:
    """From a Produce to the leader of partition 0 until a waiting Fetch has the record."""
    producer, consumer = raw_client.RawClient(leader), raw_client.RawClient(leader)
    frame = raw_client.produce_frame(topic, raw_client.batch_of(100, 100), acks=-1)
    latencies = []
    for offset in range(records):
        consumer.send(raw_client.fetch_frame(topic, offset, max_wait_ms=5_000))
        time.sleep(0.001)  # the Fetch waits in the broker, as a real consumer's does
        begun = time.perf_counter()
        producer.send(frame)
        consumer.receive()
        latencies.append((time.perf_counter() - begun) * 1000)
        producer.receive()
    latencies = sorted(latencies[records // 10 :])
    producer.close()
    consumer.close()
    return {
        "latency_p50_ms": statistics.median(latencies),
        "latency_p99_ms": latencies[int(len(latencies) * 0.99)],
    }


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
