"""The faults that an archive and a cluster can have, and those between them and a log: one table
for audit and page. Codes of a log directory by itself are in `kbroker.inspection.finding_codes`.
"""

from __future__ import annotations

from typing import Final

from kbroker.inspection.finding import FindingKind, error, info, warning

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

    # An archive by itself: its manifests
    ARCHIVE_MARK = error(
        "The file that makes a directory an archive is missing or damaged.", _STOPS_HERE
    )
    MANIFEST_MISSING = error("A manifest is missing, and there are later ones.", _STOPS_HERE)
    MANIFEST_DAMAGED = error("A manifest cannot be read, or its checksum is wrong.", _STOPS_HERE)
    MANIFEST_FOREIGN = error("A manifest is that of another archive.", _STOPS_HERE)
    MANIFEST_BALANCE = error(
        "Rows and holes of a manifest do not add up to its ranges.", _STOPS_HERE
    )
    MANIFEST_REMOVES = error("A manifest removes a file that was not there.", _STOPS_HERE)
    MANIFEST_ADDS = error("A manifest adds a file that was there already.", _STOPS_HERE)
    SNAPSHOT_DAMAGED = warning(
        "A snapshot of the manifests cannot be used.", "readers ignore it and read the manifests"
    )
    SNAPSHOT_DIFFERS = error(
        "A snapshot contradicts the manifests up to it.", "remove it: readers believe it"
    )
    ARCHIVE_FOREIGN = info("A file is named by no manifest.", "readers do not see it")
    # ... its files
    ARCHIVE_FILE_MISSING = error("A file that a manifest names is missing.", _NOT_TRUSTED)
    ARCHIVE_FILE_SIZE = error("A file has another size than its manifest says.", _NOT_TRUSTED)
    ARCHIVE_FILE_CHECKSUM = error("A file has other content than was written.", _NOT_TRUSTED)
    ARCHIVE_FILE_UNREADABLE = error("A file is not a readable Parquet file.", _COPY)
    ARCHIVE_COLUMNS = error("A file lacks columns of a record.", _COPY)
    ARCHIVE_ROWS = error("A file has another number of rows than its manifest says.", _COPY)
    ARCHIVE_OFFSETS = error(
        "A file begins or ends with another offset than its manifest says.", _COPY
    )
    ARCHIVE_TIMESTAMPS = error("A file has other times than its manifest says.", _COPY)
    ARCHIVE_HOUR = error("A file has records of other hours than its own.", _COPY)
    ARCHIVE_PLACE = error("A file has records of another topic or partition.", _COPY)
    ARCHIVE_ORDER = error("Rows of a file are not in the order of their offsets.", _COPY)
    ARCHIVE_DOUBLED = error("An offset is in the archive more than once.", _COPY)
    # ... and what all of them hold together
    ARCHIVE_LOST = error(
        "Offsets that were archived, or that the log has, are in no file.", _ARCHIVE_ANEW
    )
    ARCHIVE_OUTSIDE = error("Files hold offsets that were never archived.", _ARCHIVE_ANEW)
    ARCHIVE_HOLE = error("The archive says that offsets are missing, and has them.", _ARCHIVE_ANEW)
    ARCHIVE_UNEXPLAINED = warning(
        "Offsets are missing for an unknown reason.", "compare the archive with the log: --data"
    )
    # Log and archive against each other
    ARCHIVE_BEHIND = info(
        "The log goes on after the end of the archive.",
        "the next run of the archive continues there",
    )
    ARCHIVE_OTHER_TOPIC = error(
        "The archive belongs to another topic of the same name.",
        "the topic was created again, or is another cluster's: it needs its own archive",
    )
    ARCHIVE_OVERTAKEN = error(
        "Retention deleted records before they were archived.",
        "archive more often than retention deletes",
    )
    ARCHIVE_HOLE_CONTRADICTED = warning(
        "The archive says why it lacks offsets, and the log has them.",
        "another replica, from which it was archived, may have been cleaned before this one; "
        "otherwise archive them again",
    )
    ARCHIVE_EXTRA = error("The archive has a record where the log has none.", _ARCHIVE_ANEW)
    ARCHIVE_DIFFERS = error(
        "A record of the archive is not that of the log (deep look).",
        "one of the two was changed: compare both with a replica, or with what was produced",
    )
    LOG_BEHIND_ARCHIVE = error("The archive has records beyond the end of the log.", _FROM_ARCHIVE)
    LOG_LOST = error("The archive has records that the log lost.", _FROM_ARCHIVE)
    # The cluster against both
    LOG_BEHIND_CLUSTER = warning(
        "The cluster has records beyond the end of the log.",
        "a follower may be behind; a broker that died lacks what came later",
    )
    CLUSTER_LACKS = warning(
        "The cluster does not have a partition that another side has.",
        "it was deleted, or this is another cluster",
    )
    CLUSTER_BEHIND_LOG = error(
        "The log goes on after the end of the cluster's.",
        "committed records are no longer on the cluster: take them from this directory",
    )
    CLUSTER_BEHIND_ARCHIVE = error(
        "The archive goes on after the end of the cluster's log.",
        "the cluster lost records, or the topic was created again",
    )
    CLUSTER_COUNT = error(
        "The cluster serves another number of records than the log has (deep look).",
        "see the other findings of this partition",
    )
    TOPIC_MISSING = warning(
        "A topic that was asked for is not on the cluster.", "see `kbroker topic list`"
    )
    PARTITION_ABSENT = warning(
        "A partition of the cluster is in no directory, or not in the archive.",
        "another broker may have it",
    )
    GROUP_BEYOND_END = warning(
        "A group has committed an offset beyond the end of the partition.",
        "the group starts where auto.offset.reset says, and reads records again or never",
    )
