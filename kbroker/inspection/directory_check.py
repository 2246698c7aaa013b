"""Checks a whole data directory, partition after partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from errno import ENOENT
from itertools import chain, repeat
from uuid import UUID

from kbroker.inspection.checkpoint_check import emptied_checkpoints, unreadable_files
from kbroker.inspection.data_directory import (
    TEMPORARY_SUFFIX,
    DataDirectory,
    PartitionDirectory,
    is_broker_file,
    partition_directory,
    read_data_directory,
)
from kbroker.inspection.disk_advice import OFFLINE, advice_on
from kbroker.inspection.finding import Finding, Findings
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.log_walk import CheckOptions, CheckTotals, check_until_settled
from kbroker.inspection.partition_check import CheckedLog, PartitionCheck
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    PARTITION_METADATA_FILE,
    REPLACED_DIRECTORY_SUFFIX,
)

TopicIds = dict[str, dict[UUID, str]]  # topic -> id -> the first partition's directory that has it
_PASSING_DIRECTORIES = {
    DELETE_DIRECTORY_SUFFIX: ("is a partition that was deleted", "it is removed after its delay"),
    FUTURE_DIRECTORY_SUFFIX: (
        "is a copy of a partition that is moving to this directory",
        "the next start goes on with it",
    ),
    REPLACED_DIRECTORY_SUFFIX: (
        "is a partition that has just moved to another directory",
        "the next start removes it when it has found the other one",
    ),
}
_KRAFT_BEGINNING = "bootstrap.checkpoint"  # the first records of a KRaft cluster
_LEFT_ALONE = "it is left alone"


def check_data_directory(
    file_system: FileSystem,
    path: str,
    options: CheckOptions,
    findings: Findings,
    begin: Callable[[str], None] = lambda _: None,
) -> CheckTotals:
    """Check everything below `path`; calls `begin` with the name of each partition. Raises
    StorageError.
    """
    home = read_data_directory(file_system, path)
    check_directory_names(home, findings, is_at_work=options.is_at_work)
    totals = CheckTotals(files=len(home.offsets) + (home.meta is not None))
    topic_ids: TopicIds = {}
    for partition in home.directories():
        begin(partition.name)
        checked = check_partition(file_system, partition, options, findings)
        totals.add(checked.totals)
        if checked.topic_id is not None:
            ids = topic_ids.setdefault(partition.topic_partition.topic, {})
            ids.setdefault(checked.topic_id, partition.name)
    check_topic_ids(path, topic_ids, findings)
    return totals


def check_partition(
    file_system: FileSystem,
    partition: PartitionDirectory,
    options: CheckOptions,
    findings: Findings,
) -> CheckedLog:
    """Check one partition, again if a running broker may have changed it under the check. A disk
    that refuses to read is a finding; a partition that was deleted meanwhile is but noted.
    """
    path = partition.path
    seen = chain([partition], repeat(None))

    def attempt(found: Findings) -> CheckedLog:
        now = next(seen) or partition_directory(file_system, path)
        if options.watcher is not None:
            options.watcher.begin()
        try:
            return PartitionCheck(file_system, now, options, found).run()
        except StorageError as error:
            if error.errno == ENOENT and not file_system.exists(path):
                _gone(found, path, options)
                return CheckedLog(CheckTotals())
            what = f"cannot be read: {error}"
            advice = advice_on(error, OFFLINE)
            found.add(FindingCode.FILE_UNREADABLE.finding(path, what, advice))
            return CheckedLog(CheckTotals())

    pause = None if partition.view.was_clean or not options.waits else options.pause
    return check_until_settled(attempt, pause, findings)


def _gone(findings: Findings, path: str, options: CheckOptions) -> None:
    if not options.is_at_work:
        what, advice = "was deleted while it was checked", "its topic was, or the partition moved"
        findings.add(FindingCode.GONE.finding(path, what, advice))


def check_together(views: Sequence[DataDirectory], findings: Findings) -> None:
    """Report partitions that one broker, as meta.properties names it, has in two of its data
    directories.
    """
    homes: dict[tuple[object, ...], str] = {}
    for home in views:
        owner = (home.meta.cluster_id, home.meta.broker_id) if home.meta is not None else ()
        for name in home.partitions:
            other = homes.setdefault((*owner, name), home.path)
            if other != home.path:
                what = f"is in {other} too"
                advice = "a broker does not start with both: remove the older one"
                path = f"{home.path}/{name}"
                findings.add(FindingCode.PARTITION_TWICE.finding(path, what, advice))


def check_directory_names(
    home: DataDirectory, findings: Findings, *, is_at_work: bool = False
) -> None:
    """Report on the contents of the data directory itself, and on its files that could not be read.

    While a broker `is_at_work`, files that it is about to remove, move or write are left out.
    """
    passing = () if is_at_work else chain(emptied_checkpoints(home), _passing(home))
    for finding in chain(unreadable_files(home), passing):
        findings.add(finding)
    for name in home.moved:
        if not name.endswith(tuple(_PASSING_DIRECTORIES)):
            what = "is a partition that the cluster does not know"
            _note(findings, home, name, FindingCode.MOVED_DIRECTORY, what)
    for name in home.others:
        if not is_broker_file(name) and name != _KRAFT_BEGINNING:
            what = "is not a file that a broker keeps here"
            _note(findings, home, name, FindingCode.FOREIGN, what)


def _passing(home: DataDirectory) -> Iterator[Finding]:
    """Yield findings on files that are about to come or go: a running broker always has some."""
    for name in home.moved:
        for suffix, (what, advice) in _PASSING_DIRECTORIES.items():
            if name.endswith(suffix):
                yield FindingCode.MOVED_DIRECTORY.finding(f"{home.path}/{name}", what, advice)
    for name in home.others:
        if name.endswith(TEMPORARY_SUFFIX):
            what = "is left over from an interrupted write"
            yield FindingCode.LEFTOVER.finding(f"{home.path}/{name}", what, "it may be removed")


def _note(findings: Findings, home: DataDirectory, name: str, code: FindingCode, what: str) -> None:
    findings.add(code.finding(f"{home.path}/{name}", what, _LEFT_ALONE))


def check_topic_ids(path: str, topic_ids: TopicIds, findings: Findings) -> None:
    """Report topics whose partitions have different ids."""
    for topic, by_id in topic_ids.items():
        if len(by_id) > 1:
            what = f"partitions of {topic} have {len(by_id)} topic ids: {', '.join(by_id.values())}"
            advice = "a broker opens only those with the id that the cluster knows"
            where = f"{path}/{next(reversed(by_id.values()))}/{PARTITION_METADATA_FILE}"
            findings.add(FindingCode.TOPIC_ID.finding(where, what, advice))
