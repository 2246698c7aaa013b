"""Connections of commands to a cluster: `--bootstrap`, the options for TLS and logins, and client
errors as sentences with the contract's exit codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from kbroker.cli.shown.output import CommandT, options, plain, say
from kbroker.client.client_error import CONTROLLER_MOVED, ClientError, is_of_full_disk
from kbroker.client.client_error import link_errors as link_errors_of
from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble

if TYPE_CHECKING:
    from kbroker.client.cluster_links import ClusterLinks

__all__ = [
    "CONTROLLER_MOVED",
    "CommandError",
    "CommandT",
    "ExitCode",
    "bootstrap_option",
    "client_errors",
    "cluster_links",
    "is_of_full_disk",
    "link_errors",
    "open_links",
    "security_options",
    "tell_silent",
]

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class CommandError(click.ClickException):
    """An error printed as one sentence; `code` is the exit code of the contract, `trouble` points
    to more about it.
    """

    def __init__(
        self,
        message: str,
        code: ExitCode = ExitCode.ITEM_FAILED,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.trouble = trouble

    def format_message(self) -> str:
        """Return the sentence, with control characters as escapes, and a line that points to more
        about it, if there is more.
        """
        said = plain(self.message)
        return said if self.trouble is None else f"{said}\n{self.trouble.advice}"


def bootstrap_option(command: CommandT) -> CommandT:
    """Give a command the options for a cluster; it gets them as one `Bootstrap`, `bootstrap`."""

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> Any:
        from kbroker.cli.arguments.bootstrap_reading import bootstrap_of  # not for `--help`

        kwargs["bootstrap"] = bootstrap_of(click.get_current_context())
        return command(*args, **kwargs)

    option = click.option(
        "--bootstrap",
        envvar="KBROKER_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="Address of a broker (or KBROKER_BOOTSTRAP).",
    )
    return cast("CommandT", option(security_options(call)))


def security_options(command: CommandT) -> CommandT:
    """Give a command the options for TLS and logins. `bootstrap_of` reads them from the context;
    the command does not get them.
    """

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> Any:
        del kwargs["command_config"], kwargs["command_property"]
        return command(*args, **kwargs)

    return cast("CommandT", options(*_SECURITY_OPTIONS)(call))


@contextmanager
def client_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client library's exceptions into one sentence and an exit code."""
    from kbroker.cli.arguments.denied import note_denials
    from kbroker.client import library_consumer
    from kbroker.client.denials import denial_to_a_member

    with _command_errors():
        try:
            with library_consumer.client_errors(bootstrap):
                yield
        except ClientError as error:
            denial = denial_to_a_member(error.__cause__)
            note_denials(bootstrap, [] if denial is None else [denial])
            raise


@contextmanager
def cluster_links(bootstrap: str) -> Iterator[ClusterLinks]:
    """Yield the brokers of a cluster, and close their links; errors become sentences."""
    with link_errors(bootstrap), open_links(bootstrap, say) as links:
        yield links


@contextmanager
def open_links(
    bootstrap: str, tell: Callable[[str], None] = lambda _: None
) -> Iterator[ClusterLinks]:
    """Yield the brokers of a cluster, and close their links. Rights that are missing are noted, to
    be said when the command ends. Raises as `ClusterLinks`.
    """
    from kbroker.cli.arguments.denied import note_denials
    from kbroker.client.cluster_links import ClusterLinks

    with closing(ClusterLinks(bootstrap, tell=tell)) as links:
        try:
            yield links
        finally:
            note_denials(bootstrap, links.denials)


def tell_silent(links: ClusterLinks) -> None:
    """Say which brokers gave no figures, if any."""
    for node_id, error in sorted(links.silent.items()):
        click.echo(f"broker {node_id} gave no figures: {error}", err=True)
    if links.silent:
        click.echo(Trouble.ADVERTISED_ADDRESS.advice, err=True)


@contextmanager
def link_errors(bootstrap: str) -> Iterator[None]:
    """Turn errors of the project's own client into one sentence and an exit code."""
    with _command_errors(), link_errors_of(bootstrap):
        yield


@contextmanager
def _command_errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise CommandError(error.sentence, error.code, error.trouble) from error


def _named(text: str) -> tuple[str, str]:
    """Split `NAME=VALUE`. The value may be a secret, so no error shows it."""
    name, sign, value = str(text).partition("=")
    if not sign or not name.strip():
        raise click.BadParameter(
            f"'{name.strip().partition(' ')[0]}' has no value: give NAME=VALUE"
        )
    return name.strip(), value


_SECURITY_OPTIONS = (
    click.option(
        "--command-config",
        envvar="KBROKER_COMMAND_CONFIG",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Properties file of a Kafka client, for clusters with TLS or a login (or "
        "KBROKER_COMMAND_CONFIG).",
    ),
    click.option(
        "--command-property",
        "-X",
        type=_named,
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of a Kafka client, such as sasl.mechanism=PLAIN; wins over the "
        "file. Others can see a password here (`ps`): put it in the file. May be repeated.",
    ),
)
