from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbroker.log.partition.log_offsets import LogOffsets

STEPS = st.tuples(
    st.sampled_from(
        [
            "appended_to",
            "raise_high_watermark",
            "begin_cut",
            "end_at",
            "begin_anew_at",
            "flushed_to",
        ]
    ),
    st.integers(0, 50),
)


@given(st.lists(STEPS, max_size=30))
def test_whatever_happens_to_a_log_its_offsets_lie_within_it(steps: list[tuple[str, int]]) -> None:
    offsets = LogOffsets(0, 10, 5)
    offsets.flush_every(7)
    offsets.cleaned_to(3)
    offsets.copied_to(8)

    for name, offset in steps:
        shrinks = name in ("end_at", "begin_cut")
        bound = min(offset, offsets.log_end_offset) if shrinks or name == "flushed_to" else offset
        if name == "appended_to":
            bound += offsets.log_end_offset
        before, cuts = offsets.high_watermark, offsets.cuts
        getattr(offsets, name)(bound)

        end_offset = offsets.log_end_offset
        assert offsets.log_start_offset <= offsets.high_watermark <= end_offset
        assert max(offsets.cleaned_end_offset or 0, offsets.copied_up_to or 0) <= end_offset
        assert offsets.recovery_point <= end_offset
        assert offsets.flush_due_offset == offsets.recovery_point + 7
        assert offsets.cuts > cuts or offsets.high_watermark >= before


def test_a_cut_counts_from_its_begin_and_is_unfinished_until_the_files_end_there() -> None:
    offsets = LogOffsets(0, 10, 10)

    offsets.begin_cut(6)
    assert (offsets.log_end_offset, offsets.recovery_point, offsets.unfinished_cut) == (6, 6, 6)

    offsets.end_at(4)
    offsets.cut_is_done()
    assert (offsets.log_end_offset, offsets.unfinished_cut, offsets.cuts) == (4, None, 2)
