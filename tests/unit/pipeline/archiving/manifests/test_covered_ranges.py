"""Stretches of offsets: joined, overlapping, left out, bounded."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kbroker.pipeline.archiving.manifests.covered_ranges import (
    Stretch,
    bounded_holes,
    gaps,
    joined_ranges,
    overlap,
)
from tests.fakes.archives.archive_maker import hole

PAIRS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=12,
)
WANTED = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (pair[0], sum(pair)))


def members(stretches: object) -> set[int]:
    return {offset for start, end in stretches for offset in range(start, end)}  # type: ignore[attr-defined]


@given(PAIRS)
def test_joined_stretches_hold_the_same_offsets_sorted_and_apart(
    pairs: list[tuple[int, int]],
) -> None:
    found = joined_ranges(pairs)

    assert members(found) == members(pairs)
    assert all(one.end_offset < two.start_offset for one, two in itertools.pairwise(found))


@given(PAIRS, WANTED)
def test_gaps_are_what_the_stretches_leave_out(
    pairs: list[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    assert members(gaps(joined_ranges(pairs), wanted)) == members([wanted]) - members(pairs)


@given(PAIRS, WANTED)
def test_overlap_is_the_first_part_that_is_there(
    pairs: list[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    both = sorted(members(pairs) & members([wanted]))
    found = overlap(joined_ranges(pairs), wanted)

    assert (found is None) == (not both)
    assert found is None or (found.start_offset, *found) == (both[0], *found)


def test_few_holes_keep_their_places() -> None:
    holes = [hole(9, 9), hole(1, 2)]

    assert bounded_holes(holes, 2) == (hole(1, 2), hole(9, 9))


def test_of_many_holes_the_counts_are_kept_and_neighbours_of_one_reason_become_one() -> None:
    holes = [
        hole(at, at, ("compaction", "transaction marker")[at % 4 == 0]) for at in range(0, 200, 2)
    ]

    found = bounded_holes(holes, 10)

    assert len(found) <= 10
    for reason in ("compaction", "transaction marker"):
        alike = [each for each in found if each.reason == reason]
        assert sum(each.missing for each in alike) == 50
        assert max(each.last_offset for each in alike) == max(
            each.last_offset for each in holes if each.reason == reason
        )


def test_an_empty_stretch_holds_nothing() -> None:
    assert joined_ranges([(3, 3), (7, 5)]) == ()
    assert gaps((), (4, 4)) == ()
    assert overlap((Stretch(0, 9),), (4, 4)) is None
