"""`kbroker cluster export` and `kbroker cluster import`: copy the metadata tree of a stopped broker
into a ZooKeeper ensemble, and back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.cluster.ensemble import Ensemble, ensemble_options, refusal
from kbroker.cli.shown.output import counted, options, say
from kbroker.cli.shown.progress import CountedProgress
from kbroker.errors import Trouble, trouble_of

if TYPE_CHECKING:
    from kbroker.server.metadata_tree.tree_move import Move, MoveOptions, TreeHome
    from kbroker.zk.tree import Tree

_copy_options = options(
    click.option(
        "--data",
        "directory",
        required=True,
        type=DirectoryArgument(),
        metavar="DIR",
        help="Data directory of a stopped broker, or of several (as --brokers left it).",
    ),
    ensemble_options,
    click.option(
        "--replace",
        is_flag=True,
        help="Overwrite another state of the same cluster's metadata in the target.",
    ),
    click.option("--dry-run", is_flag=True, help="Only say what would be copied."),
)


@click.command("export", short_help="Copy the metadata of a directory into ZooKeeper.")
@_copy_options
def export_tree(
    directory: str, connect: str, properties: str | None, *, replace: bool, dry_run: bool
) -> None:
    """Copy topics, settings and all other metadata from a directory into an ensemble.

    Records stay where they are. Afterwards the broker starts with --zookeeper, and no longer
    without. If the copy breaks off, run the command again.
    """

    async def copy(home: TreeHome, tree: Tree, options: MoveOptions) -> Move:
        return await home.export_to(tree, connect, options)

    # It logs what a broker does about a damaged journal; an export refuses such a journal.
    logging.getLogger("kbroker.zk.embedded").addHandler(logging.NullHandler())
    ends = f"source: {directory}, target: ZooKeeper at {connect}"
    ensemble = Ensemble(connect, properties, makes_chroot=not dry_run)
    with _sentences(ends, connect):
        move = _run(directory, ensemble, copy, replace=replace, dry_run=dry_run)
    _report(move, connect, dry_run=dry_run)
    if not dry_run:
        brokers = f"--brokers {move.brokers_below} " if move.brokers_below else ""
        say(f"start with: kbroker start {brokers}--data {directory} --zookeeper {connect}")


@click.command("import", short_help="Copy the metadata in ZooKeeper into a directory.")
@_copy_options
def import_tree(
    directory: str, connect: str, properties: str | None, *, replace: bool, dry_run: bool
) -> None:
    """Copy topics, settings and all other metadata from an ensemble into a data directory.

    Records stay where they are. Afterwards the broker starts without --zookeeper, and no longer
    with it; the ensemble keeps its copy. If the copy breaks off, run the command again.
    """

    async def copy(home: TreeHome, tree: Tree, options: MoveOptions) -> Move:
        return await home.import_from(tree, connect, options)

    # The source is never written, not even at a mistyped path.
    ends = f"source: ZooKeeper at {connect}, target: {directory}"
    ensemble = Ensemble(connect, properties, makes_chroot=False)
    with _sentences(ends, connect):
        move = _run(directory, ensemble, copy, replace=replace, dry_run=dry_run)
    _report(move, directory, dry_run=dry_run)
    if move.partitions_elsewhere:
        say(
            f"warning: {counted(move.partitions_elsewhere, 'partition')} have no replica in "
            f"{directory} and will have no leader"
        )


def _run(
    directory: str,
    ensemble: Ensemble,
    copy: Callable[[TreeHome, Tree, MoveOptions], Awaitable[Move]],
    *,
    replace: bool,
    dry_run: bool,
) -> Move:
    from kbroker.log.disk.file_system import RealFileSystem
    from kbroker.server.metadata_tree.tree_move import MoveOptions, locked_home

    progress = CountedProgress("copying the tree")
    how = MoveOptions(replace=replace, dry_run=dry_run, progress=progress.show)

    async def main() -> Move:
        with locked_home(RealFileSystem(), directory) as home:
            tree = await ensemble.open()
            try:
                return await copy(home, tree, how)
            finally:
                await tree.close()

    try:
        return asyncio.run(main())
    finally:
        progress.end()


@contextmanager
def _sentences(ends: str, connect: str) -> Iterator[None]:
    """Turn errors into one sentence each; `ends` names the source and the target."""
    from kbroker.server.start_error import StartError
    from kbroker.zk.embedded.tree_journal import CorruptTreeError
    from kbroker.zk.tree import TreeError, TreeUnavailableError
    from kbroker.zk.tree_copy import CopyRefusedError

    try:
        yield
    except CopyRefusedError as error:
        raise CommandError(f"{error} ({ends})", ExitCode.ITEM_FAILED) from error
    except (StartError, CorruptTreeError) as error:
        raise CommandError(str(error), ExitCode.ITEM_FAILED, trouble_of(error)) from error
    except TreeUnavailableError as error:
        raise CommandError(
            f"the copy broke off: {error}; repeat it", trouble=Trouble.COPY_BROKE_OFF
        ) from error
    except TreeError as error:
        raise refusal(connect, error) from error


def _report(move: Move, target: str, *, dry_run: bool) -> None:
    plan, image = move.plan, move.image
    say(
        f"cluster {plan.cluster_id}: {counted(len(image.topics), 'topic')}, "
        f"{counted(image.partition_count, 'partition')}, {counted(len(image.nodes), 'node')}"
    )
    if image.users_with_credentials:
        say(
            f"with the SCRAM credentials of {counted(image.users_with_credentials, 'user')}: "
            "whoever reads them can try passwords"
        )
    were = "was" if plan.created == 1 else "were"
    verb = "would be" if dry_run else were
    say(
        f"{counted(plan.created, 'node')} {verb} created, {plan.changed} changed, "
        f"{plan.deleted} deleted in {target}"
    )
