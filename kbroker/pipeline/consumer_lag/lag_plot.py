"""Plots lags: bars of the last look and, after several looks, how lags went."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbroker.pipeline.consumer_lag.lag_figures import Standing

_BARS = 15
_LEAST_BARS = 4  # room for so many, or a single one would be a wall
_LINES = 8
_NAME = 32  # characters of a group or topic
_THOUSANDS = "{x:,.6g}"


class Ranking(NamedTuple):
    """The standings of one look."""

    taken_ms: int  # Unix ms
    standings: Sequence[Standing]


def write_plot(path: Path, rankings: Sequence[Ranking]) -> None:
    """Write an .svg or .png whole or not at all; `rankings` in the order of time, at least one."""
    has_course = len(rankings) > 1
    figure = Figure(figsize=(11, 9 if has_course else 4.5), layout="constrained")
    axes = figure.subplot_mosaic("AB;CC" if has_course else "AB")
    shown = rankings[-1].standings[:_BARS][::-1]
    _bars(axes["A"], [row.lag for row in shown], "lag, records")
    axes["A"].set_yticks(range(len(shown)), [_name(row) for row in shown])
    _bars(axes["B"], [row.lag_s for row in shown], "lag, seconds")
    axes["B"].set_yticks([])  # the same as at the left
    if has_course:
        _course(axes["C"], rankings)
    taken = datetime.fromtimestamp(rankings[-1].taken_ms / 1_000, UTC)
    figure.suptitle(f"Groups behind, {taken:%Y-%m-%d %H:%M:%S} UTC")
    partial = path.with_name(f".{path.name}.partial")
    figure.savefig(partial, format=path.suffix.removeprefix("."))
    os.replace(partial, path)


def _name(row: Standing) -> str:
    return f"{_short(row.group)}\n{_short(row.topic)}"


def _short(name: str) -> str:
    """Keep both ends of a long name: services share beginnings, and end in their numbers."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 + 1 :]}"


def _bars(axes: Axes, lengths: Sequence[float | None], title: str) -> None:
    """Draw bars from the top; None for an unknown length."""
    bars = axes.barh(range(len(lengths)), [length or 0 for length in lengths], color="#4878a8")
    labels = ["not known" if length is None else f"{length:,.6g}" for length in lengths]
    axes.bar_label(bars, labels=labels, padding=3)
    axes.margins(x=0.25)
    axes.set_ylim(min(len(lengths) - _LEAST_BARS, 0) - 0.6, max(len(lengths), 1) - 0.4)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(_THOUSANDS)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)


def _course(axes: Axes, rankings: Sequence[Ranking]) -> None:
    seconds = [(ranking.taken_ms - rankings[0].taken_ms) / 1_000 for ranking in rankings]
    lags = [{(r.group, r.topic): r.lag for r in ranking.standings} for ranking in rankings]
    for name in [(row.group, row.topic) for row in rankings[-1].standings[:_LINES]]:
        known = [(at, lag[name]) for at, lag in zip(seconds, lags, strict=True) if name in lag]
        axes.plot(*zip(*known, strict=True), marker=".", label=" of ".join(map(_short, name)))
    axes.yaxis.set_major_formatter(_THOUSANDS)
    axes.set_ylim(bottom=0)
    axes.set_title("lag, records, by seconds since the first look")
    axes.spines[["top", "right"]].set_visible(False)
    if rankings[-1].standings:
        axes.legend(frameon=False)
