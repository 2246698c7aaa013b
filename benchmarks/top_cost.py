"""The share of a core that the screen of `kbroker top` takes: `python -m benchmarks.top_cost`.

A real command on a terminal of 80 columns and 24 lines, beside a client that writes, so that the
screen changes with each look. `--bootstrap` takes a broker that runs already.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from benchmarks.processes import cpu_s_of, kbroker, rss_mib_of
from benchmarks.raw_client import RawClient, batch_of, produce_first, produce_frame, produced
from benchmarks.scrape import commit, make_topics

_LINES, _COLUMNS = 24, 80
_WRITES_PER_S = 50
_CHUNK_BYTES = 65_536


@dataclass(slots=True)
class Screen:
    """A command on a terminal of its own, and the bytes that it has drawn."""

    process: subprocess.Popen[bytes]
    drawn_bytes: int = 0

    def cpu_s(self) -> float:
        """User and system time so far, in seconds."""
        return cpu_s_of(self.process.pid)


@contextmanager
def screen(*options: str) -> Iterator[Screen]:
    """A `kbroker top` that somebody reads; it is asked to end by its key."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    command = [sys.executable, "-m", "kbroker.cli", "top", *options]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    shown = Screen(process)
    is_there = threading.Event()

    def read() -> None:
        while True:
            try:
                chunk = os.read(ours, _CHUNK_BYTES)
            except OSError:  # the command has ended
                is_there.set()
                return
            shown.drawn_bytes += len(chunk)
            is_there.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        is_there.wait()
        yield shown
        os.write(ours, b"q")
        if process.wait(30):
            raise RuntimeError(f"the screen has ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)


@contextmanager
def writing(address: tuple[str, int], topics: int) -> Iterator[None]:
    """A client writes small batches to one topic after the other."""
    has_ended = threading.Event()
    client = RawClient(address)

    def write() -> None:
        frames = [
            produce_frame(f"topic-{number}", batch_of(200, 100), acks=1)
            for number in range(min(topics, 100))
        ]
        produce_first(client, frames[0])
        while True:
            for frame in frames:
                if has_ended.wait(1 / _WRITES_PER_S):
                    return
                client.send(frame)
                produced(client.receive())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        has_ended.set()
        writer.join()
        client.close()


def shares(bootstrap: str, seconds: float, options: Sequence[str]) -> str:
    """Watch a screen, and return in words what it takes after its start."""
    with screen("--bootstrap", bootstrap, *options) as shown:
        time.sleep(seconds / 4)
        began_s, before_s, drawn = time.monotonic(), shown.cpu_s(), shown.drawn_bytes
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        share = (shown.cpu_s() - before_s) / took_s
        return (
            f"{share:.1%} of a core over {took_s:.0f} s, {before_s:.2f} s for the start, "
            f"{rss_mib_of(shown.process.pid):.0f} MiB, "
            f"{(shown.drawn_bytes - drawn) / took_s:,.0f} bytes/s drawn"
        )


@click.command()
@click.option("--topics", default=500)
@click.option("--partitions", default=10, help="Of each topic.")
@click.option("--groups", default=100)
@click.option("--seconds", default=60.0)
@click.option("--interval", "interval_s", default=2.0, help="Between two looks.")
@click.option("--bootstrap", help="A broker that runs, and has what it has.")
def main(
    topics: int, partitions: int, groups: int, seconds: float, interval_s: float, bootstrap: str
) -> None:
    """Print the share of a core that the screen takes."""
    options = ("--interval", str(interval_s))
    if bootstrap:
        click.echo(shares(bootstrap, seconds, options))
        return
    with kbroker() as broker:
        make_topics(broker, topics, partitions)
        if groups:
            commit(broker, groups, topics, partitions)
        with writing(broker.address, topics):
            before_s = broker.cpu_s()
            told = shares(broker.bootstrap, seconds, options)
            asked = (broker.cpu_s() - before_s) / (1.25 * seconds)
        click.echo(f"{topics * partitions} partitions, {topics} topics, {groups} groups: {told}")
        click.echo(f"the broker, with the writer: {asked:.1%} of a core")


if __name__ == "__main__":
    main()
