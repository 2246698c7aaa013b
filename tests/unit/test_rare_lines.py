"""How often the log tells of what clients cause, and how much is remembered for it."""

from __future__ import annotations

from kbroker.rare_lines import AGAIN_AFTER_MS, KEPT_MAX, NAMES_EACH, RareLines


def told(lines: RareLines, *names: str, at_ms: float = 0, kind: str = "k") -> list[int | None]:
    return [lines.left_out(kind, name, at_ms) for name in names]


def test_the_first_of_a_name_is_told_and_those_like_it_within_the_minute_are_counted() -> None:
    lines = RareLines()

    assert told(lines, "a", "a", "b", "a") == [0, None, 0, None]
    assert told(lines, "a", at_ms=AGAIN_AFTER_MS - 1) == [None]
    assert told(lines, "a", at_ms=AGAIN_AFTER_MS) == [3]
    assert told(lines, "a", at_ms=2 * AGAIN_AFTER_MS) == [0]


def test_kinds_are_told_apart() -> None:
    lines = RareLines()

    assert told(lines, "a") == [0]
    assert told(lines, "a", kind="other") == [0]


def test_of_ever_new_names_only_so_many_are_told_in_a_minute_and_the_others_counted() -> None:
    lines = RareLines()
    names = [f"n{number}" for number in range(5 * KEPT_MAX)]

    first = told(lines, *names)

    assert first[: NAMES_EACH + 1] == [0] * NAMES_EACH + [None]
    assert set(first[NAMES_EACH:]) == {None}
    assert told(lines, "new", at_ms=AGAIN_AFTER_MS) == [len(names) - NAMES_EACH]


def test_what_is_remembered_is_bounded() -> None:
    lines = RareLines()

    for number in range(3 * KEPT_MAX):
        told(lines, "a", kind=f"k{number}")

    assert lines.kept == KEPT_MAX


def test_a_kind_that_has_all_lines_of_its_minute_is_counted_without_a_name() -> None:
    lines = RareLines(names_each=2)
    assert lines.may_be_written("tea", 0)
    for name in ("green", "black"):
        lines.left_out("tea", name, 0)

    assert [lines.may_be_written("tea", at_ms) for at_ms in (0, 1)] == [False, False]
    assert lines.may_be_written("coffee", 1)
    assert lines.may_be_written("tea", 60_000)
    assert lines.left_out("tea", "white", 60_000) == 2
