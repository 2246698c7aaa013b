from __future__ import annotations

import click
import pytest

from kbroker.cli.arguments.time_argument import duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("2h", 7_200), ("1d", 86_400)]
)
def test_a_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "0s", "1 week"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as"):
        duration(text)
