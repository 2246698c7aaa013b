"""`kbroker pipeline restore`: an archive written back, into the topics of a cluster or as a data
directory.

    kbroker pipeline restore --archive DIR --bootstrap HOST:PORT --checkpoint DIR
    kbroker pipeline restore --archive DIR --data DIR --checkpoint DIR

Archives of up to 1 GiB are written back in this process, without Java: Spark would take longer to
start. More, or a `--master` that was given, goes over Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kbroker.cli.arguments.bootstrap_reading import wished_bootstrap
from kbroker.cli.arguments.connection import link_errors, security_options
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.parameters import date_ms, directory, names, numbers, pair, size
from kbroker.cli.pipeline.session_options import SessionOptions, session_options
from kbroker.cli.pipeline.written_options import written_options
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.record.compression import CODEC_IDS

if TYPE_CHECKING:
    from kbroker.client.bootstrap import Bootstrap
    from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
    from kbroker.pipeline.restoring.restore_plan import PartitionPlan, RestoreWish

IN_PROCESS_BYTES = 1024 * 1024 * 1024
_OF_CLUSTERS = {
    "appends": "--append",
    "no_groups": "--no-groups",
    "replication_factor": "--replication-factor",
}
_PLAN_COLUMNS = ("topic", "partition", "target", "files", "rows", "size_bytes")


@click.command("restore")
@click.option("--archive", required=True, type=directory, metavar="DIR", help="The archive.")
@click.option(
    "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
    help="The cluster to write to (or KBROKER_BOOTSTRAP).",
)  # fmt: skip
@click.option(
    "--data", type=directory, metavar="DIR",
    help="The data directory to make instead, new or empty: records keep their offsets.",
)  # fmt: skip
@click.option(
    "--checkpoint", required=True, type=DirectoryArgument(), metavar="DIR",
    help="Where the job notes what it does, with the offset maps: a directory of its own.",
)  # fmt: skip
@click.option("--topics", type=names, default="", metavar="A,B", help="Only these topics.")
@click.option(
    "--partitions", type=numbers, default="", metavar="0,1",
    help="Only partitions of these numbers.",
)  # fmt: skip
@click.option(
    "--from", "start_ms", type=date_ms, metavar="DATE", help="Only records of this time or later."
)
@click.option(
    "--to", "end_ms", type=date_ms, metavar="DATE",
    help="Only records before this time: the topics as they were then.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="TEXT",
    help="Only records with this key; may be repeated.",
)  # fmt: skip
@click.option(
    "--rename", "renamed", type=pair, multiple=True, metavar="TOPIC=NAME",
    help="Write a topic under another name; may be repeated.",
)  # fmt: skip
@click.option(
    "--append", "appends", is_flag=True, help="Write behind the records that a topic has."
)
@click.option(
    "--no-groups", is_flag=True, help="Leave the offsets of groups as they are in the cluster."
)
@click.option(
    "--setting", "settings", type=pair, multiple=True, metavar="KEY=VALUE",
    help="A setting for new topics, which wins over that in the archive; may be repeated.",
)  # fmt: skip
@written_options
@click.option(
    "--max-rate", type=size, metavar="SIZE", help="Write at most so much a second, such as 10MB."
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and stop.")
@security_options
@output_option
@config_option
@session_options
@click.pass_context
def restore(ctx: click.Context, /, session: SessionOptions, **given: Any) -> int:
    """Write an archive back into the topics of a cluster, every record once, or as a directory.

    Keys, values, headers, times and partitions stay. With --data so do offsets, and a broker
    starts over the directory. In a cluster they do not: CHECKPOINT/offsets has a map for each
    partition. A run that was killed goes on where it was.
    """
    from kbroker.pipeline.archiving.manifests.archive_reading import read_archive  # Arrow: 0.3 s
    from kbroker.pipeline.archiving.reader import ArchiveSelection
    from kbroker.pipeline.restoring.restore_plan import RestoreWish, plan_restore

    bootstrap = wished_bootstrap(ctx, has_other_source=given["data"] is not None)
    _check_target(ctx, bootstrap, given["data"])
    _check_times(given["start_ms"], given["end_ms"])
    chosen = {name: given[name] for name in ("topics", "partitions", "start_ms", "end_ms")}
    wish = RestoreWish(
        wanted=ArchiveSelection(**chosen),
        keys=frozenset(os.fsencode(key) for key in given["keys"]),
        renamed=_renamed(given["renamed"]),
    )
    state = read_archive(os.path.abspath(given["archive"]))
    plans = plan_restore(state, wish)
    is_named = ctx.get_parameter_source("master") not in (ParameterSource.DEFAULT, None)
    over_spark = is_named or sum(plan.size_bytes for plan in plans) > IN_PROCESS_BYTES
    if given["dry_run"]:
        _print_plan(plans, session.master if over_spark else None, given["output"])
        return 0
    call = _Call(state, plans, wish, session if over_spark else None, given)
    return call.into_topics(bootstrap) if bootstrap else call.into_directory()


@dataclass(frozen=True, slots=True)
class _Call:
    """What is to be written, and what else was given."""

    state: ArchiveState
    plans: Sequence[PartitionPlan]
    wish: RestoreWish
    session: SessionOptions | None
    given: Mapping[str, Any]

    def into_topics(self, bootstrap: Bootstrap) -> int:
        from kbroker.cli.pipeline.restore_topics import TopicsRun
        from kbroker.pipeline.restoring.topics.topic_restore import TopicTargets

        given = self.given
        targets = TopicTargets(
            bootstrap=bootstrap,
            appends=given["appends"],
            settings=dict(given["settings"]),
            moves_groups=not given["no_groups"],
            replication_factor=given["replication_factor"],
            compression=CODEC_IDS[given["compression"]],
            bytes_per_s=float(given["max_rate"] or 0),
        )
        with link_errors(bootstrap):
            run = TopicsRun(self.state, self.plans, self.wish, targets)
            return run.run(given["checkpoint"], self.session, given["output"])

    def into_directory(self) -> int:
        from kbroker.cli.pipeline.restore_directory import DirectoryRun
        from kbroker.pipeline.restoring.logs.log_restore import LogWish

        given = self.given
        how = LogWish(
            compression=CODEC_IDS[given["compression"]], bytes_per_s=float(given["max_rate"] or 0)
        )
        run = DirectoryRun(self.state, self.plans, self.wish, dict(given["settings"]), how)
        return run.run(given["data"], given["checkpoint"], self.session, given["output"])


def _check_target(ctx: click.Context, bootstrap: Bootstrap | None, data: str | None) -> None:
    """Raises UsageError if it is not one, or options are for the other."""
    if bootstrap and data is not None:
        raise click.UsageError(
            "give --bootstrap HOST:PORT to write into topics, or --data DIR to make a data "
            "directory, not both"
        )
    if bootstrap:
        return
    if data is None:
        raise click.UsageError(
            "give --bootstrap HOST:PORT: the cluster to write to; or --data DIR: the data "
            "directory to make"
        )
    for name, option in _OF_CLUSTERS.items():
        if ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None):
            raise click.UsageError(
                f"{option} is for topics of a cluster (--bootstrap), and --data makes a directory "
                "of one broker"
            )


def _check_times(start_ms: int | None, end_ms: int | None) -> None:
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        raise click.UsageError("--to is not after --from: no record would be wanted")


def _renamed(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """New names by topic. Raises UsageError if one has two: each record is written once."""
    found: dict[str, str] = {}
    for topic, name in pairs:
        other = found.setdefault(topic, name)
        if other != name:
            raise click.UsageError(
                f"--rename gives {topic} two names, {other} and {name}: a second restore, with a "
                "--checkpoint of its own, writes it a second time"
            )
    return found


def _print_plan(plans: Sequence[PartitionPlan], master: str | None, output: str) -> None:
    rows = [
        {
            "topic": plan.source.topic,
            "partition": plan.source.partition,
            "target": plan.target.topic,
            "files": len(plan.files),
            "rows": plan.rows,
            "size_bytes": plan.size_bytes,
        }
        for plan in plans
    ]
    print_rows(rows, _PLAN_COLUMNS, output)
    where = f"over Spark, master {master}" if master else "in this process"
    total = sum(plan.rows for plan in plans)
    say(f"at most {counted(total, 'row')} of {counted(len(rows), 'partition')}, {where}")
