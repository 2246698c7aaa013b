"""Findings and counts as Parquet tables, for further work in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.pipeline.auditing.audit_report import AuditReport, window_rows
from kbroker.pipeline.errors import PipelineError

FINDINGS_FILE: Final = "findings.parquet"
COUNTS_FILE: Final = "counts.parquet"

_FINDINGS: Final = pa.schema(
    [
        ("severity", pa.string()), ("code", pa.string()), ("side", pa.string()),
        ("topic", pa.string()), ("partition", pa.int32()), ("path", pa.string()),
        ("position", pa.int64()), ("offset", pa.int64()), ("what", pa.string()),
        ("advice", pa.string()),
    ]
)  # fmt: skip
_COUNTS: Final = pa.schema(
    [
        ("side", pa.string()), ("topic", pa.string()), ("partition", pa.int32()),
        ("window_start_ms", pa.int64()), ("records", pa.int64()), ("markers", pa.int64()),
        ("batches", pa.int64()), ("size_bytes", pa.int64()), ("min_timestamp_ms", pa.int64()),
        ("max_timestamp_ms", pa.int64()), ("compression_ratio", pa.float64()),
        ("path", pa.string()),
    ]
)  # fmt: skip


def write_tables(report: AuditReport, directory: str) -> list[str]:
    """Write both tables, over earlier ones; return their paths. Raises PipelineError."""
    tables = {
        FINDINGS_FILE: _table([each.row() for each in report.findings], _FINDINGS),
        COUNTS_FILE: _table(window_rows(report), _COUNTS),
    }
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            temporary = Path(directory, f"{name}.tmp")
            pq.write_table(table, temporary)
            temporary.rename(Path(directory, name))
    except OSError as error:
        raise PipelineError(
            f"the tables cannot be written to {directory}: {error.strerror or error}"
        ) from error
    return [f"{directory}/{name}" for name in tables]


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema)
