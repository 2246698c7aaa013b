"""`kbroker cluster protect`: the rights of a cluster's nodes in a ZooKeeper."""

from __future__ import annotations

import asyncio

import click

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.cluster.ensemble import Ensemble, ensemble_options, refusal
from kbroker.cli.shown.output import counted, say
from kbroker.errors import Trouble


@click.command(short_help="Keep the metadata in a ZooKeeper for brokers.")
@ensemble_options
@click.option("--open", "is_open", is_flag=True, help="Give everybody all rights again.")
def protect(connect: str, properties: str | None, *, is_open: bool) -> None:
    """Give the nodes of a cluster the rights that brokers with zookeeper.set.acl=true give to new
    ones: all to those with the login of this command, reading to everybody, but for what nobody
    else may know.

    The login is that of the brokers (--zookeeper-config, KAFKA_OPTS). They may run meanwhile:
    restart each with the login first, then with zookeeper.set.acl=true, and protect what is there
    last. The way back is the other way round.
    """
    ensemble = Ensemble(connect, properties, makes_chroot=False)
    from kbroker.zk.ensemble.node_rights import open_rights, secure_rights
    from kbroker.zk.tree import TreeError, TreeUnavailableError

    async def main() -> int:
        tree = await ensemble.open()
        try:
            return await tree.set_rights(open_rights if is_open else secure_rights)
        finally:
            await tree.close()

    try:
        count = asyncio.run(main())
    except TreeUnavailableError as error:
        raise CommandError(
            f"ZooKeeper went away half way: {error}; repeat it", trouble=Trouble.NO_ZOOKEEPER
        ) from error
    except TreeError as error:
        raise refusal(connect, error) from error
    whose = "everybody" if is_open else "those with this login"
    say(f"{counted(count, 'node')} of {connect}: for {whose}")
