from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbroker.pipeline.auditing.archives.archived_offsets import OffsetRuns, as_runs, united

SETS = st.sets(st.integers(0, 60), max_size=40)


def runs(offsets: set[int]) -> OffsetRuns:
    return as_runs(np.array(sorted(offsets), np.int64))


def members(some: OffsetRuns) -> set[int]:
    pairs = zip(some.starts.tolist(), some.ends.tolist(), strict=True)
    return {offset for start, end in pairs for offset in range(start, end)}


@given(SETS)
def test_runs_hold_the_offsets_they_were_made_of(offsets: set[int]) -> None:
    found = runs(offsets)

    assert members(found) == offsets
    assert found.count == len(offsets)
    assert (found.ends[:-1] < found.starts[1:]).all()


@given(SETS, st.integers(0, 62), st.integers(0, 62))
def test_runs_answer_as_a_set_would(offsets: set[int], start: int, end: int) -> None:
    found = runs(offsets)
    within = {offset for offset in offsets if start <= offset < end}
    missing = {
        offset for first, after in found.missing(start, end) for offset in range(first, after)
    }

    assert found.within(start, end) == len(within)
    assert found.first_within(start, end) == min(within, default=None)
    assert missing == set(range(start, end)) - offsets


@given(st.lists(SETS, max_size=4))
def test_united_runs_are_the_union(parts: list[set[int]]) -> None:
    found = united(runs(part) for part in parts)

    assert members(found) == set().union(*parts)
    assert (found.ends[:-1] < found.starts[1:]).all()
