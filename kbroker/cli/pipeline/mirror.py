"""`kbroker pipeline mirror`: topics of one cluster kept as copies in another.

    kbroker pipeline mirror --from HOST:PORT --bootstrap HOST:PORT --topics A,B --checkpoint DIR

It runs in this process, or over Spark where a `--master` is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbroker.cli.arguments.bootstrap_reading import other_bootstrap, wished_bootstrap
from kbroker.cli.arguments.connection import link_errors, security_options
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.parameters import names, pair
from kbroker.cli.pipeline.session_options import SessionOptions, session_options
from kbroker.cli.pipeline.source_options import check_choice
from kbroker.cli.pipeline.stream_options import every_s
from kbroker.cli.pipeline.written_options import written_options
from kbroker.cli.shown.output import output_option
from kbroker.record.compression import CODEC_IDS


@click.command("mirror")
@click.option("--from", "source", metavar="HOST:PORT", help="The cluster to copy from.")
@click.option(
    "--from-command-config", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Properties file for the cluster to copy from, where it has TLS or a login.",
)  # fmt: skip
@click.option(
    "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
    help="The cluster to copy to (or KBROKER_BOOTSTRAP).",
)  # fmt: skip
@click.option("--topics", type=names, default="", metavar="A,B", help="These topics.")
@click.option("--pattern", metavar="REGEX", help="Topics whose whole name matches, also new ones.")
@click.option(
    "--checkpoint", required=True, type=DirectoryArgument(), metavar="DIR",
    help="Where the job notes whose it is: a directory of its own.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Copy what is there now, and stop.")
@click.option("--every", type=duration, metavar="DURATION", help="Go on, a round every 5s or so.")
@click.option(
    "--append", "appends", is_flag=True, help="Write behind the records that a topic has."
)
@click.option(
    "--allow-loss", "allows_loss", is_flag=True,
    help="Go on where the source has lost records, or has some that cannot be read, or a topic was "
    "created again.",
)  # fmt: skip
@click.option(
    "--setting", "settings", type=pair, multiple=True, metavar="KEY=VALUE",
    help="A setting for the copies, which wins over that of the source; may be repeated.",
)  # fmt: skip
@written_options
@click.option(
    "--metrics", type=click.Path(dir_okay=False), metavar="FILE",
    help="Append a line of JSON per round.",
)  # fmt: skip
@security_options
@output_option
@config_option
@session_options
@click.pass_context
def mirror(ctx: click.Context, /, session: SessionOptions, **given: Any) -> int:
    """Keep topics of one cluster as copies in another, every record once.

    Partitions, keys, values, headers, times and settings are those of the source, offsets are not:
    groups are moved, by a map that is a topic of the target.
    """
    from kbroker.cli.pipeline.mirror_run import MirrorRun  # the extra, and what it takes to load
    from kbroker.pipeline.mirroring.mirrored_topics import MirrorWish

    check_choice(given["topics"], given["pattern"])
    seconds = every_s(ctx)
    source = other_bootstrap(given["source"], given["from_command_config"], "--from")
    if not source:
        raise click.UsageError("give --from HOST:PORT: the cluster to copy from")
    target = wished_bootstrap(ctx, has_other_source=False)
    if not target:
        raise click.UsageError("give --bootstrap HOST:PORT: the cluster to copy to")
    wish = MirrorWish(
        topics=given["topics"],
        pattern=given["pattern"] or "",
        settings=dict(given["settings"]),
        appends=given["appends"],
        allows_loss=given["allows_loss"],
        compression=CODEC_IDS[given["compression"]],
    )
    is_named = ctx.get_parameter_source("master") not in (ParameterSource.DEFAULT, None)
    with link_errors(f"{source} or {target}"):
        run = MirrorRun(source, target, wish, given["replication_factor"], seconds)
        return run.run(
            given["checkpoint"],
            session if is_named else None,
            Path(given["metrics"]) if given["metrics"] else None,
            given["output"],
        )
