"""Times of pages of metrics, and of another client's pings beside them: `python -m
benchmarks.scrape`. With `--turns`, the longest turns of the broker's loop meanwhile, which is
asyncio's then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, Self

import click

from benchmarks.processes import RunningBroker, kbroker
from benchmarks.raw_client import RawClient, frame_of
from compat_tests.running.apache_kafka import free_port, wait_for_port
from kbroker.cli.__main__ import main as kbroker_command
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_CREATE, _CREATE_VERSION = 19, 4
_COMMIT, _COMMIT_VERSION = 8, 7
_TOPICS_AT_ONCE: Final = 50
_OF_A_GROUP: Final = 50  # partitions
_PING_REST_S: Final = 0.002
_FIND, _FIND_VERSION = 10, 2
_BROKER: Final = "broker"  # the word that makes a process the broker of this benchmark
_LOADING: Final = (14, 15, 16)  # codes of a coordinator that is about to be there


def make_topics(broker: RunningBroker, topics: int, partitions: int) -> None:
    """Create topics with so many partitions each."""
    client = RawClient(broker.address, 600)
    for first in range(0, topics, _TOPICS_AT_ONCE):
        wanted = [
            CreateTopicsRequest.CreatableTopic(
                name=f"topic-{number}", num_partitions=partitions, replication_factor=1
            )
            for number in range(first, min(topics, first + _TOPICS_AT_ONCE))
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=600_000)
        answer = client.call(request, _CREATE, _CREATE_VERSION, CreateTopicsResponse)
        assert not any(topic.error_code for topic in answer.topics)
    client.close()


def commit(broker: RunningBroker, groups: int, topics: int, partitions: int) -> None:
    """Commit offsets of groups for some partitions each."""
    client = RawClient(broker.address, 600)
    find = FindCoordinatorRequest(key="group-0")  # makes the topic of offsets
    while client.call(find, _FIND, _FIND_VERSION, FindCoordinatorResponse).error_code:
        time.sleep(0.05)
    for group in range(groups):
        named = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=f"topic-{(group + number // partitions) % topics}",
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=0
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(0, _OF_A_GROUP, partitions)
        ]
        request = OffsetCommitRequest(group_id=f"group-{group}", topics=named)
        while True:
            answer = client.call(request, _COMMIT, _COMMIT_VERSION, OffsetCommitResponse)
            codes = {each.error_code for topic in answer.topics for each in topic.partitions}
            if codes.isdisjoint(_LOADING):
                break
        assert codes == {0}, codes
    client.close()


class Pings:
    """A client that asks the broker for next to nothing, again and again, on a thread."""

    def __init__(self, broker: RunningBroker) -> None:
        self._client = RawClient(broker.address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.times_ms: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        ping = frame_of(ApiVersionsRequest(), 18, 2)
        while not self._stop.wait(_PING_REST_S):
            began = time.perf_counter()
            self._client.send(ping)
            self._client.receive()
            self.times_ms.append((time.perf_counter() - began) * 1000)

    def in_words(self) -> str:
        """The median, the 99th percentile and the longest."""
        p50, p99 = (statistics.quantiles(self.times_ms, n=100)[at] for at in (49, 98))
        longest = max(self.times_ms)
        return f"pings p50 {p50:.2f}, p99 {p99:.2f}, longest {longest:.2f} ms"


def page(port: int) -> tuple[float, int]:
    """The seconds that a page takes, packed, and its bytes."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    headers = {"accept": "application/openmetrics-text", "accept-encoding": "gzip"}
    connection.request("GET", "/metrics", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    connection.close()
    return time.perf_counter() - began, len(body)


class MeasuredTurns:
    """In a broker: the longest turns of its loop, in time and in processor time, which a signal
    writes to a file and forgets.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._longest_s = self._longest_cpu_s = 0.0

    def install(self) -> None:
        """Measure from now on."""
        run, thread = asyncio.Handle._run, threading.get_ident()

        def measured(handle: asyncio.Handle) -> None:
            if threading.get_ident() != thread:  # that of HTTP
                run(handle)
                return
            began_s, began_cpu_s = time.perf_counter(), time.thread_time()
            run(handle)
            self._longest_cpu_s = max(self._longest_cpu_s, time.thread_time() - began_cpu_s)
            self._longest_s = max(self._longest_s, time.perf_counter() - began_s)

        asyncio.Handle._run = measured  # type: ignore[method-assign]
        signal.signal(signal.SIGUSR1, self._write)

    def _write(self, *_: Any) -> None:
        text = f"longest turn {self._longest_s * 1000:.1f} ms"
        self._longest_s, cpu_s, self._longest_cpu_s = 0.0, self._longest_cpu_s, 0.0
        self._file.write_text(f"{text}, of the processor {cpu_s * 1000:.1f} ms\n")


class Turns:
    """The measured turns of a broker, as its client asks for them."""

    def __init__(self, broker: RunningBroker, file: Path) -> None:
        self._broker = broker
        self._file = file

    def take(self) -> str:
        """The longest turns since the last time, in words."""
        self._file.write_text("")
        os.kill(self._broker.process.pid, signal.SIGUSR1)
        while not (text := self._file.read_text()).endswith("\n"):
            time.sleep(0.01)
        return text.strip()


@contextmanager
def noted(turns: Turns | None) -> Iterator[list[str]]:
    """A list that has the longest turns until its end, then; nothing if they are not measured."""
    found: list[str] = []
    if turns is not None:
        turns.take()
    yield found
    if turns is not None:
        found.append(turns.take())


@contextmanager
def broker_on(port: int, turns: Path | None) -> Iterator[RunningBroker]:
    """A broker with its HTTP address at this port; one that measures turns, with a file for them."""
    options = ["--override", f"kbroker.http.listeners=127.0.0.1:{port}"]
    if turns is None:
        with kbroker(*options) as broker:
            yield broker
        return
    kafka = free_port()
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as directory:
        command = [
            sys.executable, "-m", __spec__.name, _BROKER, str(turns),
            "start", "--listen", f"127.0.0.1:{kafka}", "--data", f"{directory}/data",
            "--override", "kbroker.loop=asyncio", *options,
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                wait_for_port(kafka, process)
                yield RunningBroker("kbroker", f"127.0.0.1:{kafka}", process, time.perf_counter())
            finally:
                process.kill()


@click.command()
@click.option("--topics", default=500)
@click.option("--partitions", default=20, help="Of each topic.")
@click.option("--groups", default=200)
@click.option("--pages", default=20)
@click.option("--turns", "has_turns", is_flag=True, help="Measure turns of the loop.")
def main(topics: int, partitions: int, groups: int, pages: int, has_turns: bool) -> None:
    """Print how long pages take, and pings beside them and without."""
    port = free_port()
    with (
        tempfile.NamedTemporaryFile() as file,
        broker_on(port, Path(file.name) if has_turns else None) as broker,
    ):
        make_topics(broker, topics, partitions)
        commit(broker, groups, topics, partitions)
        before_mib = broker.rss_mib()
        turns = Turns(broker, Path(file.name)) if has_turns else None
        with Pings(broker) as alone, noted(turns) as alone_turns:
            time.sleep(3)
        with Pings(broker) as first, noted(turns) as first_turns:
            first_s, size = page(port)
        with Pings(broker) as beside, noted(turns) as turns_beside:
            times_s = [page(port)[0] for _ in range(pages)]
        click.echo(
            f"{topics * partitions} partitions, {topics} topics, {groups} groups: first page "
            f"{first_s:.2f} s, then {statistics.median(times_s):.2f} s (longest "
            f"{max(times_s):.2f}), {size / 1024:.0f} KiB packed; {before_mib:.0f} MiB before, "
            f"{broker.rss_mib():.0f} after"
        )
        for when, pings, longest in (
            ("without pages", alone, alone_turns),
            ("beside the first", first, first_turns),
            ("beside the others", beside, turns_beside),
        ):
            click.echo(f"{when}: {'; '.join([pings.in_words(), *longest])}")


if __name__ == "__main__":
    if _BROKER in sys.argv[1:2]:
        MeasuredTurns(Path(sys.argv[2])).install()
        sys.argv[1:3] = []
        sys.exit(kbroker_command())
    main()
