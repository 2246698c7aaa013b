from __future__ import annotations

import pytest

from kbroker.client.moments import milliseconds_ago, timestamp_ms

NOW_MS = 1_795_257_570_000


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("-30s", 30_000),
        ("-15m", 900_000),
        ("-1h", 3_600_000),
        ("-2d", 172_800_000),
        ("1h", None),
        ("-1w", None),
        ("-h", None),
        ("", None),
        ("-1h ago", None),
    ],
)
def test_a_time_ago_is_a_number_and_a_unit(text: str, ago_ms: int | None) -> None:
    assert milliseconds_ago(text) == ago_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1h", NOW_MS - 3_600_000),
        ("2026-11-21T10:00:00", 1_795_255_200_000),
        ("2026-11-21T10:00:00+00:00", 1_795_255_200_000),
        ("2026-11-21T11:00:00+01:00", 1_795_255_200_000),
        ("2026-11-21", 1_795_219_200_000),
        ("now", NOW_MS),
        ("today", 1_795_219_200_000),
        ("yesterday", 1_795_132_800_000),
        ("tomorrow", None),
        ("2026-13-01", None),
    ],
)
def test_a_moment_is_a_time_ago_a_day_or_a_date(text: str, expected: int | None) -> None:
    assert timestamp_ms(text, NOW_MS) == expected
