"""Times of pages of the console in a cluster with many topics, and the broker's memory before and
after: `python -m benchmarks.console_pages`. Before them another broker shows a page, so that there is
byte code of all modules, as in an installed kbroker, and a client has asked for ApiVersions, as each
does that makes topics.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import click

from benchmarks.processes import RunningBroker, kbroker
from benchmarks.raw_client import RawClient
from benchmarks.scrape import Pings, commit, make_topics
from compat_tests.running.apache_kafka import free_port
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

PAGES = (
    "/overview",
    "/topics",
    "/topics?q=topic-49",
    "/topics?page=90",
    "/topics/topic-0",
    "/topics/topic-0/settings?all=1",
    "/brokers",
    "/brokers/0",
    "/groups",
    "/groups/group-0",
    "/transactions",
    "/hanging-transactions",
    "/connections",
    "/requests",
    "/charts",
    "/topics/topic-0/charts",
    "/events",
)


def page_ms(port: int, path: str) -> tuple[float, int]:
    """The milliseconds that a page takes, and its bytes."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    connection.request("GET", path, headers={"accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    connection.close()
    return (time.perf_counter() - began) * 1000, len(body)


@contextmanager
def consoled() -> Iterator[tuple[RunningBroker, int]]:
    """A broker, and the port of its console."""
    port = free_port()
    with kbroker("--override", f"kbroker.http.listeners=127.0.0.1:{port}") as broker:
        yield broker, port


@click.command()
@click.option("--topics", default=5_000)
@click.option("--partitions", default=1, help="Of each topic.")
@click.option("--groups", default=200, type=click.IntRange(1))
@click.option("--rounds", default=10)
def main(topics: int, partitions: int, groups: int, rounds: int) -> None:
    """Print how long pages take, the first of a broker that nobody has looked at apart."""
    with consoled() as (_, port):
        page_ms(port, PAGES[0])
    with consoled() as (broker, port):
        make_topics(broker, topics, partitions)
        commit(broker, groups, topics, partitions)
        client = RawClient(broker.address)
        client.call(ApiVersionsRequest(), 18, 2, ApiVersionsResponse)
        client.close()
        before_mib, before_s = broker.rss_mib(), broker.cpu_s()
        first_ms, _ = page_ms(port, PAGES[0])
        worked_ms = (broker.cpu_s() - before_s) * 1000
        click.echo(
            f"{topics} topics; the first page of all: {first_ms:.0f} ms, {worked_ms:.0f} ms of them "
            f"at work; {before_mib:.0f} MiB before, {broker.rss_mib():.0f} after"
        )
        with Pings(broker) as pings:
            for path in PAGES:
                found = [page_ms(port, path) for _ in range(rounds)]
                times = [each for each, _ in found]
                click.echo(
                    f"{path:<32} {statistics.median(times):6.0f} ms, longest {max(times):6.0f}, "
                    f"{found[0][1] / 1024:.0f} KiB"
                )
        click.echo(f"memory: {before_mib:.0f} MiB before, {broker.rss_mib():.0f} after")
        click.echo(f"beside them: {pings.in_words()}")


if __name__ == "__main__":
    main()
