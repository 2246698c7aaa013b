"""The faults that a log directory can have: one table for commands, audit and pages. The codes of
archives and clusters are in `kbroker.pipeline.finding_codes`.
"""

from __future__ import annotations

from kbroker.inspection.finding import FindingKind, Severity


class FindingCode(FindingKind):
    """The kinds of findings about log directories. What to do depends on where they lie."""

    # What records and batches have
    BATCH_CRC = (
        "batch-crc", Severity.ERROR,
        "The checksum of a batch is not that of its bytes.",
    )  # fmt: skip
    BATCH_TORN = (
        "batch-torn", Severity.ERROR,
        "A batch is cut short.",
    )  # fmt: skip
    SEGMENT_GARBAGE = (
        "segment-garbage", Severity.ERROR,
        "Bytes of a segment are not a batch.",
    )  # fmt: skip
    SEGMENT_ZEROS = (
        "segment-zeros", Severity.WARNING,
        "A segment ends with zeros.",
    )  # fmt: skip
    BATCH_ORDER = (
        "batch-order", Severity.ERROR,
        "A batch does not begin after the one before it.",
    )  # fmt: skip
    BATCH_BEFORE_SEGMENT = (
        "batch-before-segment", Severity.ERROR,
        "A batch begins before its segment.",
    )  # fmt: skip
    BATCH_BEYOND_SEGMENT = (
        "batch-beyond-segment", Severity.ERROR,
        "A batch lies too far after the beginning of its segment.",
    )  # fmt: skip
    BATCH_HEADER = (
        "batch-header", Severity.ERROR,
        "A batch's header contradicts itself.",
    )  # fmt: skip
    BATCH_CONTROL = (
        "batch-control", Severity.ERROR,
        "A transaction's marker cannot be read.",
    )  # fmt: skip
    BATCH_RECORDS = (
        "batch-records", Severity.ERROR,
        "The records of a batch are not what its header says (deep look).",
    )  # fmt: skip
    BATCH_TIMESTAMP = (
        "batch-timestamp", Severity.WARNING,
        "The newest record of a batch is not as new as its header says (deep look).",
    )  # fmt: skip
    BATCH_TOO_LARGE = (
        "batch-too-large", Severity.WARNING,
        "A batch is too large to be checked.",
    )  # fmt: skip
    SEGMENT_OVERLAP = (
        "segment-overlap", Severity.ERROR,
        "A segment begins before the one before it ends.",
    )  # fmt: skip
    SEGMENT_MISSING = (
        "segment-missing", Severity.ERROR,
        "Offsets are missing where a segment ends: the next one is gone.",
    )  # fmt: skip
    GAP = (
        "gap", Severity.ERROR,
        "Offsets are missing; an info where compaction explains it.",
    )  # fmt: skip
    SEQUENCE_GAP = (
        "sequence-gap", Severity.ERROR,
        "An idempotent producer's sequence jumps: what it sent in between is gone.",
    )  # fmt: skip
    SEQUENCE_DUPLICATE = (
        "sequence-duplicate", Severity.ERROR,
        "An idempotent producer's sequence repeats: records are there twice.",
    )  # fmt: skip
    PRODUCER_EPOCH = (
        "producer-epoch", Severity.ERROR,
        "A producer writes with an epoch that was fenced before.",
    )  # fmt: skip
    TIMESTAMP_FUTURE = (
        "timestamp-future", Severity.WARNING,
        "A batch is from the future.",
    )  # fmt: skip
    TIMESTAMP_NEGATIVE = (
        "timestamp-negative", Severity.WARNING,
        "A batch has a time before 1970 that is not -1.",
    )  # fmt: skip
    TIMESTAMP_ORDER = (
        "timestamp-order", Severity.WARNING,
        "A batch's first time is later than its newest.",
    )  # fmt: skip
    TIMESTAMP_BEHIND = (
        "timestamp-behind", Severity.INFO,
        "A batch is more than a day older than one before it.",
    )  # fmt: skip
    # Indexes
    INDEX_MISSING = (
        "index-missing", Severity.WARNING,
        "An index file is missing.",
    )  # fmt: skip
    INDEX_SIZE = (
        "index-size", Severity.WARNING,
        "The size of an index file is not a multiple of its entries'.",
    )  # fmt: skip
    INDEX_ORPHAN = (
        "index-orphan", Severity.WARNING,
        "There is an index without its segment.",
    )  # fmt: skip
    INDEX_ORDER = (
        "index-order", Severity.ERROR,
        "Entries of an offset index do not rise.",
    )  # fmt: skip
    INDEX_ENTRY = (
        "index-entry", Severity.ERROR,
        "An entry of an offset index does not point to its batch.",
    )  # fmt: skip
    INDEX_BEYOND = (
        "index-beyond", Severity.ERROR,
        "An entry of an offset index points beyond the last batch.",
    )  # fmt: skip
    INDEX_ZEROS = (
        "index-zeros", Severity.WARNING,
        "Zeros follow the entries of a closed segment's index.",
    )  # fmt: skip
    TIMEINDEX_ORDER = (
        "timeindex-order", Severity.ERROR,
        "Entries of a time index fall.",
    )  # fmt: skip
    TIMEINDEX_ENTRY = (
        "timeindex-entry", Severity.ERROR,
        "An entry of a time index has not the newest time up to its offset.",
    )  # fmt: skip
    TIMEINDEX_BEYOND = (
        "timeindex-beyond", Severity.ERROR,
        "An entry of a time index is after the last offset.",
    )  # fmt: skip
    TIMEINDEX_SHORT = (
        "timeindex-short", Severity.ERROR,
        "A time index does not know the newest time of its segment.",
    )  # fmt: skip
    TXNINDEX_UNREADABLE = (
        "txnindex-unreadable", Severity.WARNING,
        "A transaction index cannot be read.",
    )  # fmt: skip
    TXNINDEX_ORDER = (
        "txnindex-order", Severity.ERROR,
        "Entries of a transaction index do not rise.",
    )  # fmt: skip
    TXNINDEX_ENTRY = (
        "txnindex-entry", Severity.ERROR,
        "An entry of a transaction index is not that of its transaction.",
    )  # fmt: skip
    TXNINDEX_MISSING = (
        "txnindex-missing", Severity.ERROR,
        "An aborted transaction has no entry: its records would be served.",
    )  # fmt: skip
    TXNINDEX_BEYOND = (
        "txnindex-beyond", Severity.ERROR,
        "An entry of a transaction index is after the last offset.",
    )  # fmt: skip
    # Other files, and the directory
    SNAPSHOT = (
        "snapshot", Severity.WARNING,
        "A snapshot of producers cannot be used.",
    )  # fmt: skip
    SNAPSHOT_BEYOND = (
        "snapshot-beyond", Severity.WARNING,
        "A snapshot of producers is beyond the end of the log.",
    )  # fmt: skip
    SNAPSHOT_MISSING = (
        "snapshot-missing", Severity.WARNING,
        "A segment has no snapshot of producers.",
    )  # fmt: skip
    EPOCHS_UNREADABLE = (
        "epochs-unreadable", Severity.WARNING,
        "The file of leader epochs cannot be read.",
    )  # fmt: skip
    EPOCHS_ORDER = (
        "epochs-order", Severity.WARNING,
        "Leader epochs do not rise.",
    )  # fmt: skip
    EPOCHS_WRONG = (
        "epochs-wrong", Severity.WARNING,
        "A batch has another leader epoch than the file says.",
    )  # fmt: skip
    EPOCHS_MISSING = (
        "epochs-missing", Severity.WARNING,
        "The file of leader epochs lacks one that batches carry.",
    )  # fmt: skip
    EPOCHS_BEYOND = (
        "epochs-beyond", Severity.WARNING,
        "A leader epoch begins after the end of the log.",
    )  # fmt: skip
    PARTITION_METADATA = (
        "partition-metadata", Severity.ERROR,
        "The file of the topic id cannot be read.",
    )  # fmt: skip
    TOPIC_ID = (
        "topic-id", Severity.ERROR,
        "Partitions of a topic have different topic ids.",
    )  # fmt: skip
    META_PROPERTIES = (
        "meta-properties", Severity.ERROR,
        "The ids of cluster and broker cannot be read.",
    )  # fmt: skip
    CHECKPOINT_UNREADABLE = (
        "checkpoint-unreadable", Severity.WARNING,
        "A checkpoint file of the data directory cannot be read.",
    )  # fmt: skip
    CHECKPOINT_EMPTY = (
        "checkpoint-empty", Severity.WARNING,
        "A checkpoint file of the data directory is empty.",
    )  # fmt: skip
    RECOVERY_POINT = (
        "recovery-point", Severity.ERROR,
        "The recovery point is beyond the end of the log.",
    )  # fmt: skip
    HIGH_WATERMARK = (
        "high-watermark", Severity.WARNING,
        "The high watermark is beyond the end of the log.",
    )  # fmt: skip
    CLEANER_OFFSET = (
        "cleaner-offset", Severity.WARNING,
        "The cleaner's offset is beyond the end of the log.",
    )  # fmt: skip
    LOG_START_OFFSET = (
        "log-start-offset", Severity.ERROR,
        "The log start offset is beyond the end of the log.",
    )  # fmt: skip
    NO_SEGMENT = (
        "no-segment", Severity.WARNING,
        "A partition directory holds no segment.",
    )  # fmt: skip
    FILE_UNREADABLE = (
        "file-unreadable", Severity.ERROR,
        "The disk refuses to read a file.",
    )  # fmt: skip
    GONE = (
        "gone", Severity.INFO,
        "A segment or a partition was deleted while it was checked.",
    )  # fmt: skip
    LEFTOVER = (
        "leftover", Severity.INFO,
        "A file is left over from a deletion, a cleaning or a write.",
    )  # fmt: skip
    LEFTOVER_SWAP = (
        "leftover-swap", Severity.WARNING,
        "A cleaned segment waits to take its place.",
    )  # fmt: skip
    FOREIGN = (
        "foreign", Severity.INFO,
        "A file is not one of a broker's.",
    )  # fmt: skip
    MOVED_DIRECTORY = (
        "moved-directory", Severity.INFO,
        "A partition is being deleted, or moved to this directory.",
    )  # fmt: skip
    PARTITION_TWICE = (
        "partition-twice", Severity.ERROR,
        "One broker has a partition in two data directories.",
    )  # fmt: skip
