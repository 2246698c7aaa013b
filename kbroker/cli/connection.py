"""How commands reach a broker: the `--bootstrap` option, and client errors as sentences with the
contract's exit codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kbroker.client import connection
from kbroker.client.connection import sentence_of
from kbroker.client.exit_code import ExitCode
from kbroker.errors import KafkaError, Trouble

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from kbroker.client.cluster_links import ClusterLinks

__all__ = [
    "CommandError",
    "ExitCode",
    "admin_client",
    "bootstrap_option",
    "client_errors",
    "cluster_links",
    "link_errors",
    "sentence_of",
]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class CommandError(click.ClickException):
    """One sentence on standard error; `code` is the exit code of the contract, `trouble` where more
    is said.
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
        """The sentence, and a line with the place that says more where there is one."""
        return self.message if self.trouble is None else f"{self.message}\n{self.trouble.advice}"


def bootstrap_option(command: CommandT) -> CommandT:
    """The `--bootstrap` option of a command that talks to a broker."""
    return click.option(
        "--bootstrap",
        envvar="KBROKER_BOOTSTRAP",
        default="127.0.0.1:9092",
        show_default=True,
        metavar="HOST:PORT",
        help="Address of a broker (or KBROKER_BOOTSTRAP).",
    )(command)


@contextmanager
def admin_client(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """An admin client that is closed afterwards; client errors become sentences."""
    with _command_errors(), connection.admin_client(bootstrap) as client:
        yield client


@contextmanager
def client_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client library's exceptions into one sentence and an exit code."""
    with _command_errors(), connection.client_errors(bootstrap):
        yield


@contextmanager
def cluster_links(bootstrap: str) -> Iterator[ClusterLinks]:
    """The brokers of a cluster, whose links are closed afterwards; errors become sentences."""
    from kbroker.client.cluster_links import ClusterLinks

    with link_errors(bootstrap), closing(ClusterLinks(bootstrap)) as links:
        yield links


@contextmanager
def link_errors(bootstrap: str) -> Iterator[None]:
    """Turn what ends the project's own client into one sentence and an exit code."""
    with _command_errors():
        try:
            yield
        except BrokenPipeError:
            raise  # of standard output
        except OSError as error:
            reason = f"a broker of {bootstrap} cannot be reached: {error}"
            raise connection.ClientError(
                reason, ExitCode.CANNOT_CONNECT, Trouble.ADVERTISED_ADDRESS
            ) from error
        except KafkaError as error:
            raise connection.ClientError(str(error)) from error


@contextmanager
def _command_errors() -> Iterator[None]:
    try:
        yield
    except connection.ClientError as error:
        raise CommandError(error.sentence, error.code, error.trouble) from error
