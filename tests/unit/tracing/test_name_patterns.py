"""Patterns of names, as somebody gives them who follows requests."""

from __future__ import annotations

import pytest

from kbroker.tracing.name_patterns import NamePatterns


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("a*b*c", ["abc", "a\nbb-c", "abcbc"], ["ab", "abcb", "xabc"]),
        ("[ab]", ["[ab]"], ["a", "b"]),
        (r"a\?", ["a\\b"], ["ab", "a?"]),
        ("*", ["", "x"], []),
        ("**a**", ["a", "xax"], ["x"]),
        ("a|b", ["a|b"], ["a", "b"]),
        ("*a" * 150, ["a" * 150, "ab" * 149 + "aa"], ["a" * 149, "ab" * 150]),
    ],
)
def test_only_asterisk_and_question_mark_are_special(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    patterns = NamePatterns([pattern])

    for _ in range(2):  # the second time they are known
        assert [patterns.fits(name) for name in fitting] == [True] * len(fitting)
        assert [patterns.fits(name) for name in others] == [False] * len(others)


def test_names_without_end_of_variety_are_forgotten() -> None:
    patterns = NamePatterns(["*7"])

    assert sum(patterns.fits(str(number)) for number in range(20_000)) == 2_000
