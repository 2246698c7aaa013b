"""Checks a whole data directory, partition after partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from kbroker.log.file_system import FileSystem, StorageError
from kbroker.log.format import (
    CLEAN_SHUTDOWN_FILE,
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    LOCK_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    parse_directory_name,
)
from kbroker.log.inspection.finding import Finding, Findings, Severity
from kbroker.log.inspection.log_directory_view import (
    CHECKPOINT_FILES,
    LogDirectoryView,
    PartitionView,
    view_log_directory,
)
from kbroker.log.inspection.log_walk import CheckOptions, CheckTotals
from kbroker.log.inspection.partition_check import PartitionCheck

_KNOWN_FILES = frozenset(
    {
        LOCK_FILE,
        META_PROPERTIES_FILE,
        CLEAN_SHUTDOWN_FILE,
        "bootstrap.checkpoint",  # a KRaft cluster's first records
        *CHECKPOINT_FILES,
    }
)
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
    for finding in view.findings:
        findings.add(finding)
    _names(view, findings)
    totals = CheckTotals(files=len(view.offsets) + (view.meta is not None))
    topic_ids: dict[str, dict[UUID, str]] = {}
    for name in view.partitions:
        topic_partition = parse_directory_name(name)
        assert topic_partition is not None, name
        begin(name)
        check = PartitionCheck(
            file_system, f"{path}/{name}", view.of(topic_partition), options, findings
        )
        try:
            totals.add(check.run())
        except StorageError as error:
            what = f"cannot be read: {error}"
            advice = "a broker takes the whole data directory offline when it meets this"
            findings.add(Finding(Severity.ERROR, "file-unreadable", f"{path}/{name}", what, advice))
        if check.topic_id is not None:
            topic_ids.setdefault(topic_partition.topic, {}).setdefault(check.topic_id, name)
    _topic_ids(path, topic_ids, findings)
    return totals


def check_partition_directory(
    file_system: FileSystem, path: str, options: CheckOptions, findings: Findings
) -> CheckTotals:
    """Check one partition, with what the data directory around it says. Raises StorageError."""
    parent, _, name = path.rpartition("/")
    topic_partition = parse_directory_name(name)
    view = PartitionView()
    if topic_partition is not None:
        around = view_log_directory(file_system, parent or ("/" if path[:1] == "/" else "."))
        view = around.of(topic_partition)
    return PartitionCheck(file_system, path, view, options, findings).run()


def check_together(views: Sequence[LogDirectoryView], findings: Findings) -> None:
    """What is wrong with data directories only because one broker has them all; which those are,
    their meta.properties says.
    """
    homes: dict[tuple[object, ...], str] = {}
    for view in views:
        owner = (view.meta.cluster_id, view.meta.broker_id) if view.meta is not None else ()
        for name in view.partitions:
            other = homes.setdefault((*owner, name), view.path)
            if other != view.path:
                what = f"lies in {other} too"
                advice = "no broker starts with both: remove the older one"
                path = f"{view.path}/{name}"
                findings.add(Finding(Severity.ERROR, "partition-twice", path, what, advice))


def _names(view: LogDirectoryView, findings: Findings) -> None:
    for name in view.moved:
        if name.endswith(DELETE_DIRECTORY_SUFFIX):
            what, advice = "is a partition that was deleted", "it is removed when its delay is over"
        elif name.endswith(FUTURE_DIRECTORY_SUFFIX):
            what = "is a copy of a partition that was moving to this directory"
            advice = "it is left alone"
        else:
            what, advice = "is a partition the cluster does not know", "it is left alone"
        path = f"{view.path}/{name}"
        findings.add(Finding(Severity.INFO, "moved-directory", path, what, advice))
    for name in view.others:
        path = f"{view.path}/{name}"
        if name.endswith(".tmp"):
            what = "is left over from a write that was cut off"
            findings.add(Finding(Severity.INFO, "leftover", path, what, "it may be removed"))
        elif name not in _KNOWN_FILES and not name.startswith(_OWN_PREFIX):
            what = "is nothing that a broker keeps here"
            findings.add(Finding(Severity.INFO, "foreign", path, what, "it is left alone"))


def _topic_ids(path: str, topic_ids: dict[str, dict[UUID, str]], findings: Findings) -> None:
    for topic, by_id in topic_ids.items():
        if len(by_id) > 1:
            what = f"partitions of {topic} have {len(by_id)} topic ids: {', '.join(by_id.values())}"
            advice = "a broker opens only those with the id that the cluster knows"
            where = f"{path}/{next(reversed(by_id.values()))}/{PARTITION_METADATA_FILE}"
            findings.add(Finding(Severity.ERROR, "topic-id", where, what, advice))
