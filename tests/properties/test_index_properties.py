"""An offset index against a plain list: appended, looked up, cut and reopened in any order."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.segments.offset_index import OffsetIndex

BASE_OFFSET = 1_000

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 1500)),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=8,
)


def open_index(directory: str) -> OffsetIndex:
    path = str(Path(directory) / "i.index")
    return OffsetIndex(RealFileSystem(), path, BASE_OFFSET, 1_000_000)


@settings(max_examples=30, deadline=None)
@given(steps=steps, targets=st.lists(st.integers(-1, 40_000), max_size=20))
def test_lookups_agree_with_a_list(steps: list[tuple[str, float]], targets: list[int]) -> None:
    entries: list[tuple[int, int]] = []
    with TemporaryDirectory() as directory:
        index = open_index(directory)
        for kind, amount in steps:
            entries, index = take_step(kind, amount, entries, index, directory)
            offsets = [offset for offset, _ in entries]
            expected = [
                entries[slot - 1]
                if (slot := bisect_right(offsets, BASE_OFFSET + target))
                else (BASE_OFFSET, 0)
                for target in targets
            ]
            assert [index.lookup(BASE_OFFSET + target) for target in targets] == expected
            assert index.entry_count == len(entries)


def take_step(
    kind: str, amount: float, entries: list[tuple[int, int]], index: OffsetIndex, directory: str
) -> tuple[list[tuple[int, int]], OffsetIndex]:
    if kind == "append":
        count = len(entries)
        added = [(BASE_OFFSET + 3 * n + 1, n) for n in range(count, count + int(amount))]
        for entry in added:
            index.append(*entry)
        return entries + added, index
    if kind == "truncate":
        kept = entries[: int(len(entries) * amount)]
        index.truncate_to(kept[-1][0] + 1 if kept else BASE_OFFSET)
        return kept, index
    index.close()
    return entries, open_index(directory)
