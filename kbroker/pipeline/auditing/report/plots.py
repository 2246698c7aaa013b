"""The plots of a report, as SVG for a page: records per window, and which offsets each side covers.
The same report always gives the same bytes.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kbroker.inspection.finding import Severity
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.audit_report import AuditReport, PartitionSides
from kbroker.pipeline.auditing.window_counts import DAY_MS, Windows

LOG_COLOR: Final = "#2f6fb2"
ARCHIVE_COLOR: Final = "#3a9a6b"
CLUSTER_COLOR: Final = "#8a6bb1"
ERROR_COLOR: Final = "#c8372d"

_TOPIC_COLORS = (
    "#2f6fb2", "#d98b2b", "#3a9a6b", "#8a6bb1", "#b0543f", "#5aa7c7", "#8f9a3a", "#c26a9d",
)  # fmt: skip
_OTHER_COLOR = "#b8bec6"
_INK, _FAINT = "#3c4652", "#d9dee4"
_BARS = 120
_PARTITIONS = 40
_TICKS = 8
_LAST_MS = 253_402_300_799_000  # of the year 9999, the last that dates have


def records_per_window(report: AuditReport) -> str | None:
    """Draw bars of records by time and topic, and the archive's beside them; None: no record."""
    by_topic = _counts(report)
    starts = sorted({start for counts in by_topic.values() for start in counts if start >= 0})
    if not starts:
        return None
    bins = _bins(starts)
    figure, axes = _figure(9.6, 3.2)
    bottom = [0] * len(bins)
    topics = sorted(by_topic, key=lambda topic: (-sum(by_topic[topic].values()), topic))
    legend: list[tuple[Any, str]] = []
    shown, rest = topics[: len(_TOPIC_COLORS)], topics[len(_TOPIC_COLORS) :]
    for topic, color in zip(shown, _TOPIC_COLORS, strict=False):
        bars, bottom = _stack(axes, bins, [by_topic[topic]], bottom, color)
        legend.append((bars, topic))
    if rest:
        bars, _ = _stack(axes, bins, [by_topic[topic] for topic in rest], bottom, _OTHER_COLOR)
        legend.append((bars, f"{len(rest)} more"))
    line = _archive_line(axes, bins, report)
    if line is not None:
        legend.append((line, "archive"))
    step = max(1, len(bins) // _TICKS)
    places = range(0, len(bins), step)
    is_day = report.request.window_ms >= DAY_MS
    axes.set_xticks(list(places), [_time(bins[at][0], is_day=is_day) for at in places])
    axes.set_xlim(-0.6, max(len(bins) - 0.4, 5.4))
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=_FAINT, linewidth=0.7)
    handles, labels = zip(*legend, strict=True)  # else labels that begin with "_" are skipped
    axes.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8
    )
    return _svg(figure)


def offsets_covered(report: AuditReport) -> str | None:
    """Draw a row for each partition: the offsets that log, archive and cluster have, and where
    errors are. Every row has its own scale; partitions with findings come first.
    """
    ordered = sorted(
        report.partitions, key=lambda each: (-each.errors, -each.warnings, _span(each))
    )
    chosen = sorted(ordered[:_PARTITIONS], key=lambda each: each.topic_partition)
    chosen = [each for each in chosen if _edges(each) is not None]
    if not chosen:
        return None
    figure, axes = _figure(9.6, 0.9 + 0.34 * len(chosen))
    marks = _error_offsets(report)
    for row, sides in enumerate(chosen):
        _coverage_row(axes, len(chosen) - 1 - row, sides, marks.get(sides.topic_partition, []))
    axes.set_yticks(range(len(chosen)), [str(each.topic_partition) for each in reversed(chosen)])
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.7, len(chosen) - 0.3)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    request = report.request
    for is_there, name, color in (
        (request.directories, "log", LOG_COLOR),
        (request.archive, "archive", ARCHIVE_COLOR),
        (request.bootstrap, "cluster", CLUSTER_COLOR),
    ):
        if is_there:
            axes.plot([], [], color=color, linewidth=5, label=name)
    if report.count(Severity.ERROR):
        axes.plot([], [], color=ERROR_COLOR, marker="|", linestyle="", markersize=9, label="error")
    axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize=8,
        borderaxespad=0.2,
    )  # fmt: skip
    return _svg(figure)


def _coverage_row(axes: Any, row: int, sides: PartitionSides, errors: Sequence[int]) -> None:
    edges = _edges(sides)
    assert edges is not None
    low, high = edges
    width = max(high - low, 1)
    bars: list[tuple[list[tuple[int, int]], str, float]] = []
    logs = [(log.range.start, log.range.end) for log in sides.logs if log.range]
    archive = [tuple(stretch) for stretch in sides.archive.stretches] if sides.archive else []
    cluster = [(sides.cluster.start, sides.cluster.end)] if sides.cluster else []
    bars.append((logs, LOG_COLOR, 0.22))
    bars.append(([(start, end) for start, end in archive], ARCHIVE_COLOR, 0.0))
    bars.append((cluster, CLUSTER_COLOR, -0.22))
    for stretches, color, shift in bars:
        spans = [((start - low) / width, (end - start) / width) for start, end in stretches]
        axes.broken_barh(spans, (row + shift - 0.09, 0.18), color=color)
    places = [(offset - low) / width for offset in errors if low <= offset <= high]
    axes.plot(places, [row] * len(places), "|", color=ERROR_COLOR, markersize=15, markeredgewidth=2)
    style = {"fontsize": 6.5, "color": _INK, "va": "center"}
    axes.text(1.025, row, f"{low} to {high}", clip_on=False, **style)


def _edges(sides: PartitionSides) -> tuple[int, int] | None:
    numbers = [n for log in sides.logs if log.range for n in (log.range.start, log.range.end)]
    if sides.archive is not None:
        numbers += [number for stretch in sides.archive.stretches for number in stretch]
    if sides.cluster is not None:
        numbers += [sides.cluster.start, sides.cluster.end]
    return (min(numbers), max(numbers)) if numbers and max(numbers) > min(numbers) else None


def _span(sides: PartitionSides) -> tuple[int, TopicPartition]:
    edges = _edges(sides)
    return (-(edges[1] - edges[0]) if edges else 0, sides.topic_partition)


def _error_offsets(report: AuditReport) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for each in report.findings:
        offset = each.finding.offset
        if each.topic_partition and offset is not None and each.finding.severity is Severity.ERROR:
            found.setdefault(each.topic_partition, []).append(offset)
    return found


def _counts(report: AuditReport) -> dict[str, Counter[int]]:
    """Return records by topic and window start, from the first side that has the partition."""
    found: dict[str, Counter[int]] = {}
    for sides in report.partitions:
        counts = found.setdefault(sides.topic_partition.topic, Counter())
        for start, count in _windows(sides).items():
            counts[start] += count.records
    return {topic: counts for topic, counts in found.items() if sum(counts.values())}


def _windows(sides: PartitionSides) -> Windows:
    if sides.logs:
        return sides.logs[0].windows
    if sides.archive is not None:
        return sides.archive.windows
    return sides.cluster_windows or {}


def _bins(starts: Sequence[int]) -> list[Sequence[int]]:
    """Return windows with records, so many to a bar that the bars fit."""
    size = -(-len(starts) // _BARS)
    return [starts[at : at + size] for at in range(0, len(starts), size)]


def _stack(
    axes: Any,
    bins: Sequence[Sequence[int]],
    counts: Sequence[Counter[int]],
    bottom: list[int],
    color: str,
) -> tuple[Any, list[int]]:
    heights = [sum(each[start] for each in counts for start in part) for part in bins]
    bars = axes.bar(range(len(bins)), heights, 0.86, bottom=bottom, color=color)
    return bars, [low + height for low, height in zip(bottom, heights, strict=True)]


def _archive_line(axes: Any, bins: Sequence[Sequence[int]], report: AuditReport) -> Any:
    """Draw the archive's counts of partitions that a log has too; None if it has nothing."""
    counts: Counter[int] = Counter()
    for sides in report.partitions:
        if sides.logs and sides.archive is not None:
            for start, count in sides.archive.windows.items():
                counts[start] += count.records
    if not counts:
        return None
    heights = [sum(counts[start] for start in part) for part in bins]
    (line,) = axes.step(range(len(bins)), heights, where="mid", color=_INK, linewidth=1.2)
    return line


def _time(start_ms: int, *, is_day: bool) -> str:
    if start_ms > _LAST_MS:
        return "later"
    return datetime.fromtimestamp(start_ms / 1000, UTC).strftime(
        "%Y-%m-%d" if is_day else "%Y-%m-%d\n%H:00"
    )


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    axes.tick_params(colors=_INK, labelsize=8)
    axes.yaxis.label.set_color(_INK)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Any) -> str:
    import matplotlib as mpl

    buffer = io.StringIO()
    settings: Any = {"svg.hashsalt": "kbroker", "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
