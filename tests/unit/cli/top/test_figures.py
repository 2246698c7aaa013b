"""Figures and names in the cells of the screen stay short, and steer no terminal."""

from __future__ import annotations

import pytest

from kbroker.cli.top.figures import amount, exact, inert, size, time_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"), (0, "0"), (0.04, "0.0"), (9.96, "10.0"), (12.5, "12"), (99_999, "99,999"),
        (99_999.5, "100k"), (999_999, "1,000k"), (2_500_000, "2.5M"), (3e9, "3.0G"),
    ],
)  # fmt: skip
def test_an_amount_takes_seven_characters_at_most(number: float | None, text: str) -> None:
    assert amount(number) == text
    assert len(text) <= 7


def test_a_lag_has_its_digits_as_long_as_they_fit() -> None:
    assert [exact(number) for number in (None, 182_344, 9_999_999, 10_000_000)] == [
        "-", "182,344", "9,999,999", "10.0M",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (5e6, "5.0 MB"), (7e12, "7.0 TB")],
)
def test_a_size_has_a_unit(number: float | None, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (90, "90 s"),
        (600, "10 min"),
        (7_200, "2.0 h"),
        (300_000, "3 d"),
        (1e9, ">99 d"),
    ],
)
def test_a_time_is_as_long_as_a_person_can_use(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", "orders"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\x9b2Jc", "a\\nb\\x9b2Jc"),
        ("left\u202egnp", "left\\u202egnp"),
        ("half \ud83d", "half \\ud83d"),
        ("Грузинский", "Грузинский"),
    ],
)
def test_what_is_not_printable_is_shown_as_its_escape(name: str, shown: str) -> None:
    assert inert(name) == shown


def test_a_name_of_a_megabyte_is_cut() -> None:
    assert len(inert("\x1b" * 1_000_000)) < 5_000
