"""`kbroker log verify`: checks whole data directories, or partitions, without a broker."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.arguments.directory_argument import PlaceArgument
from kbroker.cli.arguments.log_paths import log_directory, storage_errors
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.cli.shown.progress import Progress
from kbroker.client.wall_clock import unix_now_ms
from kbroker.inspection.data_directory import DataDirectory, partition_directory
from kbroker.inspection.directory_check import (
    check_data_directory,
    check_partition,
    check_together,
)
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_paths import LogPath
from kbroker.inspection.log_walk import CheckOptions, CheckTotals
from kbroker.log.disk.file_system import RealFileSystem

_COLUMNS = ("severity", "code", "path", "position", "offset", "what", "advice")
_WRITE_PAUSE_S = 0.05


@click.command(short_help="Check directories, and print what is wrong.")
@click.argument("directories", nargs=-1, required=True, type=PlaceArgument(), metavar="DIR...")
@click.option("--deep", is_flag=True, help="Unpack every batch and walk its records.")
@click.option("--strict", is_flag=True, help="Warnings end with exit code 1 too.")
@click.option("--quiet", is_flag=True, help="Show errors and warnings, no notes.")
@output_option
def verify(directories: Sequence[str], deep: bool, strict: bool, quiet: bool, output: str) -> None:
    """Check data directories or partition directories, and print what is wrong with them.

    Nothing is written and nothing locked: a broker may be running. Exit code 0: nothing is wrong;
    1: data is at risk (severity error).
    """
    file_system = RealFileSystem()
    paths = [log_directory(file_system, directory) for directory in directories]
    findings = Findings()
    totals = CheckTotals()
    progress = Progress("verifying")
    options = CheckOptions(
        is_deep=deep,
        now_ms=unix_now_ms(),
        pause=lambda: time.sleep(_WRITE_PAUSE_S),
        progress=progress.add,
    )
    check_together([path for path in paths if isinstance(path, DataDirectory)], findings)
    with storage_errors():
        for path in paths:
            totals.add(_check(file_system, path, options, findings, progress))
    progress.end()
    least = Severity.WARNING if quiet else Severity.INFO
    shown = [finding for finding in findings.all() if finding.severity >= least]
    shown.sort(key=lambda finding: -finding.severity)
    if output == "table":
        for finding in shown:
            click.echo(_sentence(finding))
    else:
        print_rows([_row(finding) for finding in shown], _COLUMNS, output)
    _summary(findings.all(), totals, progress)
    worst = findings.worst
    limit = Severity.WARNING if strict else Severity.ERROR
    if worst is not None and worst >= limit:
        raise click.exceptions.Exit(ExitCode.ITEM_FAILED)


def _check(
    file_system: RealFileSystem,
    path: LogPath,
    options: CheckOptions,
    findings: Findings,
    progress: Progress,
) -> CheckTotals:
    if isinstance(path, DataDirectory):
        return check_data_directory(file_system, path.path, options, findings, progress.begin)
    progress.begin(str(path.topic_partition))
    partition = partition_directory(file_system, path.path)
    return check_partition(file_system, partition, options, findings).totals


def _row(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.name.lower(),
        "code": finding.code,
        "path": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "what": finding.what,
        "advice": finding.advice,
    }


def _sentence(finding: Finding) -> str:
    places = []
    if finding.position is not None:
        places.append(f"position {finding.position}")
    if finding.offset is not None:
        places.append(f"offset {finding.offset}")
    where = f" ({', '.join(places)})" if places else ""
    return (
        f"{finding.severity.name.lower()}: {finding.path}{where}: {finding.what}; {finding.advice}"
    )


def _summary(findings: Sequence[Finding], totals: CheckTotals, progress: Progress) -> None:
    counts = {severity: sum(f.severity is severity for f in findings) for severity in Severity}
    say(
        f"{counted(totals.partitions, 'partition')}, {counted(totals.segments, 'segment')}, "
        f"{counted(totals.files, 'file')}: {counted(totals.size_bytes, 'byte')}, "
        f"{counted(totals.batches, 'batch')}, {counted(totals.records, 'record')} "
        f"in {progress.rate()}"
    )
    say(
        f"{counted(counts[Severity.ERROR], 'error')}, "
        f"{counted(counts[Severity.WARNING], 'warning')}, {counted(counts[Severity.INFO], 'note')}"
    )
