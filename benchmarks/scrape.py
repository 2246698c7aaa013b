"""Times of pages of metrics, and of another client's pings beside them: `python -m
benchmarks.scrape`.
"""

from __future__ import annotations

import statistics
import threading
import time
from http.client import HTTPConnection
from typing import Final, Self

import click

from benchmarks.processes import RunningBroker, kbroker
from benchmarks.raw_client import RawClient, frame_of
from compat_tests.running.apache_kafka import free_port
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

    def told(self) -> str:
        """The times in words."""
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


@click.command()
@click.option("--topics", default=500)
@click.option("--partitions", default=20, help="Of each topic.")
@click.option("--groups", default=200)
@click.option("--pages", default=20)
def main(topics: int, partitions: int, groups: int, pages: int) -> None:
    """Print how long pages take, and pings beside them and without."""
    port = free_port()
    with kbroker("--override", f"kbroker.http.listeners=127.0.0.1:{port}") as broker:
        make_topics(broker, topics, partitions)
        commit(broker, groups, topics, partitions)
        before_mib = broker.rss_mib()
        with Pings(broker) as alone:
            time.sleep(3)
        with Pings(broker) as first:
            first_s, size = page(port)
        with Pings(broker) as beside:
            times_s = [page(port)[0] for _ in range(pages)]
        click.echo(
            f"{topics * partitions} partitions, {topics} topics, {groups} groups: first page "
            f"{first_s:.2f} s, then {statistics.median(times_s):.2f} s (longest "
            f"{max(times_s):.2f}), {size / 1024:.0f} KiB packed; {before_mib:.0f} MiB before, "
            f"{broker.rss_mib():.0f} after"
        )
        click.echo(f"without pages: {alone.told()}")
        click.echo(f"beside the first: {first.told()}")
        click.echo(f"beside the others: {beside.told()}")


if __name__ == "__main__":
    main()
