"""The users that a command works with: those of a running cluster, or of the tree in a data
directory whose broker does not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from kbroker.cli.arguments.connection import (
    CommandError,
    CommandT,
    bootstrap_option,
    cluster_links,
)
from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.shown.output import options
from kbroker.errors import KafkaError, trouble_of
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from kbroker.client.cluster_links import ClusterLinks
    from kbroker.client.scram_users import Users
    from kbroker.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )


class UserStore(NamedTuple):
    """The ways to users: all of them with their mechanisms; those of SCRAM that a broker offers;
    changes, with what became of each; how many rules are for a user, None if nobody knows, or if
    there is no authorizer.
    """

    described: Callable[[], Users]
    offered: Callable[[], tuple[str, ...]]
    alter: Callable[[AlterUserScramCredentialsRequest], dict[str, KafkaError | None]]
    rules_for: Callable[[str], int | None]


def store_options(command: CommandT) -> CommandT:
    """Give a command the options that say whose users are meant: `bootstrap` and `directory`."""
    data = click.option(
        "--data",
        "directory",
        type=DirectoryArgument(),
        metavar="DIR",
        help="Data directory of a broker that does not run, or has never run, in place of "
        "--bootstrap.",
    )
    return options(data, bootstrap_option)(command)


@contextmanager
def user_store(bootstrap: str, directory: str | None) -> Iterator[UserStore]:
    """Yield the users of the cluster, or of the directory if there is one; errors become
    sentences.
    """
    if directory is not None:
        if _is_given("bootstrap"):
            raise click.UsageError("--data and --bootstrap exclude each other")
        with _directory_errors():
            yield _of_directory(directory)
        return
    from kbroker.client.scram_users import altered_users, described_users

    with cluster_links(bootstrap) as links:
        yield UserStore(
            partial(described_users, links),
            partial(_offered, links),
            partial(altered_users, links),
            partial(_rules_for, links),
        )


def _offered(links: ClusterLinks) -> tuple[str, ...]:
    """The mechanisms that are offered; all of them if the broker does not say."""
    from kbroker.client.scram_users import offered_mechanisms

    try:
        return offered_mechanisms(links)
    except (KafkaError, OSError):
        return tuple(SCRAM_MECHANISMS)


def _rules_for(links: ClusterLinks, user: str) -> int | None:
    from kbroker.acl.acl_filter import EVERYTHING
    from kbroker.acl.rule_words import USER
    from kbroker.client.access_rules import described_rules
    from kbroker.client.client_error import ClientError

    try:
        of_user = EVERYTHING._replace(principal=USER + user)
        return len(described_rules(links, [of_user]))
    except (ClientError, KafkaError, OSError):
        return None


def _of_directory(directory: str) -> UserStore:
    from kbroker.log.disk.file_system import RealFileSystem
    from kbroker.server.metadata_tree.tree_users import alter_users_in, users_in

    disk = RealFileSystem()
    return UserStore(
        lambda: asyncio.run(users_in(disk, directory)),
        lambda: tuple(SCRAM_MECHANISMS),  # its broker's settings are not known here
        lambda request: asyncio.run(alter_users_in(disk, directory, request)),
        lambda _user: None,
    )


@contextmanager
def _directory_errors() -> Iterator[None]:
    from kbroker.server.start_error import StartError
    from kbroker.zk.embedded.tree_journal import CorruptTreeError
    from kbroker.zk.tree import TreeUnavailableError

    try:
        yield
    except (StartError, CorruptTreeError, TreeUnavailableError) as error:
        raise CommandError(str(error), trouble=trouble_of(error)) from error


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE
