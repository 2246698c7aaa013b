"""`kbroker consume`: prints the records of topics, from a place to another one or for as long as it
is left running.

With --group the client library reads, for it knows how to be a member; else the project's own
fetcher does, which is faster.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import click

from kbroker.cli.completion import topic_names
from kbroker.cli.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    client_errors,
    link_errors,
)
from kbroker.cli.open_transactions import held_back, held_in_topic, tell_open
from kbroker.cli.output import counted, say
from kbroker.cli.record_place import (
    END,
    PLACES,
    START,
    Place,
    check_start,
    offsets_at,
    parse_place,
)
from kbroker.cli.record_printer import PrintForm, RecordPrinter
from kbroker.cli.terminal_line import TerminalLine
from kbroker.cli.topic_choice import check_partitions, chosen, compiled, matching
from kbroker.cli.unreadable import Unreadable
from kbroker.cli.value_decoder import DECODERS, ValueForm
from kbroker.client.cluster_links import LATEST, ClusterLinks, TopicView
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.topic_figures import offsets_at as offsets_now
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_FIRST_SHOWN_S = 0.5
_COMMITTED = "read_committed"

Batches = Iterable[tuple[TopicPartition, list[Record]]]
"""Partitions and records of them, as they come."""


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option("--pattern", metavar="REGEX", help="Also all topics whose whole name matches.")
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar=PLACES,
    help="Where to begin; -100: with the last 100 records of each partition. With --group, where "
    "it has no offset: start or end.",
)
@click.option(
    "--to",
    "end",
    metavar=PLACES,
    help="Where to stop: before this offset or time (default: the end as it is now).",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--follow", is_flag=True, help="Keep waiting for new records.")
@click.option(
    "--partition",
    "partitions",
    type=int,
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option(
    "--isolation",
    type=click.Choice([_COMMITTED, "read_uncommitted"]),
    default=_COMMITTED,
    show_default=True,
    help="read_committed leaves out records of transactions that are open or aborted.",
)
@click.option(
    "--group",
    help="Join this consumer group, begin at its offsets and commit them: at the end, and with "
    "--follow every 5 s too.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json", "jsonl", "csv"]),
    help="table (the default) prints values only; the others print key, value, headers, timestamp "
    "and place. `kbroker produce --input jsonl` reads jsonl.",
)
@click.option(
    "--format",
    "text",
    metavar="TEXT",
    help="Print each record like this: %t topic, %p partition, %o offset, %k key, %v or %s value, "
    "%h headers, %T time in ms, %d time as a date, %K and %S size of key and value (-1: null), "
    "%% a percent sign; \\n, \\t, \\xHH as in C. Example: '%o %k=%v\\n'.",
)
@click.option("--key-decoder", metavar=DECODERS, help="What keys are.")
@click.option(
    "--value-decoder",
    metavar=DECODERS,
    help="What values are (default: text where they are UTF-8).",
)
@bootstrap_option
def consume(  # one parameter per option
    bootstrap: str,
    names: Sequence[str],
    pattern: str | None,
    start: str,
    end: str | None,
    count: int | None,
    follow: bool,
    partitions: Sequence[int],
    isolation: str,
    group: str | None,
    output: str | None,
    text: str | None,
    key_decoder: str | None,
    value_decoder: str | None,
) -> None:
    """Print the records of each TOPIC; without --follow, up to the end as it is now."""
    if output is not None and text is not None:
        raise click.UsageError("--format and --output exclude each other")
    choice = _Choice(
        names=names,
        pattern=None if pattern is None else compiled(pattern),
        partitions=partitions,
        start=parse_place("--from", start),
        end=None if end is None else parse_place("--to", end),
        follow=follow,
        isolation=isolation,
        group=group,
    )
    choice.check()
    form = PrintForm(
        output=output or "table",
        text=text,
        key=ValueForm(key_decoder),
        value=ValueForm(value_decoder, pretty=sys.stdout.isatty()),
    )
    printer = RecordPrinter(form, sys.stdout.buffer)
    unreadable = Unreadable(say)
    is_all = False
    with link_errors(bootstrap), closing(ClusterLinks(bootstrap, tell=say)) as cluster:
        views = choice.views(cluster)
        ends = choice.ends(cluster, views)
        if group is None:
            batches = choice.batches(cluster, views, ends, unreadable.tell)
            is_all = print_all(batches, count, printer, follow=follow)
    if group is not None:
        topics = [view.name for view in views]
        is_all = _print_as_member(bootstrap, topics, choice, count, printer, unreadable)
    if is_all and not follow:
        tell_open(ends.held)
    if printer.failures:
        raise CommandError(_failed_decoding(printer), ExitCode.ITEM_FAILED)
    unreadable.refuse_if_any()


def _failed_decoding(printer: RecordPrinter) -> str:
    if printer.failures == 1:
        return f"1 field could not be decoded and is printed as it is: {printer.first_failure}"
    return (
        f"{counted(printer.failures, 'field')} could not be decoded and are printed as they are; "
        f"the first is {printer.first_failure}"
    )


def _print_as_member(
    bootstrap: str,
    topics: Sequence[str],
    choice: _Choice,
    count: int | None,
    printer: RecordPrinter,
    unreadable: Unreadable,
) -> bool:
    """Print what a group has not read; whether that was all."""
    from kbroker.cli.group_records import GroupRecords, Habits  # 130 ms that nobody else pays

    with client_errors(bootstrap):
        habits = Habits(choice.start == END, choice.isolation)
        group = str(choice.group)
        member = GroupRecords(bootstrap, group, topics, say, habits, unreadable.tell)
        is_all = False
        # A member that is told to end leaves its group, else the others wait for it.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            batches = member.batches(follow=choice.follow)
            is_all = print_all(batches, count, printer, follow=choice.follow)
        finally:
            member.leave(None if is_all else printer.next_offsets)  # not what was polled
    return is_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where to stop by partition, and which of them are `held`: by an open transaction, before the
    end that was asked for.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    held: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What to read."""

    names: Sequence[str]
    pattern: re.Pattern[str] | None
    partitions: Sequence[int]
    start: Place
    end: Place | None
    follow: bool
    isolation: str
    group: str | None

    @property
    def only_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.isolation == _COMMITTED

    def check(self) -> None:
        """UsageError where the options contradict each other."""
        if not self.names and self.pattern is None:
            raise click.UsageError("name a topic, or give --pattern")
        if self.follow and self.end is not None:
            raise click.UsageError("--follow and --to exclude each other")
        if self.group is None:
            return
        if not self.group:
            raise click.UsageError("--group is empty: give the name of a group")
        if self.partitions:
            raise click.UsageError(
                "--group and --partition exclude each other: the group shares out the partitions"
            )
        if self.end is not None:
            raise click.UsageError("--group and --to exclude each other: a group reads to the end")
        if self.start not in (START, END):
            raise click.UsageError(
                "a group begins at its own offsets: give --from as start or end, for partitions "
                "where it has none (kbroker group reset moves its offsets)"
            )

    def views(self, cluster: ClusterLinks) -> list[TopicView]:
        """The topics as they are. CommandError where one is not there."""
        views = chosen(cluster, self.names, self.pattern)
        for view in views:
            check_partitions(view, self.partitions)
        return views

    def batches(
        self,
        cluster: ClusterLinks,
        views: Sequence[TopicView],
        ends: Ends,
        tell_unreadable: Callable[[str], None],
    ) -> Batches:
        """Their records."""
        starts = self._offsets(cluster, views, self.start)
        check_start(self.start, starts)
        if not self.follow:
            course = Course(
                starts=starts,
                ends=ends.offsets,
                only_committed=self.only_committed,
                tell_unreadable=tell_unreadable,
            )
        else:
            course = Course(
                starts=starts,
                find=None if self.partitions else partial(self._find, cluster),
                only_committed=self.only_committed,
                tell_held=tell_open,
                tell_unreadable=tell_unreadable,
            )
        return RecordFetcher(cluster, views, course, say).batches()

    def ends(self, cluster: ClusterLinks, views: Iterable[TopicView]) -> Ends:
        """Where to stop reading what is there now; a group finds the end by itself."""
        if self.follow:
            return Ends()
        if self.group is not None:
            return Ends(held=_held_from_a_group(cluster, views) if self.only_committed else {})
        ends = self._offsets(cluster, views, self.end or END)
        held: dict[TopicPartition, int] = {}
        for view in views if self.only_committed else ():
            held |= held_in_topic(cluster, view, ends)
        return Ends(offsets=ends | held, held=held)

    def _offsets(
        self, cluster: ClusterLinks, views: Iterable[TopicView], place: Place
    ) -> dict[TopicPartition, int]:
        return {
            partition: offset
            for view in views
            for partition, offset in offsets_at(
                cluster, view, self.partitions or list(view.leaders), place
            ).items()
        }

    def _find(self, cluster: ClusterLinks) -> list[TopicView]:
        named = cluster.topics(self.names) if self.names else []
        return named if self.pattern is None else [*named, *matching(cluster, self.pattern)]


def _held_from_a_group(
    cluster: ClusterLinks, views: Iterable[TopicView]
) -> dict[TopicPartition, int]:
    leaders = {
        TopicPartition(view.name, number): leader
        for view in views
        for number, leader in view.leaders.items()
    }
    return held_back(cluster, leaders, offsets_now(cluster, leaders, LATEST))


def print_all(batches: Batches, count: int | None, printer: RecordPrinter, *, follow: bool) -> bool:
    """Print up to `count` records; whether all were printed that there are."""
    line = TerminalLine(sys.stderr, time.monotonic() + _FIRST_SHOWN_S, plain_interval_s=None)
    is_silent = not sys.stdout.isatty()
    try:
        for place, records in batches:
            if count is not None:
                records = records[: count - printer.printed]
            printer.print(place, records)
            if printer.printed == count:
                return False
            if is_silent and line.is_due(now_s := time.monotonic()):
                line.show(counted(printer.printed, "record"), now_s)
    except KeyboardInterrupt:
        if not follow:
            raise
        return False  # Ctrl-C is how it ends
    finally:
        line.end()
        printer.end()
    return True
