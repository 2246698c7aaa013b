"""Checks a whole data directory, partition after partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from errno import ENOENT
from itertools import chain, repeat
from typing import NamedTuple
from uuid import UUID

from kbroker.inspection.disk_advice import OFFLINE, advice_on
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.log_directory_view import (
    CHECKPOINT_FILES,
    LogDirectoryView,
    PartitionView,
    emptied_checkpoints,
    view_log_directory,
)
from kbroker.inspection.log_walk import CheckOptions, CheckTotals, check_until_settled
from kbroker.inspection.partition_check import CheckedLog, PartitionCheck
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    CLEAN_SHUTDOWN_FILE,
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    LOCK_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    REPLACED_DIRECTORY_SUFFIX,
    parse_directory_name,
)

_KNOWN_FILES = frozenset(
    {
        LOCK_FILE,
        META_PROPERTIES_FILE,
        CLEAN_SHUTDOWN_FILE,
        "bootstrap.checkpoint",  # a KRaft cluster's first records
        *CHECKPOINT_FILES,
    }
)
TopicIds = dict[str, dict[UUID, str]]  # topic -> id -> the first partition's directory that has it
_PASSING_DIRECTORIES = (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    REPLACED_DIRECTORY_SUFFIX,
)
_TEMPORARY = ".tmp"
_LEFT_ALONE = "it is left alone"
_OWN_PREFIX = "kbroker-"  # the tree of a broker without ZooKeeper


def check_data_directory(
    file_system: FileSystem,
    path: str,
    options: CheckOptions,
    findings: Findings,
    begin: Callable[[str], None] = lambda _: None,
) -> CheckTotals:
    """Check everything below `path`; `begin` is told each partition. Raises StorageError."""
    view = view_log_directory(file_system, path)
    check_names(view, findings, is_at_work=options.is_at_work)
    totals = CheckTotals(files=len(view.offsets) + (view.meta is not None))
    topic_ids: TopicIds = {}
    for name in view.partitions:
        topic_partition = parse_directory_name(name)
        assert topic_partition is not None, name
        begin(name)
        partition = CheckedPartition(path, name, view.of(topic_partition))
        checked = check_partition(file_system, partition, options, findings)
        totals.add(checked.totals)
        if checked.topic_id is not None:
            topic_ids.setdefault(topic_partition.topic, {}).setdefault(checked.topic_id, name)
    check_topic_ids(path, topic_ids, findings)
    return totals


class CheckedPartition(NamedTuple):
    """A partition of a data directory, and what that said of it at first."""

    data_directory: str
    name: str
    view: PartitionView


def check_partition(
    file_system: FileSystem, partition: CheckedPartition, options: CheckOptions, findings: Findings
) -> CheckedLog:
    """Check one partition, again where a running broker may have changed it under the check. A disk
    that refuses to read is a finding; a partition that was deleted meanwhile is but noted.
    """
    path = f"{partition.data_directory}/{partition.name}"
    views = chain([partition.view], repeat(None))

    def attempt(found: Findings) -> CheckedLog:
        view = next(views) or _view_of(file_system, path)
        if options.watcher is not None:
            options.watcher.begin()
        try:
            return PartitionCheck(file_system, path, view, options, found).run()
        except StorageError as error:
            if error.errno == ENOENT and not file_system.exists(path):
                _gone(found, path, options)
                return CheckedLog(CheckTotals())
            what = f"cannot be read: {error}"
            advice = advice_on(error, OFFLINE)
            found.add(Finding(Severity.ERROR, FindingCode.FILE_UNREADABLE, path, what, advice))
            return CheckedLog(CheckTotals())

    pause = None if partition.view.was_clean or not options.waits else options.pause
    return check_until_settled(attempt, pause, findings)


def _gone(findings: Findings, path: str, options: CheckOptions) -> None:
    if not options.is_at_work:
        what, advice = "was deleted while it was checked", "its topic was, or the partition moved"
        findings.add(Finding(Severity.INFO, FindingCode.GONE, path, what, advice))


def check_partition_directory(
    file_system: FileSystem, path: str, options: CheckOptions, findings: Findings
) -> CheckTotals:
    """Check one partition, with what the data directory around it says. Raises StorageError."""
    parent, _, name = path.rpartition("/")
    partition = CheckedPartition(parent or ".", name, _view_of(file_system, path))
    return check_partition(file_system, partition, options, findings).totals


def _view_of(file_system: FileSystem, path: str) -> PartitionView:
    parent, _, name = path.rpartition("/")
    topic_partition = parse_directory_name(name)
    if topic_partition is None:
        return PartitionView()
    around = view_log_directory(file_system, parent or ("/" if path[:1] == "/" else "."))
    return around.of(topic_partition)


def check_together(views: Sequence[LogDirectoryView], findings: Findings) -> None:
    """Report what is wrong with data directories only because one broker has them all; their
    meta.properties says which these are.
    """
    homes: dict[tuple[object, ...], str] = {}
    for view in views:
        owner = (view.meta.cluster_id, view.meta.broker_id) if view.meta is not None else ()
        for name in view.partitions:
            other = homes.setdefault((*owner, name), view.path)
            if other != view.path:
                what = f"is in {other} too"
                advice = "a broker does not start with both: remove the older one"
                path = f"{view.path}/{name}"
                findings.add(
                    Finding(Severity.ERROR, FindingCode.PARTITION_TWICE, path, what, advice)
                )


def check_names(view: LogDirectoryView, findings: Findings, *, is_at_work: bool = False) -> None:
    """Report on the contents of the data directory itself, and on its files that could not be read.

    Of a broker `is_at_work`, what it is about to remove, to move or to write is not told.
    """
    for finding in view.findings:
        findings.add(finding)
    if not is_at_work:
        for finding in chain(emptied_checkpoints(view), _passing(view)):
            findings.add(finding)
    for name in view.moved:
        if not name.endswith(_PASSING_DIRECTORIES):
            what = "is a partition that the cluster does not know"
            _tell(findings, view, name, FindingCode.MOVED_DIRECTORY, what)
    for name in view.others:
        is_known = name in _KNOWN_FILES or name.startswith(_OWN_PREFIX)
        if not is_known and not name.endswith(_TEMPORARY):
            _tell(
                findings, view, name, FindingCode.FOREIGN, "is not a file that a broker keeps here"
            )


def _passing(view: LogDirectoryView) -> Iterator[Finding]:
    """Yield findings on files that are about to come or go: a running broker always has some."""
    for name in view.moved:
        path = f"{view.path}/{name}"
        if name.endswith(DELETE_DIRECTORY_SUFFIX):
            what, advice = "is a partition that was deleted", "it is removed after its delay"
            yield Finding(Severity.INFO, FindingCode.MOVED_DIRECTORY, path, what, advice)
        elif name.endswith(FUTURE_DIRECTORY_SUFFIX):
            what = "is a copy of a partition that is moving to this directory"
            advice = "the next start goes on with it"
            yield Finding(Severity.INFO, FindingCode.MOVED_DIRECTORY, path, what, advice)
        elif name.endswith(REPLACED_DIRECTORY_SUFFIX):
            what = "is a partition that has just moved to another directory"
            advice = "the next start removes it when it has found the other one"
            yield Finding(Severity.INFO, FindingCode.MOVED_DIRECTORY, path, what, advice)
    for name in view.others:
        if name.endswith(_TEMPORARY):
            what = "is left over from an interrupted write"
            path = f"{view.path}/{name}"
            yield Finding(Severity.INFO, FindingCode.LEFTOVER, path, what, "it may be removed")


def _tell(
    findings: Findings, view: LogDirectoryView, name: str, code: FindingCode, what: str
) -> None:
    findings.add(Finding(Severity.INFO, code, f"{view.path}/{name}", what, _LEFT_ALONE))


def check_topic_ids(path: str, topic_ids: TopicIds, findings: Findings) -> None:
    """Whether the partitions of each topic have one id."""
    for topic, by_id in topic_ids.items():
        if len(by_id) > 1:
            what = f"partitions of {topic} have {len(by_id)} topic ids: {', '.join(by_id.values())}"
            advice = "a broker opens only those with the id that the cluster knows"
            where = f"{path}/{next(reversed(by_id.values()))}/{PARTITION_METADATA_FILE}"
            findings.add(Finding(Severity.ERROR, FindingCode.TOPIC_ID, where, what, advice))
