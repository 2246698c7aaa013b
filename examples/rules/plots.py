"""Plots that several examples have: a line for each key, over the windows that were reported."""

from __future__ import annotations

from matplotlib.axes import Axes


def lines_by_window(
    axes: Axes, rows: list[dict[str, object]], *, key: str, value: str, threshold: float
) -> None:
    """What the rows say of each key, by the beginning of the window."""
    starts = sorted({str(row["window_start"]) for row in rows})
    for name in sorted({str(row[key]) for row in rows}):
        own = [row for row in rows if row[key] == name]
        own.sort(key=lambda row: str(row["window_start"]))
        at = [starts.index(str(row["window_start"])) for row in own]
        axes.plot(at, [float(str(row[value])) for row in own], "o-", label=name)
    axes.axhline(threshold, color="grey", linestyle="--", linewidth=1)
    shown = range(0, len(starts), max(1, len(starts) // 12))
    axes.set_xticks(shown, [starts[number][11:16] for number in shown])
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=4)
