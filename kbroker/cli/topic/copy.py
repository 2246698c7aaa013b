"""`kbroker topic copy`: copies the records of a topic into another, of the same cluster or not.

Law: order, times, keys, values and headers stay, and so do partitions unless --by-key chooses them
again, because readers of the copy must find what they would find in the source. Records of aborted
transactions are not copied, nor any after the beginning of an open one. Large batches are passed on
packed, because unpacking costs time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import click

from kbroker.cli.arguments.bootstrap_reading import other_bootstrap
from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    link_errors,
    open_links,
)
from kbroker.cli.arguments.key_values import key_values
from kbroker.cli.arguments.topic_choice import existing_topic
from kbroker.cli.records.produce import CODECS
from kbroker.cli.records.record_place import PLACE_METAVAR, check_start, parse_place
from kbroker.cli.records.send_report import SendReport
from kbroker.cli.shown.open_transactions import tell_open
from kbroker.cli.shown.output import counted, say
from kbroker.cli.topic.changes import refuse_topics
from kbroker.client.cluster_configs import Resource, describe_configs, own_settings
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.fetched_batches import FetchedBatch, TellUnreadable, record_lists
from kbroker.client.open_transactions import held_in_topic
from kbroker.client.partitioner import partitions_of
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.record_places import offsets_at
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.client.topic_changes import made_topics
from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.config_resources import ResourceType
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.compression import CODEC_IDS
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import is_intact
from kbroker.record.packed_batch import PackedBatch, can_be_passed_on

_SMALL_BYTES = 32 * 1024  # several smaller batches go together
_TIME_TYPE, _CREATE_TIME = "message.timestamp.type", "CreateTime"


@click.command()
@click.argument("source", shell_complete=topic_names)
@click.argument("target", shell_complete=topic_names)
@click.option(
    "--to-bootstrap",
    metavar="HOST:PORT",
    help="Address of a broker of TARGET's cluster (default: that of SOURCE).",
)
@click.option(
    "--to-command-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Properties file for TARGET's cluster, if it is another one with TLS or a login.",
)
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar=PLACE_METAVAR,
    help="Where to begin.",
)
@click.option(
    "--to",
    "end",
    default="end",
    show_default=True,
    metavar=PLACE_METAVAR,
    help="Where to stop before.",
)
@click.option(
    "--by-key",
    is_flag=True,
    help="Choose the partition of each record by its key (default: it keeps its number).",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting for a new TARGET, which wins over that of SOURCE; may be repeated.",
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help="For batches that are packed again: small ones, or all with --by-key.",
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Leave out what cannot be read at the source, and name it, instead of stopping before it.",
)
@bootstrap_option
def copy(  # one parameter per option
    bootstrap: str,
    source: str,
    target: str,
    to_bootstrap: str | None,
    to_command_config: str | None,
    start: str,
    end: str,
    by_key: bool,
    configs: Sequence[str],
    compression: str,
    allow_loss: bool,
) -> None:
    """Copy the records that SOURCE has now to TARGET.

    If TARGET does not exist, it is created with the partitions and settings of SOURCE. If it does,
    it keeps its records.
    """
    wanted = key_values("--config", configs)
    places = parse_place("--from", start), parse_place("--to", end)
    goal = _goal(bootstrap, to_bootstrap, to_command_config)
    with ExitStack() as stack:
        stack.enter_context(link_errors(bootstrap))
        readers = stack.enter_context(open_links(bootstrap))
        view = existing_topic(readers, source)
        writers = stack.enter_context(open_links(goal))
        target_view = writers.ready_topic(target)
        if target_view is None:
            _make(readers, writers, view, target, wanted)
            target_view = existing_topic(writers, target)
        if source == target and readers.describe([]).cluster_id == writers.describe([]).cluster_id:
            reason = f"{source} cannot be copied to itself"
            raise CommandError(reason, ExitCode.USAGE)
        if not by_key:
            _check_partitions(view, target_view)
        options = SendOptions(compression=CODEC_IDS[compression], headers=None)
        sender = RecordSender(writers, target_view, options)
        report = SendReport(sender, target)
        starts, ends = (offsets_at(readers, view, list(view.leaders), each) for each in places)
        check_start(places[0], starts)
        held = held_in_topic(readers, view, ends)
        tell = _tell_left_out if allow_loss else None
        course = Course(starts=starts, ends=ends | held, only_committed=True, tell_unreadable=tell)
        fetcher = RecordFetcher(readers, [view], course, say)
        count = len(target_view.leaders) if by_key else None
        with report.watched():
            obstacle = _Copy(fetcher, sender, report, count, tell).run()
    say(f"{counted(report.read, 'record')} copied from {source} to {target}")
    if obstacle is not None:
        reason = f"{obstacle}; nothing behind it was copied (--allow-loss leaves it out)"
        raise CommandError(reason, ExitCode.ITEM_FAILED)
    tell_open(held)


def _goal(bootstrap: str, to_bootstrap: str | None, to_command_config: str | None) -> str:
    if to_command_config is None and to_bootstrap in (None, bootstrap):
        return bootstrap
    goal = other_bootstrap(to_bootstrap, to_command_config, "--to-bootstrap")
    if not goal:
        raise click.UsageError("--to-command-config is for another cluster: give --to-bootstrap")
    return goal


def _make(
    readers: ClusterLinks,
    writers: ClusterLinks,
    view: TopicView,
    target: str,
    configs: Mapping[str, str],
) -> None:
    """Create the target like the source. CommandError if that is refused."""
    resource = Resource(ResourceType.TOPIC, view.name)
    settings = own_settings(describe_configs(readers, [resource])[resource])
    if _TIME_TYPE not in configs and settings.pop(_TIME_TYPE, _CREATE_TIME) != _CREATE_TIME:
        say(f"{target}: {_TIME_TYPE} of {view.name} is not copied: the times of records stay")
    count = len(view.leaders)
    settings = {**settings, **configs}
    refuse_topics(made_topics(writers, [target], settings, say, partitions=count))


def _check_partitions(view: TopicView, target: TopicView) -> None:
    """Raise CommandError if the target lacks partitions of the source."""
    if not set(view.leaders) <= set(target.leaders):
        raise CommandError(
            f"{target.name} has {counted(len(target.leaders), 'partition')}, {view.name} has "
            f"{len(view.leaders)} (--by-key chooses a partition for each record)",
            ExitCode.ITEM_FAILED,
        )


class _Copy:
    """Copies the batches of one topic to another."""

    def __init__(
        self,
        fetcher: RecordFetcher,
        sender: RecordSender,
        report: SendReport,
        count: int | None,
        tell_unreadable: TellUnreadable | None,
    ) -> None:
        """`count`: the number of partitions to choose from by key; None: partitions stay.
        `tell_unreadable` gets a sentence for what is left out; None: the copy ends before it.
        """
        self._fetcher, self._sender = fetcher, sender
        self._report, self._count = report, count
        self._tell_unreadable = tell_unreadable

    def run(self) -> str | None:
        """Copy all, or up to an unreadable record, and return why it cannot be read.

        Raises ClientError, KafkaError, OSError.
        """
        obstacle = None
        for batches in self._fetcher.answers():
            for batch in batches:
                obstacle = self._put(batch)
                if obstacle is not None:
                    break
            self._sender.complete(unix_now_ms())
            if obstacle is not None:
                break
            self._sender.send_until(lambda: self._sender.has_room, self._report.show)
        self._sender.send_until(lambda: self._sender.is_idle, self._report.show)
        return obstacle

    def _put(self, batch: FetchedBatch) -> str | None:
        """Pass on a batch, or its records; return why it cannot be read, if so."""
        header, data = batch.header, batch.data
        is_passed_on = (
            self._count is None
            and len(data) >= _SMALL_BYTES
            and batch.is_wanted_whole
            and can_be_passed_on(header)
            and is_intact(header, data)
        )
        if is_passed_on:
            packed = PackedBatch(header, data)
            self._report.read += packed.record_count
            self._sender.put_packed(batch.place.partition, packed, unix_now_ms())
            return None
        try:
            for read in record_lists(batch, self._tell_unreadable):
                self._put_records(batch.place, read)
        except KafkaError as error:
            return error.reason
        return None

    def _put_records(self, place: TopicPartition, read: list[Record]) -> None:
        for partition, records in self._placed(place, read).items():
            self._report.read += len(records)
            bodies = list(map(whole_body_of, records))
            times = [record.timestamp for record in records]
            self._sender.put(partition, bodies, unix_now_ms(), times)

    def _placed(
        self, place: TopicPartition, records: list[Record]
    ) -> Mapping[int, Sequence[Record]]:
        if self._count is None:
            return {place.partition: records} if records else {}
        placed: defaultdict[int, list[Record]] = defaultdict(list)
        keys = [record.key for record in records if record.key is not None]
        by_key = iter(partitions_of(keys, self._count))
        unkeyed = self._sender.batches % self._count
        for record in records:
            placed[unkeyed if record.key is None else next(by_key)].append(record)
        return placed


def _tell_left_out(what: str) -> None:
    say(f"{what}; left out")
