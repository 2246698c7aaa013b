"""`log verify` and `log stats` beside a running broker that deletes what they look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbroker.cli.log import stats as log_stats
from kbroker.cli.log.commands import log
from kbroker.inspection.directory_check import check_data_directory
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_walk import CheckOptions
from kbroker.inspection.partition_stats import LogStats, partition_stats
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import CLEAN_SHUTDOWN_FILE
from kbroker.model import TopicPartition
from tests.golden import golden_logs

NAME = golden_logs.CLEAN[0]
PARTITION = "txn-0"


class BusyDisk(RealFileSystem):
    """Something is done at the first `list` of a directory of this name, or before it."""

    def __init__(self, moment: str, name: str, do: Callable[[], object]) -> None:
        self._moment, self._name, self._do = moment, name, do

    def list(self, path: str) -> list[str]:
        """As the disk does it."""
        if path.endswith(f"/{self._name}") and self._moment == "before list":
            self._happen()
        found = super().list(path)
        if path.endswith(f"/{self._name}") and self._moment == "list":
            self._happen()
        return found

    def _happen(self) -> None:
        self._moment = ""
        self._do()


def checked(disk: BusyDisk, directory: Path) -> list[Finding]:
    findings = Findings()
    options = CheckOptions(is_deep=True, pause=lambda: None)
    check_data_directory(disk, str(directory), options, findings)
    return [each for each in findings.all() if each.path.startswith(f"{directory}/{PARTITION}")]


def delete_segment(directory: Path, segment: str) -> None:
    """As a broker does it: the segment itself first."""
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        path = directory / PARTITION / f"{segment}{suffix}"
        if path.exists():
            path.rename(f"{path}.deleted")


@pytest.mark.parametrize("moment", ["before list", "list"])
def test_a_partition_that_goes_while_it_is_checked_is_no_trouble(
    moment: str, tmp_path: Path
) -> None:
    directory = golden_logs.unpack(NAME, tmp_path)
    (directory / CLEAN_SHUTDOWN_FILE).unlink()  # a running broker has none
    disk = BusyDisk(moment, PARTITION, lambda: shutil.rmtree(directory / PARTITION))

    findings = checked(disk, directory)

    assert [(each.severity, each.code, each.what) for each in findings] == [
        (Severity.INFO, "gone", "was deleted while it was checked")
    ]


def test_a_segment_that_goes_while_it_is_checked_lacks_no_index(tmp_path: Path) -> None:
    directory = golden_logs.unpack(NAME, tmp_path)
    first = sorted((directory / PARTITION).glob("*.log"))[0]
    name = f"{PARTITION}/{first.name}"
    disk = BusyDisk("list", PARTITION, lambda: delete_segment(directory, first.stem))

    findings = Findings()
    # No second look, which would find nothing: retention may be at the next segment by then.
    check_data_directory(disk, str(directory), CheckOptions(), findings)

    found = [(each.code, each.severity) for each in findings.all() if name in each.path]
    assert found == [("gone", Severity.INFO)]
    assert not [each for each in findings.all() if each.code == "index-missing"]


def stats_of(disk: RealFileSystem, directory: Path) -> LogStats | None:
    partition = TopicPartition("txn", 0)
    return partition_stats(disk, f"{directory}/{PARTITION}", partition)


def test_stats_are_of_the_segments_that_stay(tmp_path: Path) -> None:
    directory = golden_logs.unpack(NAME, tmp_path)
    before = stats_of(RealFileSystem(), directory)
    last = sorted((directory / PARTITION).glob("*.log"))[-1]
    disk = BusyDisk("list", PARTITION, lambda: delete_segment(directory, last.stem))

    found = stats_of(disk, directory)

    assert found == stats_of(RealFileSystem(), directory)
    assert before is not None
    assert found is not None
    assert found.segments == before.segments - 1


def test_stats_of_others_are_printed_where_a_partition_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = golden_logs.unpack(NAME, tmp_path)
    disk = BusyDisk("before list", PARTITION, lambda: shutil.rmtree(directory / PARTITION))
    monkeypatch.setattr(log_stats, "RealFileSystem", lambda: disk)

    result = CliRunner().invoke(log, ["stats", str(directory)])

    assert result.exit_code == 0
    assert f"{directory}/{PARTITION} was deleted meanwhile" in result.stderr
    assert "codec-gzip" in result.stdout
