"""The plot of lags."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbroker.pipeline.consumer_lag.lag_figures import Standing


@pytest.fixture
def lag_plot() -> Any:
    """Imported by the process that draws: all collect this file, and matplotlib takes 0.6 s."""
    return pytest.importorskip("kbroker.pipeline.consumer_lag.lag_plot", reason="needs matplotlib")


def standing(group: str, lag: int) -> Standing:
    return Standing(
        group=group, topic="t", partitions=1, members=1, state="Stable", lag=lag, lag_s=1.5,
        consumed_per_s=None, produced_per_s=None, catch_up_s=None, falls_behind=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "start"), [("lag.svg", b"<?xml"), ("lag.png", b"\x89PNG")], ids=["svg", "png"]
)
def test_looks_are_drawn_and_nothing_else_is_left(
    lag_plot: Any, tmp_path: Path, name: str, start: bytes
) -> None:
    first = lag_plot.Ranking(1_000, [standing("a", 10)])
    second = lag_plot.Ranking(2_000, [standing("new", 7_000), standing("a", 5)])

    lag_plot.write_plot(tmp_path / name, [first, second])

    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_nobody_behind_is_a_plot_too(lag_plot: Any, tmp_path: Path) -> None:
    lag_plot.write_plot(tmp_path / "lag.svg", [lag_plot.Ranking(1_000, [])])

    assert (tmp_path / "lag.svg").stat().st_size > 1_000


def test_long_names_keep_both_ends_and_what_is_not_known_is_no_zero(
    lag_plot: Any, tmp_path: Path
) -> None:
    name = "prefix-that-all-services-of-the-company-share-7"

    row = replace(standing(name, 10), lag_s=None)

    lag_plot.write_plot(tmp_path / "lag.svg", [lag_plot.Ranking(1_000, [row])])

    said = re.findall(r"<!-- (.*) -->", (tmp_path / "lag.svg").read_text())
    assert "not known" in said
    assert [text for text in said if "…" in text] == [f"{name[:16]}…{name[-15:]}"]
