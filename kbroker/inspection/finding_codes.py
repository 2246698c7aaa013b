"""The faults that a log directory can have: one table for commands, audit and pages. The codes of
archives and clusters are in `kbroker.pipeline.finding_codes`.
"""

from __future__ import annotations

from kbroker.inspection.finding import FindingKind, error, info, warning


class FindingCode(FindingKind):
    """The kinds of findings about log directories. What to do depends on where they lie."""

    # What records and batches have
    BATCH_CRC = error("The checksum of a batch is not that of its bytes.")
    BATCH_TORN = error("A batch is cut short.")
    SEGMENT_GARBAGE = error("Bytes of a segment are not a batch.")
    SEGMENT_ZEROS = warning("A segment ends with zeros.")
    BATCH_ORDER = error("A batch does not begin after the one before it.")
    BATCH_BEFORE_SEGMENT = error("A batch begins before its segment.")
    BATCH_BEYOND_SEGMENT = error("A batch lies too far after the beginning of its segment.")
    BATCH_HEADER = error("A batch's header contradicts itself.")
    BATCH_CONTROL = error("A transaction's marker cannot be read.")
    BATCH_RECORDS = error("The records of a batch are not what its header says (deep look).")
    BATCH_TIMESTAMP = warning(
        "The newest record of a batch is not as new as its header says (deep look)."
    )
    BATCH_TOO_LARGE = warning("A batch is too large to be checked.")
    SEGMENT_OVERLAP = error("A segment begins before the one before it ends.")
    SEGMENT_MISSING = error("Offsets are missing where a segment ends: the next one is gone.")
    GAP = error("Offsets are missing; an info where compaction explains it.")
    SEQUENCE_GAP = error(
        "An idempotent producer's sequence jumps: what it sent in between is gone."
    )
    SEQUENCE_DUPLICATE = error(
        "An idempotent producer's sequence repeats: records are there twice."
    )
    PRODUCER_EPOCH = error("A producer writes with an epoch that was fenced before.")
    TIMESTAMP_FUTURE = warning("A batch is from the future.")
    TIMESTAMP_NEGATIVE = warning("A batch has a time before 1970 that is not -1.")
    TIMESTAMP_ORDER = warning("A batch's first time is later than its newest.")
    TIMESTAMP_BEHIND = info("A batch is more than a day older than one before it.")
    # Indexes
    INDEX_MISSING = warning("An index file is missing.")
    INDEX_SIZE = warning("The size of an index file is not a multiple of its entries'.")
    INDEX_ORPHAN = warning("There is an index without its segment.")
    INDEX_ORDER = error("Entries of an offset index do not rise.")
    INDEX_ENTRY = error("An entry of an offset index does not point to its batch.")
    INDEX_BEYOND = error("An entry of an offset index points beyond the last batch.")
    INDEX_ZEROS = warning("Zeros follow the entries of a closed segment's index.")
    TIMEINDEX_ORDER = error("Entries of a time index fall.")
    TIMEINDEX_ENTRY = error("An entry of a time index has not the newest time up to its offset.")
    TIMEINDEX_BEYOND = error("An entry of a time index is after the last offset.")
    TIMEINDEX_SHORT = error("A time index does not know the newest time of its segment.")
    TXNINDEX_UNREADABLE = warning("A transaction index cannot be read.")
    TXNINDEX_ORDER = error("Entries of a transaction index do not rise.")
    TXNINDEX_ENTRY = error("An entry of a transaction index is not that of its transaction.")
    TXNINDEX_MISSING = error("An aborted transaction has no entry: its records would be served.")
    TXNINDEX_BEYOND = error("An entry of a transaction index is after the last offset.")
    # Other files, and the directory
    SNAPSHOT = warning("A snapshot of producers cannot be used.")
    SNAPSHOT_BEYOND = warning("A snapshot of producers is beyond the end of the log.")
    SNAPSHOT_MISSING = warning("A segment has no snapshot of producers.")
    EPOCHS_UNREADABLE = warning("The file of leader epochs cannot be read.")
    EPOCHS_ORDER = warning("Leader epochs do not rise.")
    EPOCHS_WRONG = warning("A batch has another leader epoch than the file says.")
    EPOCHS_MISSING = warning("The file of leader epochs lacks one that batches carry.")
    EPOCHS_BEYOND = warning("A leader epoch begins after the end of the log.")
    PARTITION_METADATA = error("The file of the topic id cannot be read.")
    TOPIC_ID = error("Partitions of a topic have different topic ids.")
    META_PROPERTIES = error("The ids of cluster and broker cannot be read.")
    CHECKPOINT_UNREADABLE = warning("A checkpoint file of the data directory cannot be read.")
    CHECKPOINT_EMPTY = warning("A checkpoint file of the data directory is empty.")
    RECOVERY_POINT = error("The recovery point is beyond the end of the log.")
    HIGH_WATERMARK = warning("The high watermark is beyond the end of the log.")
    CLEANER_OFFSET = warning("The cleaner's offset is beyond the end of the log.")
    LOG_START_OFFSET = error("The log start offset is beyond the end of the log.")
    NO_SEGMENT = warning("A partition directory holds no segment.")
    FILE_UNREADABLE = error("The disk refuses to read a file.")
    GONE = info("A segment or a partition was deleted while it was checked.")
    LEFTOVER = info("A file is left over from a deletion, a cleaning or a write.")
    LEFTOVER_SWAP = warning("A cleaned segment waits to take its place.")
    FOREIGN = info("A file is not one of a broker's.")
    MOVED_DIRECTORY = info("A partition is being deleted, or moved to this directory.")
    PARTITION_TWICE = error("One broker has a partition in two data directories.")
