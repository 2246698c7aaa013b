"""`kbroker produce`: each line of standard input becomes one record."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    link_errors,
    open_links,
)
from kbroker.cli.arguments.topic_choice import check_partitions, names_of_topics
from kbroker.cli.records.line_form import (
    JsonLines,
    KeyedLines,
    LineForm,
    PartitionChoice,
    ValueLines,
    unescaped,
)
from kbroker.cli.records.line_reader import LineReader, lines_to_first_record, refused_line
from kbroker.cli.records.line_source import LineSource, PromptedSource
from kbroker.cli.records.send_report import SendReport
from kbroker.cli.shown.output import counted, say
from kbroker.client.broker_link import BrokerLink, readable
from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.moments import MOMENTS, timestamp_ms
from kbroker.client.record_sender import ALL, NOBODY, RecordSender, SendOptions
from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.config_resources import ResourceType
from kbroker.config.config_values import MAX_INT
from kbroker.errors import KafkaError, Trouble
from kbroker.near_names import did_you_mean
from kbroker.record.compression import CODEC_IDS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LINGER_S = 0.005
_MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--input",
    "form",
    type=click.Choice(["lines", "jsonl"]),
    default="lines",
    show_default=True,
    help="jsonl: each line is a record as `kbroker consume --output jsonl` prints it; only its "
    '"value" is needed.',
)
@click.option("--key", help="Key of every record.")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help=r"Each line is KEY, this text, VALUE; \t is a tab, \\ one \, \x1f the byte 1f.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="A header of every record; may be repeated.",
)
@click.option(
    "--partition",
    type=int,
    help="Partition to write to (default: by key; without keys, each batch of up to 1 MB to "
    "another one, so that few lines all go to one).",
)
@click.option(
    "--timestamp",
    metavar="MS|-1h|DATE",
    help="Time of every record, also in ms since 1970 (default: now).",
)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--null-value", is_flag=True, help="An empty value is a tombstone (null).")
@click.option(
    "--keep-going", is_flag=True, help="Report lines that are not records, and write the others."
)
@click.option(
    "--as-kafka",
    is_flag=True,
    hidden=True,
    help="Say nothing of what is written, and ask for each line at a terminal with >.",
)
@bootstrap_option
def produce(  # one parameter per option
    bootstrap: str,
    topic: str,
    form: str,
    key: str | None,
    key_separator: str | None,
    headers: Sequence[str],
    partition: int | None,
    timestamp: str | None,
    acks: str,
    compression: str,
    null_value: bool,
    keep_going: bool,
    as_kafka: bool,
) -> None:
    """Write each line of standard input to TOPIC as one record."""
    is_json = form == "jsonl"
    _check_options(
        is_json,
        {
            "--key": key,
            "--key-separator": key_separator,
            "--header": headers,
            "--partition": partition,
            "--timestamp": timestamp,
            "--null-value": null_value,
        },
    )
    options = SendOptions(
        acks=ALL if acks == "all" else int(acks),
        compression=CODEC_IDS[compression],
        headers=None if is_json else tuple(_header(text) for text in headers),
    )
    lines = _Lines(
        is_json=is_json,
        key=None if key is None else os.fsencode(key),
        separator=None if key_separator is None else unescaped(os.fsencode(key_separator)),
        has_nulls=null_value,
        partition=partition,
        keep_going=keep_going,
        as_kafka=as_kafka,
    )
    stamp = _stamp(timestamp)
    if sys.stdin is None:
        raise click.UsageError("standard input is closed: give lines to write, or < /dev/null")
    with link_errors(bootstrap), open_links(bootstrap) as cluster:
        _write(cluster, topic, lines, options, stamp)


def _write(
    cluster: ClusterLinks,
    topic: str,
    lines: _Lines,
    options: SendOptions,
    stamp: Callable[[], int],
) -> None:
    """Write standard input to a topic, which is created first if the broker does so."""
    is_typed = sys.stdin.isatty()
    is_asked = lines.as_kafka and is_typed and sys.stdout.isatty()
    kind = PromptedSource if is_asked else LineSource
    source, held = kind(sys.stdin.buffer), list[bytes]()
    view = cluster.ready_topic(topic)
    if view is None:
        if lines.can_be_bad and not lines.keep_going:
            held = lines_to_first_record(source, lines.form_without_topic())
        view = _made_topic(cluster, topic)
        if not lines.as_kafka:
            say(f"{topic}: created by the broker, with {counted(len(view.leaders), 'partition')}")
    check_partitions(view, () if lines.partition is None else (lines.partition,))
    sender = RecordSender(cluster, view, options)
    form = lines.form(len(view.leaders), sender)
    reader = LineReader(source, form, held, keep_going=lines.keep_going)
    # A line that is written over would hide what is typed.
    report = SendReport(sender, topic, is_silent=is_typed or lines.as_kafka)
    with report.watched(reader.unread):
        _copy(reader, sender, cluster, stamp, report)
    if reader.refusal is not None:
        raise refused_line(reader.refusal, report.read)
    if not lines.as_kafka:
        done = "sent" if options.acks == NOBODY else "written"
        say(f"{counted(report.read, 'record')} {done} to {topic}")
    if reader.bad:
        reason = f"{counted(reader.bad, 'line')} could not be written"
        raise CommandError(reason, ExitCode.ITEM_FAILED)


def _check_options(is_json: bool, values: Mapping[str, object]) -> None:
    given = [name for name, value in values.items() if value not in (None, False, ())]
    if is_json and given:
        raise click.UsageError(f"{given[0]} and --input jsonl exclude each other: each row says it")
    if "--key" in given and "--key-separator" in given:
        raise click.UsageError("--key and --key-separator exclude each other")
    if values["--key-separator"] == "":
        raise click.UsageError("--key-separator '' separates nothing")


def _stamp(text: str | None) -> Callable[[], int]:
    """Return what gives the time of records, in Unix ms. UsageError if it is malformed."""
    if text is None:
        return unix_now_ms
    fixed_ms = (
        int(text) if text.isascii() and text.isdecimal() else timestamp_ms(text, unix_now_ms())
    )
    if fixed_ms is None or not 0 <= fixed_ms <= _MAX_TIME_MS:
        raise click.UsageError(
            f"--timestamp '{text}' is none of: milliseconds since 1970, {MOMENTS}"
        )
    return lambda: fixed_ms


def _made_topic(cluster: ClusterLinks, topic: str) -> TopicView:
    """Have the broker create the topic. CommandError if it does not."""
    view = cluster.ready_topic(topic, creates=True)
    if view is None and _creates_topics(cluster):
        raise CommandError(
            f"the broker could not create the topic {topic} now: its log says why, most often a "
            "full disk",
            ExitCode.ITEM_FAILED,
            Trouble.UNKNOWN_TOPIC,
        )
    if view is None:
        hint = did_you_mean(topic, names_of_topics(cluster))
        raise CommandError(
            f"no such topic: {topic}{hint} (create it with `kbroker topic create {topic}`)",
            ExitCode.ITEM_FAILED,
            Trouble.UNKNOWN_TOPIC,
        )
    return view


def _creates_topics(cluster: ClusterLinks) -> bool:
    """Say whether the brokers create topics at their first use, as far as we may know."""
    broker = cluster.describe([]).brokers[0]
    resource = Resource(ResourceType.BROKER, str(broker.node_id))
    try:
        found = describe_configs(cluster, [resource], ["auto.create.topics.enable"])
    except (OSError, KafkaError):
        return False  # this user may not know
    return any(setting.value == "true" for setting in found[resource])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """The form of lines that the options describe."""

    is_json: bool
    key: bytes | None
    separator: bytes | None
    has_nulls: bool
    partition: int | None
    keep_going: bool
    as_kafka: bool  # nothing is said of what is written

    @property
    def can_be_bad(self) -> bool:
        """Whether some lines may be no records."""
        return self.is_json or self.separator is not None

    def form(self, count: int, sender: RecordSender) -> LineForm:
        """Return what turns lines into records of so many partitions."""
        first = random.randrange(count)
        spread = PartitionChoice(
            count=count,
            only=0 if count == 1 else self.partition,
            in_turn=lambda: (first + sender.batches) % count,  # each batch to another one
        )
        return self._form(spread)

    def form_without_topic(self) -> LineForm:
        """Return what finds lines that are no records, before the number of partitions is known."""
        return self._form(PartitionChoice(count=MAX_INT, only=0, in_turn=lambda: 0))

    def _form(self, spread: PartitionChoice) -> LineForm:
        if self.is_json:
            return JsonLines(spread)
        if self.separator is not None:
            return KeyedLines(spread, self.separator, has_nulls=self.has_nulls)
        return ValueLines(spread, self.key, has_nulls=self.has_nulls)


def _copy(
    reader: LineReader,
    sender: RecordSender,
    cluster: ClusterLinks,
    stamp: Callable[[], int],
    report: SendReport,
) -> None:
    """Send what is read, until it ends. `stamp` gives the time of records, in Unix ms.

    ClientError if a record takes too long.
    """
    if reader.holds_lines:
        _put(reader, sender, stamp(), report)
    while not (reader.is_ended and sender.is_idle):
        reads = not reader.is_ended and sender.has_room
        watched: list[BrokerLink | LineReader] = [*cluster.busy()]
        if reads:
            watched.append(reader)
        wait_s = _LINGER_S if reads and sender.is_gathering else sender.wait_s
        ready = readable(watched, wait_s)
        for link in ready:
            if isinstance(link, LineReader):
                _put(link, sender, stamp(), report)
            else:
                sender.take(link)
        if reader.is_ended or sender.is_full or (reads and reader not in ready):
            sender.complete(stamp())
        sender.pump()
        report.show()


def _put(reader: LineReader, sender: RecordSender, now_ms: int, report: SendReport) -> None:
    for partition, bodies, times in reader.read(now_ms):
        report.read += len(bodies)
        sender.put(partition, bodies, now_ms, times)


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"--header '{text}' is not KEY=VALUE")
    return name, os.fsencode(value)
