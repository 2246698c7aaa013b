"""The options of the source "kbroker-log": from texts to values, with a sentence for each mistake.

path                 data directories (entries of log.dirs) or partition directories; several by
                     comma, or as a list given to load()
topics               topics by name, by comma (`subscribe` is taken too); internal ones only so
topicsPattern        a regular expression for whole names (`subscribePattern`)
partitions           numbers, by comma
includeInternal      true: without `topics`, internal topics too
detail               record (one row for each record) or batch (one for each batch, from its
                     header: nothing is unpacked)
columns              which, by comma; a schema given by schema() does the same
isolation.level      read_committed (what consumers of transactions see; for records the
                     default: an archive must not keep what was aborted), read_uncommitted (all
                     records up to the high watermark; the default for batches)
includeControl       true: transaction markers are rows too
startingOffsets      earliest, latest or JSON as of Spark's Kafka source, {"topic": {"0": 23}}
endingOffsets        the same. Partitions that JSON does not name: those of startingOffsets
                     begin with their first record, those of endingOffsets are not read
startingTimestamp    Unix ms: only records that have this time or a later one
endingTimestamp      Unix ms, exclusive
failOnDataLoss       true: what retention took before it was read ends the query, and so does a
                     topic that was deleted, or created again while the query ran
onDamage             fail, or skip: broken batches are left out, and reported in the log
maxRecordsPerTrigger at most so many offsets in one batch of a stream
maxPartitionBytes    of log for one task, at most (134217728)
minPartitions        so many tasks, if there is enough to read (two for each processor)
pushFilters          true: filters by topic, partition, offset and time spare reading, if pyspark
                     is 4.1 or later and spark.sql.python.filterPushdown.enabled is set. Not the
                     default, because Spark 4.1 to 4.3 (SPARK-58551 mends it for 5.0) keeps one plan
                     for all that is made of one load(), that of the filter it saw last: a union of
                     two filters, or a count() after a filter, misses rows. So load again for each
                     use. The options topics, partitions, startingOffsets, endingOffsets and
                     startingTimestamp spare the same reading with any version, and are always safe
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from kbroker.near_names import did_you_mean
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import Selection
from kbroker.pipeline.logdir.planning.splits import MAX_PARTITION_BYTES, SplitOptions
from kbroker.pipeline.spark_job.offsets import Offsets, parse_offsets

OPTIONS = (
    "columns",
    "detail",
    "endingOffsets",
    "endingTimestamp",
    "failOnDataLoss",
    "includeControl",
    "includeInternal",
    "isolation.level",
    "maxPartitionBytes",
    "maxRecordsPerTrigger",
    "minPartitions",
    "onDamage",
    "partitions",
    "path",
    "pushFilters",
    "startingOffsets",
    "startingTimestamp",
    "topics",
    "topicsPattern",
)
_ALIASES = {
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
    "kafka.isolation.level": "isolation.level",
}
_GIVEN_BY_SPARK = {"paths"}  # what load() makes of a list
_CANONICAL = {name.lower(): name for name in OPTIONS} | _ALIASES | {p: p for p in _GIVEN_BY_SPARK}

Edge = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options as values. Times in Unix ms, `max_timestamp_ms` inclusive."""

    paths: tuple[str, ...]
    selection: Selection = Selection()  # noqa: RUF009 - a frozen value
    is_batch_detail: bool = False
    columns: tuple[str, ...] | None = None  # None: those of the schema
    is_committed: bool = True
    includes_control: bool = False
    starting_offsets: Edge | Offsets = "earliest"
    ending_offsets: Edge | Offsets = "latest"
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    fails_on_data_loss: bool = True
    skips_damage: bool = False
    takes_filters: bool = False
    max_records: int | None = None  # per trigger of a stream
    splits: SplitOptions = SplitOptions()  # noqa: RUF009 - a frozen value


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Turn texts into values. Raises PipelineError for the first that is wrong."""
    texts: dict[str, str] = {}
    for key, text in given.items():
        name = _CANONICAL.get(key.lower())
        if name is None:
            refuse_name(key, OPTIONS, "option")
        texts[name] = text
    return _Texts(texts).options()


def refuse_name(name: str, known: Sequence[str], kind: str) -> NoReturn:
    """Raise a PipelineError for an unknown name, with the nearest known one."""
    hint = did_you_mean(name, known, shown=1) or f": there are {', '.join(known)}"
    raise PipelineError(f"kbroker-log has no {kind} {name}{hint}", ExitCode.USAGE)


class _Texts:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def options(self) -> SourceOptions:
        is_batch_detail = self._one_of("detail", ("record", "batch"), "record") == "batch"
        isolation = self._one_of(
            "isolation.level",
            ("read_committed", "read_uncommitted"),
            "read_uncommitted" if is_batch_detail else "read_committed",
        )
        for name in ("startingTimestamp", "endingTimestamp"):
            if is_batch_detail and name in self._texts:
                self._refuse(name, "left out with detail=batch: filter by maxTimestamp instead")
        ending_ms = self._number("endingTimestamp")
        starting_ms = self._number("startingTimestamp")
        if starting_ms is not None and ending_ms is not None and ending_ms <= starting_ms:
            self._refuse("endingTimestamp", f"a time after startingTimestamp, {starting_ms}")
        return SourceOptions(
            paths=self._paths(),
            selection=self._selection(),
            is_batch_detail=is_batch_detail,
            columns=self._names("columns"),
            is_committed=isolation == "read_committed",
            includes_control=self._flag("includeControl", default=False),
            starting_offsets=self._offsets("startingOffsets", "earliest"),
            ending_offsets=self._offsets("endingOffsets", "latest"),
            min_timestamp_ms=starting_ms,
            max_timestamp_ms=ending_ms - 1 if ending_ms is not None else None,
            fails_on_data_loss=self._flag("failOnDataLoss", default=True),
            skips_damage=self._one_of("onDamage", ("fail", "skip"), "fail") == "skip",
            takes_filters=self._flag("pushFilters", default=False),
            max_records=self._number("maxRecordsPerTrigger", at_least=1),
            splits=SplitOptions(
                max_partition_bytes=self._number("maxPartitionBytes", at_least=1)
                or MAX_PARTITION_BYTES,
                min_partitions=self._number("minPartitions", at_least=1),
                min_timestamp_ms=starting_ms,
            ),
        )

    def _paths(self) -> tuple[str, ...]:
        paths = list(self._names("path") or ())
        if "paths" in self._texts:
            paths += json.loads(self._texts["paths"])
        if not paths:
            raise PipelineError(
                "kbroker-log needs a path: a data directory of a broker or a partition directory, "
                'as load("/var/lib/kbroker") or option("path", ...)',
                ExitCode.USAGE,
            )
        return tuple(paths)

    def _selection(self) -> Selection:
        topics, pattern = self._names("topics"), self._texts.get("topicsPattern")
        if topics is not None and pattern is not None:
            raise PipelineError(
                "kbroker-log takes topics or topicsPattern, not both", ExitCode.USAGE
            )
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                self._refuse("topicsPattern", f"a regular expression ({error})")
        partitions = self._names("partitions")
        if partitions is not None and not all(text.isdecimal() for text in partitions):
            self._refuse("partitions", "numbers separated by commas")
        return Selection(
            topics=frozenset(topics) if topics is not None else None,
            pattern=pattern,
            partitions=frozenset(map(int, partitions)) if partitions is not None else None,
            includes_internal=self._flag("includeInternal", default=False),
        )

    def _offsets(self, name: str, default: Edge) -> Edge | Offsets:
        text = self._texts.get(name, default).strip()
        if text.lower() == "earliest":
            return "earliest"
        if text.lower() == "latest":
            return "latest"
        try:
            offsets = parse_offsets(text)
        except ValueError as error:
            self._refuse(name, f'earliest, latest or JSON as {{"topic": {{"0": 23}}}} ({error})')
        if any(offset < -2 for offset in offsets.values()):
            self._refuse(name, "offsets from 0 on, or -2 for the earliest and -1 for the latest")
        return offsets

    def _names(self, name: str) -> tuple[str, ...] | None:
        if name not in self._texts:
            return None
        found = tuple(part.strip() for part in self._texts[name].split(",") if part.strip())
        if not found:
            self._refuse(name, "at least one, separated by commas")
        return found

    def _number(self, name: str, at_least: int = 0) -> int | None:
        text = self._texts.get(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) < at_least:
            self._refuse(name, f"a number, at least {at_least}")
        return int(text)

    def _flag(self, name: str, *, default: bool) -> bool:
        return self._one_of(name, ("true", "false"), str(default).lower()) == "true"

    def _one_of(self, name: str, values: tuple[str, ...], default: str) -> str:
        text = self._texts.get(name, default).strip().lower()
        if text not in values:
            self._refuse(name, " or ".join(values) + did_you_mean(text, values, shown=1))
        return text

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        text = self._texts[name]
        raise PipelineError(f"kbroker-log: {name} is {text!r}, it must be {wanted}", ExitCode.USAGE)
