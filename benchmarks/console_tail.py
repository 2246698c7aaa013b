"""What live tails of the console cost: a producer of 10,000 records a second, in turn alone and
with tails of its topic beside it, and the broker's memory: `python -m benchmarks.console_tail`.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import statistics
import time
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

import click

from benchmarks.neighbour import Pinger
from benchmarks.processes import kbroker
from benchmarks.raw_client import RawClient, batch_of, create_topic, produce_first, produce_frame
from compat_tests.running.apache_kafka import free_port

TOPIC = "tailed"
RECORDS = 50  # of a request; `Pinger` sends one every 5 ms
RECORD_BYTES = 100
REST_S, BUSY_REST_S = 0.5, 1.0  # as static/tail.js
ROWS = 1_000  # that a page keeps
_FORK = multiprocessing.get_context("fork")


class Tail:
    """The part of one browser: asks for rows as its page would, and counts them."""

    def __init__(self, port: int, more: str) -> None:
        self._port = port
        page = self._get(f"/topics/{TOPIC}/tail{more}")
        self.path = re.findall(r'data-tail="([^"]*)"', page)[0].replace("&amp;", "&")
        self.starts = re.findall(r'data-starts="([^"]*)"', page)[0]
        self.first = self.starts
        self.rows: list[str] = []
        self.came = self.skipped = self.unfit = self.steps = 0
        self.longest_s = 0.0
        self.rest_s = REST_S

    def step(self) -> None:
        """Ask for what is new."""
        began = time.perf_counter()
        sign = "&" if "?" in self.path else "?"
        news = json.loads(self._get(f"{self.path}{sign}starts={self.starts}&rows=50"))
        self.longest_s = max(self.longest_s, time.perf_counter() - began)
        self.starts = news["starts"]
        self.rows = (news["html"].split("</tr>")[:-1] + self.rows)[:ROWS]
        self.came += news["shown"]
        self.skipped += news["skipped"]
        self.rest_s = BUSY_REST_S if news["skipped"] else REST_S
        self.unfit += news["unfit"]
        self.steps += 1

    def _get(self, path: str) -> str:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
        connection.close()
        return body


def tails_at_work(port: int, count: int, more: str, is_on: Any, pipe: Connection) -> None:
    """Follow while it is on, until the other end says so; then send what each tail has counted."""
    tails = [Tail(port, more) for _ in range(count)]
    pipe.send(None)
    is_over = False

    def follow(tail: Tail) -> None:
        while not is_over:
            if is_on.is_set():
                tail.step()
            time.sleep(tail.rest_s)

    threads = [Thread(target=follow, args=(tail,)) for tail in tails]
    for thread in threads:
        thread.start()
    pipe.recv()
    is_over = True
    for thread in threads:
        thread.join()
    for tail in tails:
        tail.step()  # what came while it was off, and the last
    pipe.send(
        [
            (tail.first, tail.starts, tail.came + tail.skipped + tail.unfit, tail.skipped,
             len(tail.rows), tail.steps, tail.longest_s)
            for tail in tails
        ]
    )  # fmt: skip


def pinged(pinger: Pinger, seconds: float) -> list[float]:
    """The latencies of a phase, in ms."""
    until = time.perf_counter() + seconds
    return pinger.run(lambda: time.perf_counter() >= until)


def in_words(latencies: list[float]) -> str:
    """The middle of the latencies, and their upper end."""
    p50, p90, p99 = (statistics.quantiles(latencies, n=100)[at] for at in (49, 89, 98))
    return f"p50 {p50:.2f}, p90 {p90:.2f}, p99 {p99:.2f}, longest {max(latencies):.1f} ms"


@click.command()
@click.option("--seconds", default=300, help="With tails; as long again without.")
@click.option("--phase", default=10, help="Seconds before it changes.")
@click.option("--tails", default=3)
@click.option("--query", default="", help="Of the page, such as ?text=9.")
def main(seconds: int, phase: int, tails: int, query: str) -> None:
    """Print latencies of the producer, what the tails counted, and the broker's memory."""
    port = free_port()
    with kbroker("--override", f"kbroker.http.listeners=127.0.0.1:{port}") as broker:
        create_topic(broker.address, TOPIC)
        client = RawClient(broker.address)
        frame = produce_frame(TOPIC, batch_of(RECORDS * (RECORD_BYTES + 12), RECORD_BYTES), acks=1)
        produce_first(client, frame)
        pinger = Pinger(client, (frame,))
        pinged(pinger, 5)
        is_on, (pipe, far) = _FORK.Event(), _FORK.Pipe()
        work = _FORK.Process(target=tails_at_work, args=(port, tails, query, is_on, far))
        alone = pinged(pinger, phase)
        before = broker.rss_mib()
        work.start()
        pipe.recv()
        opened = broker.rss_mib()
        with_tails: list[float] = []
        highest = cpu_alone_s = cpu_with_s = 0.0
        for _ in range(max(seconds // phase, 1)):
            is_on.set()
            began_s = broker.cpu_s()
            with_tails += pinged(pinger, phase)
            cpu_with_s += broker.cpu_s() - began_s
            highest = max(highest, broker.rss_mib())
            is_on.clear()
            pinged(pinger, 1)  # the last steps
            began_s = broker.cpu_s()
            alone += pinged(pinger, phase)
            cpu_alone_s += broker.cpu_s() - began_s
        pipe.send(None)
        click.echo(f"alone:      {in_words(alone)}")
        click.echo(f"with tails: {in_words(with_tails)}")
        of_all = 100 / (max(seconds // phase, 1) * phase)
        click.echo(
            f"processor: {cpu_alone_s * of_all:.1f} % of a core alone, "
            f"{cpu_with_s * of_all:.1f} % with tails"
        )
        for first, last, counted, skipped, rows, steps, longest_s in pipe.recv():
            passed = int(last.partition(":")[2]) - int(first.partition(":")[2])
            click.echo(
                f"tail: {passed:,} offsets passed, {counted:,} counted, of them {skipped:,} "
                f"skipped; {rows} rows, {steps} steps, longest {longest_s * 1000:.0f} ms"
            )
        work.join()
        click.echo(
            f"memory: {before:.1f} MiB before the console, {opened:.1f} as it was opened, "
            f"{highest:.1f} at most, {broker.rss_mib():.1f} after"
        )


if __name__ == "__main__":
    main()
