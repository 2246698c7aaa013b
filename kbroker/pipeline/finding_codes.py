"""What can be wrong with an archive, with a cluster, and between them and a log: one table for
audit and page. Codes of a log directory by itself are in `kbroker.inspection.finding_codes`.
"""

from __future__ import annotations

from typing import Final

from kbroker.inspection.finding import Finding, FindingKind, Severity

_STOPS_HERE: Final = (
    "put the file back from a copy of the archive: readers and the next run stop here"
)
_NOT_TRUSTED: Final = (
    "its records cannot be trusted: put the file back from a copy, or archive its offsets again "
    "into another archive"
)
_COPY: Final = "put the file back from a copy of the archive, or archive its offsets again"
_ARCHIVE_ANEW: Final = "archive these offsets again, into another archive, and compare the two"
_FROM_ARCHIVE: Final = "take them from the archive, or copy the log from a replica"


class AuditCode(FindingKind):
    """The kinds of findings that only an audit has; `advice` is what is mostly said."""

    def finding(
        self,
        path: str,
        what: str,
        *,
        offset: int | None = None,
        position: int | None = None,
        severity: Severity | None = None,
        advice: str | None = None,
    ) -> Finding:
        """A finding of this kind, as bad as it can be and with its advice unless told otherwise."""
        return Finding(
            self.worst if severity is None else severity,
            self,
            path,
            what,
            self.advice if advice is None else advice,
            position,
            offset,
        )

    # An archive by itself: its manifests
    ARCHIVE_MARK = (
        "archive-mark", Severity.ERROR,
        "The file that makes a directory an archive is missing or damaged.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_MISSING = (
        "manifest-missing", Severity.ERROR,
        "A manifest is missing, and there are later ones.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_DAMAGED = (
        "manifest-damaged", Severity.ERROR,
        "A manifest cannot be read, or its checksum is wrong.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_FOREIGN = (
        "manifest-foreign", Severity.ERROR,
        "A manifest is that of another archive.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_BALANCE = (
        "manifest-balance", Severity.ERROR,
        "Rows and holes of a manifest do not add up to its ranges.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_REMOVES = (
        "manifest-removes", Severity.ERROR,
        "A manifest removes a file that was not there.",
        _STOPS_HERE,
    )  # fmt: skip
    MANIFEST_ADDS = (
        "manifest-adds", Severity.ERROR,
        "A manifest adds a file that was there already.",
        _STOPS_HERE,
    )  # fmt: skip
    SNAPSHOT_DAMAGED = (
        "snapshot-damaged", Severity.WARNING,
        "A snapshot of the manifests cannot be used.",
        "readers ignore it and read the manifests",
    )  # fmt: skip
    SNAPSHOT_DIFFERS = (
        "snapshot-differs", Severity.ERROR,
        "A snapshot contradicts the manifests up to it.",
        "remove it: readers believe it",
    )  # fmt: skip
    ARCHIVE_FOREIGN = (
        "archive-foreign", Severity.INFO,
        "A file is named by no manifest.",
        "readers do not see it",
    )  # fmt: skip
    # ... its files
    ARCHIVE_FILE_MISSING = (
        "archive-file-missing", Severity.ERROR,
        "A file that a manifest names is missing.",
        _NOT_TRUSTED,
    )  # fmt: skip
    ARCHIVE_FILE_SIZE = (
        "archive-file-size", Severity.ERROR,
        "A file has another size than its manifest says.",
        _NOT_TRUSTED,
    )  # fmt: skip
    ARCHIVE_FILE_CHECKSUM = (
        "archive-file-checksum", Severity.ERROR,
        "A file has other content than was written.",
        _NOT_TRUSTED,
    )  # fmt: skip
    ARCHIVE_FILE_UNREADABLE = (
        "archive-file-unreadable", Severity.ERROR,
        "A file is not a readable Parquet file.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_COLUMNS = (
        "archive-columns", Severity.ERROR,
        "A file lacks columns of a record.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_ROWS = (
        "archive-rows", Severity.ERROR,
        "A file has another number of rows than its manifest says.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_OFFSETS = (
        "archive-offsets", Severity.ERROR,
        "A file begins or ends with another offset than its manifest says.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_TIMESTAMPS = (
        "archive-timestamps", Severity.ERROR,
        "A file has other times than its manifest says.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_HOUR = (
        "archive-hour", Severity.ERROR,
        "A file has records of other hours than its own.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_PLACE = (
        "archive-place", Severity.ERROR,
        "A file has records of another topic or partition.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_ORDER = (
        "archive-order", Severity.ERROR,
        "Rows of a file are not in the order of their offsets.",
        _COPY,
    )  # fmt: skip
    ARCHIVE_DOUBLED = (
        "archive-doubled", Severity.ERROR,
        "An offset is in the archive more than once.",
        _COPY,
    )  # fmt: skip
    # ... and what all of them hold together
    ARCHIVE_LOST = (
        "archive-lost", Severity.ERROR,
        "Offsets that were archived, or that the log has, are in no file.",
        _ARCHIVE_ANEW,
    )  # fmt: skip
    ARCHIVE_OUTSIDE = (
        "archive-outside", Severity.ERROR,
        "Files hold offsets that were never archived.",
        _ARCHIVE_ANEW,
    )  # fmt: skip
    ARCHIVE_HOLE = (
        "archive-hole", Severity.ERROR,
        "The archive says that offsets are missing, and has them.",
        _ARCHIVE_ANEW,
    )  # fmt: skip
    ARCHIVE_UNEXPLAINED = (
        "archive-unexplained", Severity.WARNING,
        "Offsets are missing for an unknown reason.",
        "compare the archive with the log: --data",
    )  # fmt: skip
    # Log and archive against each other
    ARCHIVE_BEHIND = (
        "archive-behind", Severity.INFO,
        "The log goes on after the end of the archive.",
        "the next run of the archive continues there",
    )  # fmt: skip
    ARCHIVE_OTHER_TOPIC = (
        "archive-other-topic", Severity.ERROR,
        "The archive belongs to another topic of the same name.",
        "the topic was created again, or is another cluster's: it needs its own archive",
    )  # fmt: skip
    ARCHIVE_OVERTAKEN = (
        "archive-overtaken", Severity.ERROR,
        "Retention deleted records before they were archived.",
        "archive more often than retention deletes",
    )  # fmt: skip
    ARCHIVE_HOLE_CONTRADICTED = (
        "archive-hole-contradicted", Severity.WARNING,
        "The archive says why it lacks offsets, and the log has them.",
        "another replica, from which it was archived, may have been cleaned before this one; "
        "otherwise archive them again",
    )  # fmt: skip
    ARCHIVE_EXTRA = (
        "archive-extra", Severity.ERROR,
        "The archive has a record where the log has none.",
        _ARCHIVE_ANEW,
    )  # fmt: skip
    ARCHIVE_DIFFERS = (
        "archive-differs", Severity.ERROR,
        "A record of the archive is not that of the log (deep look).",
        "one of the two was changed: compare both with a replica, or with what was produced",
    )  # fmt: skip
    LOG_BEHIND_ARCHIVE = (
        "log-behind-archive", Severity.ERROR,
        "The archive has records beyond the end of the log.",
        _FROM_ARCHIVE,
    )  # fmt: skip
    LOG_LOST = (
        "log-lost", Severity.ERROR,
        "The archive has records that the log lost.",
        _FROM_ARCHIVE,
    )  # fmt: skip
    # The cluster against both
    LOG_BEHIND_CLUSTER = (
        "log-behind-cluster", Severity.WARNING,
        "The cluster has records beyond the end of the log.",
        "a follower may be behind; a broker that died lacks what came later",
    )  # fmt: skip
    CLUSTER_LACKS = (
        "cluster-lacks", Severity.WARNING,
        "The cluster does not have a partition that another side has.",
        "it was deleted, or this is another cluster",
    )  # fmt: skip
    CLUSTER_BEHIND_LOG = (
        "cluster-behind-log", Severity.ERROR,
        "The log goes on after the end of the cluster's.",
        "committed records are no longer on the cluster: take them from this directory",
    )  # fmt: skip
    CLUSTER_BEHIND_ARCHIVE = (
        "cluster-behind-archive", Severity.ERROR,
        "The archive goes on after the end of the cluster's log.",
        "the cluster lost records, or the topic was created again",
    )  # fmt: skip
    CLUSTER_COUNT = (
        "cluster-count", Severity.ERROR,
        "The cluster serves another number of records than the log has (deep look).",
        "see the other findings of this partition",
    )  # fmt: skip
    TOPIC_MISSING = (
        "topic-missing", Severity.WARNING,
        "A topic that was asked for is not on the cluster.",
        "see `kbroker topic list`",
    )  # fmt: skip
    PARTITION_ABSENT = (
        "partition-absent", Severity.WARNING,
        "A partition of the cluster is in no directory, or not in the archive.",
        "another broker may have it",
    )  # fmt: skip
    GROUP_BEYOND_END = (
        "group-beyond-end", Severity.WARNING,
        "A group has committed an offset beyond the end of the partition.",
        "the group starts where auto.offset.reset says, and reads records again or never",
    )  # fmt: skip
