"""`kbroker doctor`: says why clients cannot use a cluster, or why they will not for long."""

from __future__ import annotations

import sys
import time

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode, bootstrap_option, link_errors
from kbroker.cli.doctor.diagnosis import diagnose
from kbroker.cli.doctor.examination import examine
from kbroker.cli.doctor.finding import Severity
from kbroker.cli.doctor.report import counts_of, print_findings, summary_of
from kbroker.cli.shown.output import output_option, say
from kbroker.cli.shown.terminal_line import TerminalLine


@click.command()
@click.option(
    "--write",
    "writes",
    is_flag=True,
    help="Write a record through every broker, read it back, and join a group: in a topic and a "
    "group of their own, kbroker-doctor-..., which are deleted afterwards.",
)
@output_option
@bootstrap_option
def doctor(bootstrap: str, output: str, writes: bool) -> None:
    """Say why clients cannot use a cluster of any Kafka broker, as seen from this machine.

    Looks at the name and the port, what listens there (TLS, a login, a web server), every address
    that clients are given, controller, leaders, replicas in sync, data directories, clocks, and
    settings that surprise people. Each finding says what was seen, what it means, and what mends
    it. If groups are in use already, a group of its own is joined for a moment.

    Exit code 0 when there is no error, 1 when there is one, 3 when no broker lets us in; warnings
    and notes do not count.
    """
    line = TerminalLine(sys.stderr, time.monotonic(), plain_interval_s=None)

    def begin(step: str) -> None:
        if sys.stderr.isatty():
            line.show(f"looking at {step}", time.monotonic())

    try:
        with link_errors(bootstrap):
            examined = examine(bootstrap, writes=writes, begin=begin, tell=say)
    finally:
        line.end()
    findings = diagnose(examined.seen)
    print_findings(findings, output)
    summary = summary_of(examined.seen)
    if summary:
        say(f"{summary}: {counts_of(findings) or 'nothing found'}")
    if examined.untried is not None:
        say(f"not tried: {examined.untried}")
    errors = [each for each in findings if each.severity is Severity.ERROR]
    if examined.seen.cluster is None:
        raise CommandError(f"cannot connect to {bootstrap}", ExitCode.CANNOT_CONNECT)
    if errors:
        codes = ", ".join(dict.fromkeys(each.code for each in errors))
        raise CommandError(f"clients cannot use {bootstrap} as they should: {codes}")
