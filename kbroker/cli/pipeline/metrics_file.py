"""`--metrics FILE`: a line of JSON per batch, appended.

name, job_id      of the job
batch             its number, which grows by one from 0 on over all runs
finished_ms       Unix time in ms at which its work was done
seconds           of its work
rows, size_bytes  as the job counts them
backlog           offsets still to be read after it
lag_s             of a mirror: age of the oldest record that is not copied yet
ranges            {"topic": {"0": [start, end]}}, end exclusive
notes             sentences of the job
"""

from __future__ import annotations

import json
from pathlib import Path

from kbroker.cli.pipeline.written_paths import make_parents
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.batch import BatchReport


class MetricsFile:
    """Opened for each line, so that it can be moved away while the job runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> None:
        """Raises CommandError or PipelineError if it cannot be written: before any work, and not
        after the first batch.
        """
        make_parents(self._path, "--metrics")
        self._append("")

    def write(self, name: str, report: BatchReport) -> None:
        """Append the line of a batch of the job `name`. PipelineError if that fails."""
        self._append(json.dumps(_metrics_of(name, report)) + "\n")

    def _append(self, text: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise PipelineError(f"cannot write --metrics {self._path}: {error.strerror}") from error


def _metrics_of(name: str, report: BatchReport) -> dict[str, object]:
    ranges: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), each in sorted(report.ranges.items()):
        ranges.setdefault(topic, {})[str(partition)] = [each.start, each.end]
    return {
        "name": name,
        "job_id": report.job_id,
        "batch": report.number,
        "finished_ms": report.finished_ms,
        "seconds": round(report.seconds, 3),
        "rows": report.rows,
        "size_bytes": report.size_bytes,
        "backlog": report.backlog,
        "ranges": ranges,
        "notes": list(report.notes),
    } | ({} if report.lag_s is None else {"lag_s": round(report.lag_s, 3)})
