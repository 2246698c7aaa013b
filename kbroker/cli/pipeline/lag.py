"""`kbroker pipeline lag`: how far groups are behind, how fast that changes, who falls behind.

No Spark session: a dozen requests need none, so the table is there in half a second. Works against
any cluster of Kafka's protocol.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode, bootstrap_option
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.job_display import Sayings
from kbroker.cli.pipeline.parameters import names
from kbroker.cli.pipeline.session_options import pipeline_errors
from kbroker.cli.pipeline.written_paths import prepare_file
from kbroker.cli.shown.open_transactions import tell_open
from kbroker.cli.shown.output import counted, filled, output_option, print_rows, say
from kbroker.client.unknown_names import no_such
from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.waiting import wait_until

if TYPE_CHECKING:
    from kbroker.pipeline.consumer_lag.lag_figures import (
        GroupFigures,
        PartitionFigures,
        Standing,
    )
    from kbroker.pipeline.jobs.lag import LagReport

_PARTITION_COLUMNS = (
    "topic", "partition", "start_offset", "end_offset", "records_per_s", "size_bytes",
)  # fmt: skip
_GROUP_COLUMNS = (
    "group", "topic", "partition", "committed_offset", "end_offset", "lag", "lag_s",
    "consumed_per_s", "produced_per_s", "catch_up_s", "member", "client_id", "host", "state",
)  # fmt: skip
_STANDING_COLUMNS = (
    "group", "topic", "partitions", "members", "state", "lag", "lag_s",
    "consumed_per_s", "produced_per_s", "catch_up_s", "falls_behind",
)  # fmt: skip
_CSV_COLUMNS = ("taken_ms", *_PARTITION_COLUMNS, *(
    name for name in _GROUP_COLUMNS if name not in _PARTITION_COLUMNS
))  # fmt: skip
_NARROW_GROUP_COLUMNS = tuple(n for n in _GROUP_COLUMNS if n not in ("client_id", "host", "state"))
_LOOKS_KEPT = 1_000  # for the plot
_COMPLAINTS_SHOWN = 3
_PLOT_SUFFIXES = (".svg", ".png")


def _plot_file(text: str) -> Path:
    if Path(text).suffix not in _PLOT_SUFFIXES:
        raise click.BadParameter(f"'{text}' does not end in {' or '.join(_PLOT_SUFFIXES)}")
    return Path(text)


@click.command("lag")
@click.option(
    "--topics", type=names, default="", metavar="A,B",
    help="Only these topics. Otherwise all that are not internal.",
)  # fmt: skip
@click.option(
    "--groups", type=names, default="", metavar="A,B",
    help="Only these groups, and the topics they read.",
)  # fmt: skip
@click.option(
    "--window", type=duration, default="5m", show_default=True, metavar="DURATION",
    help="Compute rates from the records of this long before now.",
)  # fmt: skip
@click.option(
    "--every", type=duration, metavar="DURATION",
    help="Look repeatedly, and show what was consumed in between and when each group catches up.",
)  # fmt: skip
@click.option(
    "--looks", type=click.IntRange(min=1), metavar="N",
    help="With --every: stop after this many looks. Otherwise Ctrl-C stops.",
)  # fmt: skip
@click.option(
    "--max-lag", type=click.IntRange(min=0), metavar="N",
    help="End with exit code 1 when a partition of a group lags more records at the last look.",
)  # fmt: skip
@click.option(
    "--plot", type=_plot_file, metavar="FILE", help="Also write a plot, as .svg or .png.",
)  # fmt: skip
@config_option
@output_option
@bootstrap_option
def lag(
    bootstrap: str,
    output: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    window: float,
    every: float | None,
    looks: int | None,
    max_lag: int | None,
    plot: Path | None,
) -> None:
    """Print where topics begin and end, and how far each group is behind: in records, in seconds,
    and who falls behind most.

    The lag in seconds is the time of the newest record less that of the next one to read. What is
    consumed per second, and the time to catch up, take a second look: give --every.
    """
    from kbroker.pipeline.jobs.lag import lag as look_at_lag

    if looks is not None and every is None:
        raise click.UsageError("--looks needs --every")
    draw = _plotter(plot) if plot else None
    take = partial(
        look_at_lag, bootstrap, topics=topics, groups=groups, window_s=window, events=Sayings()
    )
    report, gap = None, ""
    with pipeline_errors():
        for report in _looks(take, every, looks):
            look = report.look
            if report.partitions or not (look.unknown_topics or look.unknown_groups):
                if every is not None and output == "table":
                    moment = datetime.fromtimestamp(look.taken_ms / 1_000, UTC)
                    click.echo(f"{gap}{moment:%Y-%m-%d %H:%M:%S} UTC")
                    gap = "\n"  # between two looks
                _print(report, output)
            if draw is not None:
                draw(report)
    if plot is not None:
        say(f"wrote {plot}")
    if report is not None:
        _check(report, max_lag)


def _looks(
    take: Callable[..., LagReport], every: float | None, looks: int | None
) -> Iterator[LagReport]:
    """Look as often as asked. An error ends a single look, or the first; a watch goes on when the
    cluster is back.
    """
    report = None
    next_s = time.monotonic()
    for taken in count(1):
        try:
            yield (report := take(before=report))
        except PipelineError as error:
            if taken == 1:
                raise
            say(error.sentence)
        if every is None or taken == looks:
            return
        next_s = max(next_s + every, time.monotonic())
        wait_until(next_s)


def _print(report: LagReport, output: str) -> None:
    taken_ms = report.look.taken_ms
    if output in ("json", "jsonl"):
        document = {
            "taken_ms": taken_ms,
            "partitions": _rows(report.partitions),
            "groups": _rows(report.groups),
            "standings": _rows(report.standings),
        }
        click.echo(json.dumps(document, indent=2 if output == "json" else None))
    elif output == "csv":
        print_rows(list(_flat_rows(report)), _CSV_COLUMNS, output)
    else:
        _print_tables(report)
    _say_what_is_missing(report)


def _rows(figures: Iterable[PartitionFigures | GroupFigures | Standing]) -> list[dict[str, Any]]:
    return [asdict(each) for each in figures]


def _flat_rows(report: LagReport) -> Iterator[dict[str, Any]]:
    """A row per partition and group, and one for each partition that no group reads."""
    readers: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in report.groups:
        readers.setdefault((row.topic, row.partition), []).append(asdict(row))
    for each in report.partitions:
        for reader in readers.get((each.topic, each.partition), [{}]):
            yield {"taken_ms": report.look.taken_ms} | asdict(each) | reader


def _print_tables(report: LagReport) -> None:
    print_rows(_rows(report.partitions), _PARTITION_COLUMNS, "table")
    if report.groups:
        for figures, columns in (
            (report.groups, _NARROW_GROUP_COLUMNS),
            (report.standings, _STANDING_COLUMNS),
        ):
            click.echo()
            rows = _rows(figures)
            print_rows(rows, filled(rows, columns), "table")


def _say_what_is_missing(report: LagReport) -> None:
    look = report.look
    if not report.groups and not look.unknown_groups:
        say("no group has committed offsets here")
    unknown = sum(row.lag is not None and row.lag_s is None for row in report.groups)
    if unknown:
        say(f"the lag in seconds of {counted(unknown, 'row')} is not known: no record came in time")
    read = {(row.topic, row.partition) for row in report.groups}
    tell_open(
        {
            TopicPartition(*place): found.open_offset
            for place, found in look.partitions.items()
            if found.open_offset is not None and place in read
        }
    )


def _plotter(path: Path) -> Callable[[LagReport], None]:
    try:
        from kbroker.pipeline.consumer_lag.lag_plot import Ranking, write_plot
    except ImportError as error:
        raise CommandError(
            f"--plot needs {error.name}: install it with `pip install 'kbroker[spark]'`"
        ) from error
    prepare_file(path, "--plot")
    rankings: deque[Ranking] = deque(maxlen=_LOOKS_KEPT)

    def draw(report: LagReport) -> None:
        rankings.append(Ranking(report.look.taken_ms, report.standings))
        try:
            write_plot(path, rankings)
        except OSError as error:
            raise CommandError(f"cannot write --plot {path}: {error.strerror}") from error

    return draw


def _check(report: LagReport, max_lag: int | None) -> None:
    """Refuse what was named and is not there, and a lag beyond the limit."""
    look = report.look
    complaints = [no_such("topic", name, look.known_topics) for name in look.unknown_topics]
    complaints += [no_such("group", name, look.known_groups) for name in look.unknown_groups]
    if max_lag is not None:
        beyond = [row for row in report.groups if (row.lag or 0) > max_lag]
        beyond.sort(key=lambda row: -(row.lag or 0))
        complaints += [
            f"{row.group} lags {row.lag} records in {row.topic}-{row.partition}, "
            f"more than {max_lag}"
            for row in beyond[:_COMPLAINTS_SHOWN]
        ]
        if len(beyond) > _COMPLAINTS_SHOWN:
            complaints.append(f"and {len(beyond) - _COMPLAINTS_SHOWN} more rows")
    if complaints:
        trouble = Trouble.UNKNOWN_TOPIC if look.unknown_topics else None
        raise CommandError("; ".join(complaints), ExitCode.ITEM_FAILED, trouble)
