"""Chooses, reads and prints records, for `kbroker consume` and for Kafka's console consumer.

For a group the client library reads, because it can be a member; otherwise the project's own
fetcher does, which is faster.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import click

from kbroker.cli.arguments.connection import (
    CommandError,
    ExitCode,
    client_errors,
    cluster_links,
)
from kbroker.cli.arguments.topic_choice import check_partitions, chosen, matching
from kbroker.cli.records.record_place import check_start
from kbroker.cli.shown.open_transactions import tell_open
from kbroker.cli.shown.output import counted, say
from kbroker.cli.shown.terminal_line import TerminalLine
from kbroker.client.cluster_links import LATEST, ClusterLinks, TopicView
from kbroker.client.open_transactions import held_back, held_in_topic
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.record_places import END, START, Place, offsets_at
from kbroker.client.topic_figures import leaders_in
from kbroker.client.topic_figures import offsets_at as offsets_now
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_FIRST_SHOWN_S = 0.5
_BATCHES_NAMED = 20
COMMITTED = "read_committed"

Batches = Iterable[tuple[TopicPartition, list[Record]]]
"""Partitions with records, as they come."""


class Printer(Protocol):
    """Prints records to one stream."""

    printed: int  # records
    next_offsets: dict[TopicPartition, int]  # behind the last printed record

    def print(self, place: TopicPartition, records: Sequence[Record]) -> None:
        """Print records of a partition: they have left this process when this returns."""

    def end(self) -> None:
        """Close what `print` opened; no more records come."""


class Unreadable:
    """Counts the batches that cannot be read: a command names them and goes on, and its exit code
    says that some are missing. `say` gets each sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._count = 0

    def tell(self, sentence: str) -> None:
        """Say which batch cannot be read, and why."""
        self._count += 1
        if self._count <= _BATCHES_NAMED:
            self._say(sentence)

    def refuse_if_any(self) -> None:
        """Raise CommandError if a batch could not be read."""
        if self._count:
            batches = counted(self._count, "batch")
            raise CommandError(f"{batches} could not be read", ExitCode.ITEM_FAILED)


def print_chosen(bootstrap: str, choice: Choice, count: int | None, printer: Printer) -> Unreadable:
    """Print up to `count` of the chosen records, and return the count of unreadable batches.

    Raises CommandError.
    """
    unreadable = Unreadable(say)
    is_all = False
    with cluster_links(bootstrap) as cluster:
        views = choice.views(cluster)
        ends = choice.ends(cluster, views)
        if choice.group is None:
            batches = choice.batches(cluster, views, ends, unreadable.tell)
            is_all = print_all(batches, count, printer, follow=choice.follow)
    if choice.group is not None:
        topics = [view.name for view in views]
        is_all = _print_as_member(bootstrap, topics, choice, count, printer, unreadable)
    if is_all and not choice.follow:
        tell_open(ends.held)
    return unreadable


def _print_as_member(
    bootstrap: str,
    topics: Sequence[str],
    choice: Choice,
    count: int | None,
    printer: Printer,
    unreadable: Unreadable,
) -> bool:
    """Print the records that a group has not read; return whether that was all."""
    from kbroker.cli.records.group_records import (  # costs 130 ms
        GroupRecords,
        Habits,
    )

    with client_errors(bootstrap):
        habits = Habits(choice.start == END, choice.isolation)
        group = str(choice.group)
        member = GroupRecords(bootstrap, group, topics, say, habits, unreadable.tell)
        is_all = False
        # A member that gets SIGTERM leaves its group, so that the others need not wait for it.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            batches = member.batches(follow=choice.follow)
            is_all = print_all(batches, count, printer, follow=choice.follow)
        finally:
            member.leave(None if is_all else printer.next_offsets)  # not what was polled
    return is_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ends of the reading by partition; `held` are those where an open transaction begins
    before the end that was asked for.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    held: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The topics, partitions and ends of what to read."""

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
        return self.isolation == COMMITTED

    def check(self) -> None:
        """Raise UsageError if the options contradict each other."""
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
                "without one (kbroker group reset moves its offsets)"
            )

    def views(self, cluster: ClusterLinks) -> list[TopicView]:
        """Return the topics as they are. CommandError if one is not there."""
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
        """Yield the records of these topics."""
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
        """Return the ends of what is there now; a group finds them by itself."""
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
    leaders = leaders_in(views)
    return held_back(cluster, leaders, offsets_now(cluster, leaders, LATEST))


def print_all(batches: Batches, count: int | None, printer: Printer, *, follow: bool) -> bool:
    """Print up to `count` records; return whether all there are were printed."""
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
        return False  # Ctrl-C is the usual end
    finally:
        line.end()
        printer.end()
    return True
