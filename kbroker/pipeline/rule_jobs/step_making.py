"""Makes the next step of a job of rules from the one before and the records of a batch."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq

from kbroker.model import TopicPartition
from kbroker.pipeline.rule_jobs.far_times import FarTimes, far_time_facts
from kbroker.pipeline.rule_jobs.input_rows import BROKEN, LATE, OK, TIME_US, InputRows
from kbroker.pipeline.rule_jobs.partitions_look import PartitionsLook
from kbroker.pipeline.rule_jobs.rule_results import Results, RowsOfStep, evaluate
from kbroker.pipeline.rule_jobs.rule_spec import InputSpec, RuleSpec, RulesSpec
from kbroker.pipeline.rule_jobs.step_journal import RowFiles, RulesStep, StepJournal
from kbroker.pipeline.rule_jobs.step_outputs import OutputFiles, put_aside, result_records
from kbroker.pipeline.rule_jobs.watermarks import Closing, PartitionTime, last_end_us, watermark
from kbroker.pipeline.spark_job import functions as f

_MOST_FILES = 48  # of an input, before they are joined


class StepMaking:
    """One step; owned by the thread of the batches."""

    def __init__(
        self,
        spec: RulesSpec,
        spark: Any,
        journal: StepJournal,
        before: RulesStep,
        notes: list[str],
        now_us: int,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.rows_by_partition: dict[TopicPartition, int] = {}
        self.notes = notes
        self.ends = dict(before.ends)
        self._spec = spec
        self._spark = spark
        self._journal = journal
        self._before = before
        self._now_us = now_us
        self._begun_us = before.begun_us or now_us
        self._staging = journal.stage()
        self._outputs = OutputFiles(self._staging)
        self._inputs = {name: InputRows(each, spark) for name, each in spec.inputs.items()}
        self._partitions = {name: dict(found) for name, found in before.partitions.items()}
        self._far_times = FarTimes()
        self._timeless: dict[str, set[str]] = {}  # read in this step, nothing ever accepted
        self._rows = dict(before.rows)
        self._new: dict[str, RowFiles] = {}

    def of_batch(
        self, frame: Any, number: int, ends: Mapping[str, int], look: PartitionsLook | None
    ) -> RulesStep:
        """Make the step of a batch of records."""
        is_shared = len(self._inputs) > 1
        if is_shared:
            frame = frame.persist()
        try:
            for name in self._inputs:
                self._take_in(name, frame)
        finally:
            if is_shared:
                frame.unpersist()
        self.notes += self._far_times.notes()
        watermarks = self._watermarks(look)
        return self._made(number, ends, watermarks)

    def of_closing(self) -> RulesStep:
        """Make the step that ends all windows."""
        last = [
            last_end_us(max(p.newest_us for p in found.values()), rule.window_us, rule.slide_us)
            for rule in self._spec.rules.values()
            if rule.window_us is not None and rule.slide_us is not None
            for name in rule.sources
            if (found := self._partitions.get(name))
        ]
        watermarks = dict(self._before.watermarks)
        for name, spec in self._spec.inputs.items():
            if spec.watermark_us is not None and last:
                watermarks[name] = max(*last, watermarks.get(name, last[0]))
        return self._made(self._before.batch, self.ends, watermarks)

    def _take_in(self, name: str, frame: Any) -> None:
        """Sort the rows of an input; those that are accepted go into the new step."""
        spec, rows = self._spec.inputs[name], self._inputs[name]
        known = self._partitions.setdefault(name, {})
        watermark_us = self._before.watermarks.get(name)
        told = rows.told_apart(frame, watermark_us, known, self._now_us).persist()
        try:
            facts = (
                told.groupBy("_topic", "_partition", "_class")
                .agg(f.count("*").alias("rows"), f.min(TIME_US), f.max(TIME_US), *far_time_facts())
                .collect()
            )
            counts: Counter[str] = Counter()
            for topic, partition, kind, count, _, newest_us, *far in facts:
                counts[kind] += count
                place = TopicPartition(topic, partition)
                self._far_times.take(name, place, far)
                self.rows_by_partition[place] = self.rows_by_partition.get(place, 0) + count
                if kind == OK and newest_us is not None:
                    former = known.get(str(place))
                    newest_us = max(newest_us, former.newest_us if former else newest_us)
                    known[str(place)] = PartitionTime(newest_us, self._now_us)
            read = {str(TopicPartition(fact[0], fact[1])) for fact in facts}
            self._timeless[name] = read - known.keys()
            if counts[BROKEN] or counts[LATE]:
                self._outputs.add(put_aside(told, spec))
            if counts[OK]:
                times = [fact for fact in facts if fact[2] == OK]
                self._keep(name, told, times, counts)
        finally:
            told.unpersist()
        for kind in (BROKEN, LATE):
            self.counts[kind] += counts[kind]

    def _keep(self, name: str, told: Any, times: list[Any], counts: Counter[str]) -> None:
        rows = self._inputs[name]
        watermark_us = self._before.watermarks.get(name)
        accepted = told.filter(f.col("_class") == OK).select(*rows.stored_schema().fieldNames())
        kept = self._kept_rows(name, watermark_us) if rows.spec.dedupe else None
        accepted = rows.without_doubles(accepted, kept)
        path = self._staging / f"rows-{name}"
        accepted.write.parquet(f"file://{path}")
        count = _rows_in(path)
        self.counts["accepted"] += count
        self.counts["doubled"] += counts[OK] - count
        if count:
            self._new[name] = RowFiles(
                step=self._before.number + 1,
                rows=count,
                min_us=min((t[4] for t in times if t[4] is not None), default=0),
                max_us=max((t[5] for t in times if t[5] is not None), default=0),
            )

    def _watermarks(self, look: PartitionsLook | None) -> dict[str, int]:
        if look is None:  # an unread partition may be behind all others
            return dict(self._before.watermarks)
        found: dict[str, int] = {}
        for name, spec in self._spec.inputs.items():
            if spec.watermark_us is None:
                continue
            known = self._partitions.get(name, {})
            behind = set(look.behind)
            if self._now_us - self._begun_us < spec.idle_us:
                behind |= set(look.partitions) - known.keys()
            else:  # the partition may have broken records for ever
                behind -= self._timeless.get(name, set())
            made = watermark(
                self._before.watermarks.get(name),
                known,
                [each for each in behind if each.rpartition("-")[0] in spec.topics],
                self._now_us,
                delay_us=spec.watermark_us,
                idle_us=spec.idle_us,
            )
            if made is not None:
                found[name] = made
        return found

    def _made(
        self, batch: int, ends: Mapping[str, int], watermarks: Mapping[str, int]
    ) -> RulesStep:
        closings = {
            name: closing
            for name, rule in self._spec.rules.items()
            if (closing := self._closing(rule, watermarks)) is not None
        }
        step = RowsOfStep(
            accepted={name: self._accepted(name) for name in self._new},
            windowed=self._windowed,
            closings=closings,
            tables={name: self._table(name) for name in self._before.tables},
        )
        results = evaluate(self._spark, self._spec, step)
        try:
            tables = self._write_results(results)
        finally:
            results.close()
        before, is_silent = self._before, self._outputs.is_empty
        return RulesStep(
            number=before.number + 1,
            outputs_id=before.outputs_id if is_silent else uuid4().hex,
            follows_id=before.follows_id if is_silent else before.outputs_id,
            batch=batch,
            begun_us=self._begun_us,
            ends=dict(ends),
            watermarks=dict(watermarks),
            partitions=self._partitions,
            rows={name: self._needed(name, watermarks) for name in self._spec.inputs},
            tables=tables,
            shape=self._spec.shape(),
        )

    def _write_results(self, results: Results) -> dict[str, int]:
        """Write results for topics, and tables of rules that keep keys; return their steps."""
        rules, scores = self._spec.rules.values(), self._spec.scores.values()
        targets = {rule.name: (rule.to, rule.key or rule.by, rule.is_update) for rule in rules} | {
            score.name: (score.to, (score.by,), False) for score in scores
        }
        tables = dict(self._before.tables)
        for name, rows in results.rows.items():
            topic, key, is_kept = targets[name]
            if topic:
                self._outputs.add(result_records(rows, topic, key, is_kept=is_kept))
        for name, rows in results.tables.items():
            path = self._staging / f"table-{name}"
            rows.write.parquet(f"file://{path}")
            tables[name] = self._before.number + 1
        return tables

    def _closing(self, rule: RuleSpec, watermarks: Mapping[str, int]) -> Closing | None:
        """Return the windows of a rule that end in this step; None if there can be none."""
        if rule.window_us is None or rule.slide_us is None:
            return None
        until_us = self._closed_us(rule, watermarks)
        if until_us is None:
            return None
        after_us = self._closed_us(rule, self._before.watermarks)
        closing = Closing(after_us, until_us, rule.window_us, rule.slide_us)
        if closing.is_empty or not any(self._files(name, closing) for name in rule.sources):
            return None
        return closing

    def _closed_us(self, rule: RuleSpec, watermarks: Mapping[str, int]) -> int | None:
        names = self._spec.waits_for(rule)
        if any(name not in watermarks for name in names):
            return None
        return min(watermarks[name] for name in names)

    def _files(self, name: str, closing: Closing) -> list[RowFiles]:
        """Return the files of an input with rows that the windows may hold."""
        first_us = closing.first_row_us
        return [
            files
            for files in self._all_files(name)
            if files.min_us < closing.until_us and (first_us is None or files.max_us >= first_us)
        ]

    def _all_files(self, name: str) -> list[RowFiles]:
        new = [self._new[name]] if name in self._new else []
        return [*self._rows.get(name, ()), *new]

    def _windowed(self, name: str, closing: Closing) -> Any:
        rows = self._read(name, self._files(name, closing))
        rows = rows.filter(f.col(TIME_US) < closing.until_us)
        first_us = closing.first_row_us
        return rows if first_us is None else rows.filter(f.col(TIME_US) >= first_us)

    def _kept_rows(self, name: str, watermark_us: int | None) -> Any | None:
        """Return rows of earlier steps that new rows may double."""
        found = [
            files
            for files in self._rows.get(name, ())
            if watermark_us is None or files.max_us >= watermark_us
        ]
        if not found:
            return None
        rows = self._read(name, found)
        return rows if watermark_us is None else rows.filter(f.col(TIME_US) >= watermark_us)

    def _accepted(self, name: str) -> Any:
        return self._read(name, [self._new[name]])

    def _read(self, name: str, files: list[RowFiles]) -> Any:
        schema = self._inputs[name].stored_schema()
        paths = [f"file://{self._rows_path(name, each)}" for each in files]
        if not paths:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*paths)

    def _rows_path(self, name: str, files: RowFiles) -> Path:
        if files.step == self._before.number + 1:
            return self._staging / f"rows-{name}"
        return self._journal.rows_path(name, files.step)

    def _table(self, name: str) -> Any:
        path = self._journal.table_path(name, self._before.tables[name])
        return self._spark.read.parquet(f"file://{path}")

    def _needed(self, name: str, watermarks: Mapping[str, int]) -> tuple[RowFiles, ...]:
        """Return the files of an input that later steps may need, joined if they are many."""
        bound_us = self._bound_us(self._spec.inputs[name], watermarks)
        found = [each for each in self._all_files(name) if each.max_us >= bound_us]
        return tuple(found) if len(found) <= _MOST_FILES else (self._joined(name, found, bound_us),)

    def _bound_us(self, spec: InputSpec, watermarks: Mapping[str, int]) -> float:
        """Return the time before which no row is in an open window or can be doubled."""
        bounds = [math.inf]
        for rule in self._spec.rules.values():
            if rule.window_us is not None and spec.name in rule.sources:
                closed_us = self._closed_us(rule, watermarks)
                bounds.append(-math.inf if closed_us is None else closed_us - rule.window_us)
        if spec.dedupe:
            bounds.append(watermarks.get(spec.name, -math.inf))
        return min(bounds)

    def _joined(self, name: str, files: list[RowFiles], bound_us: float) -> RowFiles:
        """Return one directory, in the new step, with the rows of several."""
        rows = self._read(name, files)
        if bound_us > -math.inf:
            rows = rows.filter(f.col(TIME_US) >= int(bound_us))
        path, joined = self._staging / f"rows-{name}", self._staging / f"joined-{name}"
        rows.repartition(1).write.parquet(f"file://{joined}")
        shutil.rmtree(path, ignore_errors=True)
        joined.rename(path)
        return RowFiles(
            step=self._before.number + 1,
            rows=_rows_in(path),
            min_us=min(each.min_us for each in files),
            max_us=max(each.max_us for each in files),
        )


def _rows_in(path: Path) -> int:
    return sum(pq.read_metadata(each).num_rows for each in path.glob("*.parquet"))
