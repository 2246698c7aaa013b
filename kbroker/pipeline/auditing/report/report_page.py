"""The report as one HTML page that needs nothing else: no network, no script, pictures inside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbroker.inspection.finding import Severity
from kbroker.pipeline.auditing.audit_finding import AuditFinding
from kbroker.pipeline.auditing.audit_report import AuditReport, partition_rows
from kbroker.pipeline.auditing.report.plots import offsets_covered, records_per_window
from kbroker.pipeline.auditing.window_counts import HOUR_MS
from kbroker.pipeline.errors import PipelineError

_TEMPLATE = "report.html.jinja"
_FINDINGS = 1_000  # in the page
_MEGABYTE = 1_000_000


def write_page(report: AuditReport, path: str) -> None:
    """Write the page, over an earlier one. Raises PipelineError."""
    page = render_page(report)
    temporary = Path(f"{path}.tmp")
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page, encoding="utf-8")
        temporary.rename(path)
    except OSError as error:
        raise PipelineError(
            f"the report cannot be written to {path}: {error.strerror or error}"
        ) from error


def render_page(report: AuditReport) -> str:
    """Return the page as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def picture(svg: str | None) -> Markup | None:
        return Markup(svg) if svg is not None else None  # noqa: S704 - drawn here, names escaped

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    shown = report.findings[:_FINDINGS]
    met = sorted({each.finding.code for each in report.findings})
    return environment.get_template(_TEMPLATE).render(
        **_summary(report),
        findings=[_finding(each) for each in shown],
        left_out=len(report.findings) - len(shown),
        codes=[(code, code.meaning) for code in met],
        coverage=picture(offsets_covered(report)),
        windows=picture(records_per_window(report)),
        has_paths=len(report.request.directories) > 1,
        heads=[head for head, _ in _columns(report)],
        partitions=list(_partitions(report)),
    )


def verdict(report: AuditReport) -> str:
    """Return the outcome in a few words."""
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    if errors:
        return f"Data is at risk: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
    if warnings:
        return f"Nothing is lost, {_counted(warnings, 'warning')}"
    return "Everything is there"


def _summary(report: AuditReport) -> dict[str, Any]:
    request, totals = report.request, report.totals
    is_hour = request.window_ms == HOUR_MS
    depth = "every record was looked at" if request.is_deep else "headers and checksums of batches"
    counted = (
        "Each record is counted in its own window."
        if request.is_deep
        else "A batch is counted in the window of its newest record, a compressed message of an "
        "old format as one record; --deep counts single records."
    )
    tone = "error" if report.count(Severity.ERROR) else "fine"
    if tone == "fine" and report.count(Severity.WARNING):
        tone = "warning"
    sides = [f"directory {directory}" for directory in request.directories]
    sides += [f"archive {request.archive}"] if request.archive else []
    sides += [f"cluster {request.bootstrap}"] if request.bootstrap else []
    tiles = [
        (f"{len(report.partitions):,}", "partitions"),
        (f"{totals.records:,}", "records in logs"),
        (f"{totals.size_bytes / _MEGABYTE:,.1f} MB", f"in {totals.segments:,} segments"),
    ]
    if request.archive:
        rows = sum(each.archive.rows for each in report.partitions if each.archive)
        size = f"{report.archive_bytes / _MEGABYTE:,.1f} MB in {report.archive_files:,} files"
        tiles.append((f"{rows:,}", f"records in the archive, {size}"))
    if report.compared_records:
        tiles.append((f"{report.compared_records:,}", "records compared, log and archive"))
    return {
        "verdict": verdict(report),
        "tone": tone,
        "when": datetime.fromtimestamp(request.now_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "sides": sides,
        "scope": f"Looked at: {depth}; {report.cpu_s:.1f} s of CPU.",
        "tiles": [{"value": value, "name": name} for value, name in tiles],
        "window": "hour" if is_hour else "day",
        "counted": counted,
    }


def _finding(each: AuditFinding) -> dict[str, object]:
    row = each.row()
    places = [f"{name} {row[name]}" for name in ("position", "offset") if row[name] is not None]
    return {**row, "place": ", ".join(places), "meaning": each.finding.code.meaning}


def _columns(report: AuditReport) -> list[tuple[str, tuple[str, ...]]]:
    """Return head and fields of the columns that say something here; two fields are a range."""
    request = report.request
    columns: list[tuple[str, tuple[str, ...]]] = [
        ("Errors", ("errors",)),
        ("Warnings", ("warnings",)),
    ]
    if request.directories:
        columns += [("Log offsets", ("log_start", "log_end")), ("Records", ("records",)),
                    ("Bytes", ("bytes",))]  # fmt: skip
    if request.archive:
        columns += [("Archive offsets", ("archive_start", "archive_end")),
                    ("Archived", ("archived",)), ("Holes", ("holes",))]  # fmt: skip
    if request.bootstrap:
        columns += [("Cluster offsets", ("cluster_start", "cluster_end"))]
    return columns


def _partitions(report: AuditReport) -> Iterator[dict[str, object]]:
    tones = {"errors": "error", "warnings": "warning"}
    for row in partition_rows(report):
        cells = [
            {
                "text": " to ".join(f"{row[n]:,}" for n in fields if row[n] is not None),
                "tone": tones.get(fields[0]) if row[fields[0]] else None,
            }
            for _, fields in _columns(report)
        ]
        yield {**row, "path": row["path"] or "", "cells": cells}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
