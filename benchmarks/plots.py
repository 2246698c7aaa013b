"""`python -m benchmarks.plots FIGURES.json PLOT.svg` draws what `python -m benchmarks spark
--versus-apache --save FIGURES.json` measured, or `pipeline --only or`: records per second, kbroker beside Apache Kafka.

One picture for light and for dark pages: nothing behind it, and colours that both can carry.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, and in the page's own font
mpl.rcParams["svg.hashsalt"] = "kbroker"  # the same figures make the same file
mpl.rcParams["font.family"] = "sans-serif"

_INK = "#7d8590"
_COLOURS = {"kbroker": "#2f81f7", "apache": "#d29922"}
_LABELS = {"kbroker": "kbroker", "apache": "Apache Kafka"}
_BAR = 0.38
_FIGURE = "records_per_s"
_OTHER_SIZE = "100 B"  # all others have records of 1 KB, which one scale can show


def main(figures: Path, plot: Path) -> None:
    """Draw every load of 1 KB records that has a rate, from top to bottom as measured."""
    from matplotlib import pyplot

    rows = [
        (entry["load"], entry["medians"])
        for entry in json.loads(figures.read_text())
        if entry["figure"] == _FIGURE and _OTHER_SIZE not in entry["load"]
    ]
    drawing, axes = pyplot.subplots(figsize=(7.2, 0.52 * len(rows) + 0.8))
    for place, (_, medians) in enumerate(rows):
        for number, broker in enumerate(name for name in _COLOURS if name in medians):
            rate = medians[broker]
            height = place + (number - 0.5) * _BAR
            label = _LABELS[broker] if place == 0 else None
            axes.barh(height, rate, _BAR * 0.92, color=_COLOURS[broker], label=label)
            axes.text(rate, height, f" {rate:,.0f}", va="center", color=_INK, fontsize=8)
    axes.set_yticks(
        range(len(rows)), [name.partition(": ")[2] or name for name, _ in rows], fontsize=9
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 1.16 * max(rate for _, medians in rows for rate in medians.values()))
    axes.set_xticks([])
    axes.set_xlabel("records of 1 KB per second, 2 cores", color=_INK, fontsize=9)
    axes.tick_params(colors=_INK, length=0)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=_INK, fontsize=9, loc="lower right")
    drawing.savefig(plot, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
