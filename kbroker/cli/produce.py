"""`kbroker produce`: each line of standard input becomes one record."""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import click

from kbroker.cli.connection import CommandError, ExitCode, bootstrap_option, link_errors
from kbroker.cli.line_source import LineSource
from kbroker.cli.output import counted, say
from kbroker.cli.terminal_line import TerminalLine
from kbroker.client.broker_link import BrokerLink, readable
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.connection import ClientError
from kbroker.client.partitioner import partition_of
from kbroker.client.record_sender import ALL, RecordSender, SendOptions
from kbroker.errors import Trouble
from kbroker.record.bulk_records import bodies_of_values, body_of
from kbroker.record.compression import CODEC_IDS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LINGER_S = 0.005
_FIRST_SHOWN_S = 0.5


@click.command()
@click.argument("topic")
@click.option("--key", help="Key of every record.")
@click.option("--key-separator", metavar="TEXT", help="Each line is KEY, this text, VALUE.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="A header of every record; may be repeated.",
)
@click.option("--partition", type=int, help="Partition to write to (default: by key, else spread).")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--null-value", is_flag=True, help="An empty value is a tombstone (null).")
@bootstrap_option
def produce(  # one parameter per option
    bootstrap: str,
    topic: str,
    key: str | None,
    key_separator: str | None,
    headers: Sequence[str],
    partition: int | None,
    acks: str,
    compression: str,
    null_value: bool,
) -> None:
    """Write each line of standard input to TOPIC as one record."""
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator == "":
        raise click.UsageError("--key-separator '' separates nothing")
    options = SendOptions(
        acks=ALL if acks == "all" else int(acks),
        compression=CODEC_IDS[compression],
        headers=tuple(_header(text) for text in headers),
    )
    form = _LineForm(
        key=None if key is None else key.encode(),
        separator=None if key_separator is None else key_separator.encode(),
        has_nulls=null_value,
        partition=partition,
    )
    with link_errors(bootstrap), closing(ClusterLinks(bootstrap)) as cluster:
        view = _topic(cluster, topic, partition)
        sender = RecordSender(cluster, view, options)
        place = form.placer(len(view.leaders), sender)
        _Copy(LineSource(sys.stdin.buffer), sender, cluster, place).run(topic)


def _topic(cluster: ClusterLinks, topic: str, partition: int | None) -> TopicView:
    """Have the topic made where the broker does so."""
    view = cluster.ready_topic(topic, creates=True)
    if view is None:
        raise CommandError(
            f"no such topic: {topic} (create it with `kbroker topic create {topic}`)",
            trouble=Trouble.UNKNOWN_TOPIC,
        )
    if partition is not None and partition not in view.leaders:
        raise CommandError(
            f"{topic} has no partition {partition} (it has {len(view.leaders)})",
            ExitCode.ITEM_FAILED,
        )
    return view


Placed = dict[int, list[bytes]]
"""Bodies of records by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LineForm:
    """What the options make of a line."""

    key: bytes | None
    separator: bytes | None
    has_nulls: bool
    partition: int | None

    def placer(self, count: int, sender: RecordSender) -> Callable[[list[bytes]], Placed]:
        """Turns lines into records of so many partitions."""
        only = 0 if count == 1 else self.partition
        first = random.randrange(count)

        def in_turn() -> int:
            """Without a key each batch goes to another partition."""
            return (first + sender.batches) % count

        def with_one_key(lines: list[bytes]) -> Placed:
            values = [line or None for line in lines] if self.has_nulls else lines
            number = only
            if number is None:
                number = in_turn() if self.key is None else partition_of(self.key, count)
            return {number: bodies_of_values(values, self.key)}

        def with_own_keys(lines: list[bytes]) -> Placed:
            separator = self.separator or b""
            unkeyed = in_turn()
            placed: defaultdict[int, list[bytes]] = defaultdict(list)
            for line in lines:
                head, found, tail = line.partition(separator)
                key, value = (head, tail) if found else (None, line)
                number = only
                if number is None:
                    number = unkeyed if key is None else partition_of(key, count)
                placed[number].append(body_of(key, None if self.has_nulls and not value else value))
            return placed

        return with_one_key if self.separator is None else with_own_keys


class _Copy:
    """Standard input to a topic."""

    def __init__(
        self,
        source: LineSource,
        sender: RecordSender,
        cluster: ClusterLinks,
        place: Callable[[list[bytes]], Placed],
    ) -> None:
        self._source, self._sender, self._cluster, self._place = source, sender, cluster, place
        self._read = 0  # lines
        stream = sys.stderr
        self._line = TerminalLine(stream, time.monotonic() + _FIRST_SHOWN_S, plain_interval_s=None)
        self._is_typed = sys.stdin.isatty()  # a line that is written over would hide what is typed

    def run(self, topic: str) -> None:
        """Copy all, and say how much. CommandError where records were not written."""
        try:
            self._copy()
        except KeyboardInterrupt:
            self._line.end()
            say(f"interrupted: {self._acknowledged()} written to {topic}")
            raise
        except (ClientError, OSError) as error:
            self._fail(str(error))
        finally:
            self._line.end()
        if self._sender.refusal is not None:
            self._fail(self._sender.refusal)
        say(f"{counted(self._read, 'record')} written to {topic}")

    def _copy(self) -> None:
        source, sender = self._source, self._sender
        while not (source.is_ended and sender.is_idle):
            reads = not source.is_ended and sender.has_room
            watched: list[BrokerLink | LineSource] = [*self._cluster.busy()]
            if reads:
                watched.append(source)
            wait_s = _LINGER_S if reads and sender.is_gathering else sender.wait_s
            ready = readable(watched, wait_s)
            for link in ready:
                if isinstance(link, LineSource):
                    lines = link.read()
                    self._read += len(lines)
                    for partition, bodies in self._place(lines).items():
                        sender.put(partition, bodies, _now_ms())
                else:
                    sender.take(link)
            if source.is_ended or sender.is_full or (reads and source not in ready):
                sender.complete(_now_ms())
            sender.pump()
            self._show()

    def _show(self) -> None:
        now_s = time.monotonic()
        if not self._is_typed and self._line.is_due(now_s):
            self._line.show(self._acknowledged(), now_s)

    def _acknowledged(self) -> str:
        return f"{self._sender.acknowledged} of {counted(self._read, 'record')}"

    def _fail(self, reason: str) -> None:
        missing = self._read - self._sender.acknowledged
        raise CommandError(
            f"{missing} of {self._read} records were not written: {reason}", ExitCode.ITEM_FAILED
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"'{text}' is no KEY=VALUE")
    return name, value.encode()
