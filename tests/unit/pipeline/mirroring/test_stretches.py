import time

from kbroker.pipeline.mirroring.stretches import CopiedStretch, PartitionOffsets, parted
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun


def stretch(start: int, end: int, *runs: tuple[int, int, int], topic: str = "id") -> CopiedStretch:
    return CopiedStretch(
        start=start,
        end=end,
        source_topic=topic,
        target_topic="copy",
        runs=tuple(OffsetRun(*run) for run in runs),
    )


def offsets(*stretches: CopiedStretch) -> PartitionOffsets:
    made = PartitionOffsets()
    for each in stretches:
        made.add(each)
    return made


COPY = offsets(
    stretch(10, 20, (10, 0, 5), (16, 5, 4)),
    stretch(20, 25),  # nothing of it was to be copied
    stretch(25, 30, (25, 40, 5)),
)


def test_a_reader_goes_on_at_the_first_record_that_it_has_not_read() -> None:
    found = {at: COPY.target_offset(at, 10) for at in (10, 14, 15, 16, 19, 20, 24, 27, 30, 99)}

    assert found == {10: 0, 14: 4, 15: 5, 16: 5, 19: 8, 20: 40, 24: 40, 27: 42, 30: 45, 99: 45}


def test_what_was_copied_before_the_map_is_known_only_where_it_is_gone() -> None:
    assert COPY.target_offset(5, 0) is None
    assert COPY.target_offset(5, 10) == 0
    assert offsets().target_offset(5, 0) is None
    assert offsets(stretch(0, 5)).target_offset(3, 0) is None


def test_only_stretches_without_a_hole_between_them_count() -> None:
    holed = offsets(stretch(0, 5, (0, 0, 5)), stretch(8, 10, (8, 20, 2)))

    assert holed.target_offset(3, 0) is None
    assert holed.target_offset(9, 0) == 21


def test_the_way_back_leads_to_the_first_offset_that_is_not_before() -> None:
    found = {at: COPY.source_offset(at) for at in (0, 4, 5, 8, 9, 30, 42, 44, 45, 99)}

    assert found == {0: 10, 4: 14, 5: 16, 8: 19, 9: 25, 30: 25, 42: 27, 44: 29, 45: 30, 99: 30}
    assert offsets().source_offset(3) is None


def test_a_stretch_that_begins_earlier_takes_the_place_of_those_behind_it() -> None:
    again = offsets(
        stretch(0, 10, (0, 0, 10)),
        stretch(10, 20, (10, 11, 10)),
        stretch(6, 9, (6, 30, 3)),
    )

    assert [again.target_offset(at, 0) for at in (5, 6, 8, 15)] == [5, 30, 32, 33]


def test_another_topic_of_the_same_name_has_its_own_offsets() -> None:
    other = offsets(stretch(0, 10, (0, 0, 10)), stretch(4, 9, (4, 30, 5), topic="other"))

    assert other.target_offset(2, 0) is None
    assert other.target_offset(2, 4) == 30


def test_stretches_that_are_gone_from_the_source_are_forgotten() -> None:
    held = offsets(stretch(0, 10, (0, 0, 10)), stretch(10, 20, (10, 11, 10)))
    assert [each.start for each in held.before(19)] == [0]
    assert held.before(9) == []
    assert [each.start for each in held.before(20)] == [0]  # the newest says how far the copy is

    held.remove(0)

    assert held.target_offset(5, 10) == 11
    assert held.newest is not None
    assert held.newest.end == 20


def test_what_is_added_between_two_questions_counts_as_what_was_there_before_them() -> None:
    steps = [
        stretch(0, 10, (0, 0, 10)),
        stretch(10, 20, (10, 11, 10)),
        stretch(25, 30, (25, 40, 5)),  # after a hole
        stretch(30, 31),
        stretch(31, 40, (31, 50, 9)),
        stretch(35, 38, (35, 70, 3)),  # after a cut
        stretch(38, 39, (38, 80, 1), topic="other"),
    ]
    asked = PartitionOffsets()
    for number, step in enumerate(steps, 1):
        asked.add(step)
        at_once = offsets(*steps[:number])
        for at in range(42):
            for start in (0, 25, 38):
                assert asked.target_offset(at, start) == at_once.target_offset(at, start)
            assert asked.source_offset(at * 2) == at_once.source_offset(at * 2)
    asked.remove(38)
    assert asked.target_offset(38, 0) is None


def test_a_question_costs_no_more_after_weeks() -> None:
    held = offsets(*(stretch(at, at + 1, (at, 2 * at, 1)) for at in range(20_000)))
    assert held.target_offset(0, 0) == 0
    begun_s = time.process_time()
    for at in range(2_000):
        assert held.target_offset(at, 0) == 2 * at
    assert time.process_time() - begun_s < 2.0  # ten times that, where all runs are gathered anew


def test_a_stretch_of_many_runs_is_parted_and_means_the_same() -> None:
    runs = [(at, at * 2, 1) for at in range(12, 22, 2)]
    whole = stretch(10, 30, *runs)

    parts = list(parted(whole, 2))

    assert parts == [
        stretch(10, 16, *runs[:2]),
        stretch(16, 20, *runs[2:4]),
        stretch(20, 30, *runs[4:]),
    ]
    for at in range(8, 32):
        assert offsets(*parts).target_offset(at, 10) == offsets(whole).target_offset(at, 10)
    assert list(parted(whole, 5)) == list(parted(whole, 6)) == [whole]
    assert list(parted(stretch(3, 9))) == [stretch(3, 9)]
