"""The `kbroker` command. Subcommands are imported when they are called, so that `--help` stays
quick.

`kbroker` without arguments is `kbroker start`: a development broker with its data in a temporary
directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode, is_of_full_disk
from kbroker.cli.arguments.denied import sentences_about_denials
from kbroker.cli.lazy_commands import LazyCommand, LazyGroup
from kbroker.cli.shown.output import say
from kbroker.start_collections import collect_as_usual

_STDERR = 2  # the last of the standard streams
_COMMANDS = {
    "start": LazyCommand("kbroker.cli.broker.start", "start", "Start a broker."),
    "topic": LazyCommand(
        "kbroker.cli.topic.commands",
        "topic",
        "List, create, describe, alter, copy, trim and delete.",
    ),
    "produce": LazyCommand(
        "kbroker.cli.records.produce", "produce", "Write lines from standard input to a topic."
    ),
    "consume": LazyCommand(
        "kbroker.cli.records.consume", "consume", "Print the records of a topic."
    ),
    "group": LazyCommand(
        "kbroker.cli.group.commands", "group", "List, describe, reset and delete consumer groups."
    ),
    "txn": LazyCommand(
        "kbroker.cli.txn.commands", "txn", "Show transactions, find and abort hanging ones."
    ),
    "config": LazyCommand(
        "kbroker.cli.config.commands",
        "config",
        "Show, change and check settings of brokers, topics, groups.",
    ),
    "user": LazyCommand(
        "kbroker.cli.user.commands", "user", "List, add and delete users, change passwords."
    ),
    "acl": LazyCommand(
        "kbroker.cli.acl.commands", "acl", "Allow, deny, take back, and check what is allowed."
    ),
    "quota": LazyCommand(
        "kbroker.cli.quota.commands", "quota", "List, set and unset quotas of clients."
    ),
    "token": LazyCommand(
        "kbroker.cli.token.commands", "token", "Make, list, renew and expire delegation tokens."
    ),
    "cluster": LazyCommand(
        "kbroker.cli.cluster.commands", "cluster", "Show brokers, elect leaders, move partitions."
    ),
    "cert": LazyCommand(
        "kbroker.cli.cert.commands", "cert", "Make certificates for TLS, and say what is in one."
    ),
    "log": LazyCommand(
        "kbroker.cli.log.commands", "log", "Look into data directories: dump, verify, stats."
    ),
    "pipeline": LazyCommand(
        "kbroker.cli.pipeline.commands",
        "pipeline",
        "Archive, restore, mirror, watch and audit topics; show lag.",
    ),
    "wait": LazyCommand("kbroker.cli.broker.status", "wait", "Wait until a broker answers."),
    "health": LazyCommand(
        "kbroker.cli.broker.status", "health", "Say whether a broker is healthy."
    ),
    "doctor": LazyCommand(
        "kbroker.cli.doctor.command", "doctor", "Say why clients cannot use a cluster."
    ),
    "console": LazyCommand(
        "kbroker.cli.broker.console", "console", "Serve a console for the browser."
    ),
    "top": LazyCommand(
        "kbroker.cli.top.command", "top", "Show what a cluster does now, on a screen or once."
    ),
    "trace": LazyCommand(
        "kbroker.cli.broker.trace", "trace", "Follow the requests that a broker answers."
    ),
    "metrics": LazyCommand(
        "kbroker.cli.metrics.commands", "metrics", "Print a board and alerts for Prometheus."
    ),
    "help": LazyCommand(
        "kbroker.cli.help", "help_command", "Say what an error means and what to do."
    ),
    "kafka-tool": LazyCommand(
        "kbroker.cli.kafka_tools.command", "kafka_tool", "Do what a tool of Apache Kafka does."
    ),
    "completion": LazyCommand(
        "kbroker.cli.arguments.completion", "completion", "Print the completion script of a shell."
    ),
    "version": LazyCommand("kbroker.cli.broker.status", "version", "Print the version."),
}


class _CommandLine(LazyGroup):
    """Handles a reader that has gone, for which click would only give exit code 1."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand, imported now. All but a broker, which goes on to import, collect
        garbage as usual from there on: some run for long.
        """
        command = super().get_command(ctx, cmd_name)
        if cmd_name != "start":
            collect_as_usual()
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Make the context; this may print a help text."""
        with _quiet_ends():
            _open_standard_streams()
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, and end quietly if its reader has gone. Rights that it lacked are
        said after its error.
        """
        with _quiet_ends():
            try:
                return super().invoke(ctx)
            except CommandError as error:
                if not sentences_about_denials(ctx):
                    raise
                error.show()
                raise click.exceptions.Exit(error.code) from error
            finally:
                for sentence in sentences_about_denials(ctx):
                    say(sentence)


@contextmanager
def _quiet_ends() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # The reader of our output has gone (`| head`).
        _drop_output()
        raise click.exceptions.Exit(ExitCode.FINE) from error
    except OSError as error:
        if not is_of_full_disk(error):
            raise
        _drop_output()
        raise CommandError(f"the output cannot be written: {error.strerror}") from error
    except KeyboardInterrupt as error:
        if sys.stderr.isatty():
            click.echo(err=True)  # ends the line in which the terminal shows ^C
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from error


def _open_standard_streams() -> None:
    """Let a stream that the caller has closed (`>&-`) lead nowhere.

    Otherwise the next file or socket would get its number, and output would go there; libuv aborts
    when it closes one of these numbers.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  stays open
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _drop_output() -> None:
    """Let output that the interpreter flushes at its end go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=_CommandLine,
    commands_by_name=_COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="kbroker", prog_name="kbroker", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A Kafka broker in Python.

    Without a command: a development broker on 127.0.0.1:9092. It removes its data when it stops.
    """
    if ctx.invoked_subcommand is None:
        from kbroker.cli.broker.start import start

        if sys.stderr.isatty():
            click.echo("Ctrl-C stops this broker; `kbroker --help` lists the commands", err=True)
        ctx.invoke(start)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code of the contract."""
    try:
        code = cli.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="kbroker",
            standalone_mode=False,
        )
    except (click.exceptions.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except click.UsageError as error:
        from kbroker.cli.usage_errors import show_usage_error

        show_usage_error(error)
        return ExitCode.USAGE
    except CommandError as error:
        error.show()
        return error.code
    return code if isinstance(code, int) else 0
