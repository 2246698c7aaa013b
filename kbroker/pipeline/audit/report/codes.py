"""Every code that a finding of `kbroker log verify` or `kbroker pipeline audit` can have, and what
it means. This table is their documentation; a test holds it against the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kbroker.inspection.finding_codes import FindingCode

_ARCHIVE: Final = {
    "archive-mark": "The file that makes a directory an archive is missing or damaged.",
    "manifest-missing": "A manifest is missing, and there are later ones.",
    "manifest-damaged": "A manifest cannot be read, or its checksum is wrong.",
    "manifest-foreign": "A manifest is that of another archive.",
    "manifest-balance": "Rows and holes of a manifest do not add up to its ranges.",
    "manifest-removes": "A manifest removes a file that was not there.",
    "manifest-adds": "A manifest adds a file that was there already.",
    "snapshot-damaged": "A snapshot of the manifests cannot be used.",
    "snapshot-differs": "A snapshot says something else than the manifests up to it.",
    "archive-foreign": "A file is named by no manifest.",
    "archive-file-missing": "A file that a manifest names is missing.",
    "archive-file-size": "A file has another size than its manifest says.",
    "archive-file-checksum": "A file has other content than was written.",
    "archive-file-unreadable": "A file is no Parquet file that can be read.",
    "archive-columns": "A file lacks columns of a record.",
    "archive-rows": "A file has another number of rows than its manifest says.",
    "archive-offsets": "A file begins or ends with another offset than its manifest says.",
    "archive-timestamps": "A file has other times than its manifest says.",
    "archive-hour": "A file has records of other hours than its own.",
    "archive-place": "A file has records of another topic or partition.",
    "archive-order": "Rows of a file are not in the order of their offsets.",
    "archive-doubled": "An offset is in the archive more than once.",
    "archive-lost": "Offsets that were archived, or that the log has, are in no file.",
    "archive-outside": "Files hold offsets that were never archived.",
    "archive-hole": "The archive tells of offsets as missing that it has.",
    "archive-unexplained": "Offsets are missing, and nobody knows why.",
}
_BETWEEN: Final = {
    "archive-behind": "The log goes on after the end of the archive.",
    "archive-other-topic": "The archive is of another topic of the same name.",
    "archive-overtaken": "Retention deleted records before they were archived.",
    "archive-hole-contradicted": "The archive says why it lacks offsets, and the log has them.",
    "archive-extra": "The archive has a record where the log has none.",
    "archive-differs": "A record of the archive is not that of the log (deep look).",
    "log-behind-archive": "The archive has records beyond the end of the log.",
    "log-lost": "The archive has records that the log lost.",
    "log-behind-cluster": "The cluster has records beyond the end of the log.",
    "cluster-lacks": "The cluster does not have a partition that another side has.",
    "cluster-behind-log": "The log goes on after the end of the cluster's.",
    "cluster-behind-archive": "The archive goes on after the end of the cluster's log.",
    "cluster-count": "The cluster serves another number of records than the log has (deep look).",
    "topic-missing": "A topic that was asked for is not on the cluster.",
    "partition-absent": "A partition of the cluster is in no directory, or not in the archive.",
    "group-beyond-end": "A group has committed an offset beyond the end of the partition.",
}

CODES: Final[Mapping[str, str]] = {
    **{code.value: code.meaning for code in FindingCode}, **_ARCHIVE, **_BETWEEN,
}  # fmt: skip
