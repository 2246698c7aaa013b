"""A ZooKeeper that a command goes to itself: its options, the way there, and what it refuses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import options
from kbroker.errors import trouble_of

if TYPE_CHECKING:
    from kbroker.zk.ensemble.kazoo_tree import KazooTree
    from kbroker.zk.tree import TreeError

_SESSION_TIMEOUT_MS = 30_000
_CONNECTION_TIMEOUT_MS = 10_000

ensemble_options = options(
    click.option(
        "--zookeeper",
        "connect",
        required=True,
        metavar="HOST:PORT/chroot",
        help="The ensemble, with the path under which the cluster's metadata is.",
    ),
    click.option(
        "--zookeeper-config",
        "properties",
        metavar="FILE",
        help="A broker's server.properties, of which the settings for ZooKeeper count: TLS, login, "
        "zookeeper.set.acl.",
    ),
)


class Ensemble:
    """The ensemble that a command names, and the way into it."""

    def __init__(self, connect: str, properties: str | None, *, makes_chroot: bool) -> None:
        """`properties` is the path of a broker's settings. Raises CommandError."""
        from kbroker.server.start.launch import UsageError
        from kbroker.server.start.zookeeper_settings import zookeeper_access  # kazoo costs 100 ms

        self._connect = connect
        self._makes_chroot = makes_chroot
        try:
            self._access = zookeeper_access(properties, os.environ)
        except UsageError as error:
            raise CommandError(str(error), ExitCode.USAGE, trouble_of(error)) from error

    async def open(self) -> KazooTree:
        """Connect with that access. Raises CommandError."""
        from kbroker.zk.ensemble.kazoo_tree import EnsembleUnreachableError, open_kazoo_tree
        from kbroker.zk.tree import TreeUnavailableError

        connect = self._connect
        try:
            return await open_kazoo_tree(
                connect,
                _SESSION_TIMEOUT_MS,
                _CONNECTION_TIMEOUT_MS,
                access=self._access,
                makes_chroot=self._makes_chroot,
            )
        except EnsembleUnreachableError as error:
            *_, why = f"no answer: {error.complaint}".rstrip(": ").rsplit(": ", 1)
            raise CommandError(
                f"cannot connect to the ZooKeeper at {connect}: {why} (is it running? check "
                "--zookeeper)",
                ExitCode.CANNOT_CONNECT,
                trouble_of(error),
            ) from error
        except TreeUnavailableError as error:
            raise CommandError(str(error), ExitCode.CANNOT_CONNECT, trouble_of(error)) from error
        except ValueError as error:
            raise CommandError(f"--zookeeper {error}", ExitCode.USAGE) from error


def refusal(connect: str, error: TreeError) -> Exception:
    """The sentence about what an ensemble refused; any other error as it is."""
    from kbroker.zk.ensemble.kazoo_requests import RefusedByEnsembleError
    from kbroker.zk.ensemble.kazoo_tree import login_error

    if not isinstance(error, RefusedByEnsembleError):
        return error
    return CommandError(str(login_error(connect, error)), ExitCode.ITEM_FAILED)
