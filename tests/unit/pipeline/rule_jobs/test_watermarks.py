"""How far the time of an input has come, and which windows are over then."""

from __future__ import annotations

from kbroker.pipeline.rule_jobs.watermarks import Closing, PartitionTime, last_end_us, watermark

DELAY, IDLE = 10, 100


def after(
    before: int | None, partitions: dict[str, tuple[int, int]], behind: set[str]
) -> int | None:
    times = {name: PartitionTime(*time) for name, time in partitions.items()}
    return watermark(before, times, behind, 1_000, delay_us=DELAY, idle_us=IDLE)


def test_it_is_the_newest_time_less_the_delay_and_never_goes_back() -> None:
    assert after(None, {"t-0": (500, 1_000)}, set()) == 490
    assert after(495, {"t-0": (500, 1_000)}, set()) == 495
    assert after(None, {}, set()) is None


def test_a_partition_that_was_read_a_moment_ago_holds_it_back_and_an_idle_one_does_not() -> None:
    assert after(None, {"t-0": (500, 1_000), "t-1": (300, 950)}, set()) == 290
    assert after(None, {"t-0": (500, 1_000), "t-1": (300, 900)}, set()) == 490
    assert after(None, {"t-0": (500, 100), "t-1": (300, 100)}, set()) == 490


def test_a_partition_with_records_to_be_read_holds_it_back_however_idle() -> None:
    assert after(7, {"t-0": (500, 1_000), "t-1": (300, 0)}, {"t-1"}) == 290
    assert after(7, {"t-0": (500, 1_000)}, {"t-1"}) == 7


def test_windows_end_where_the_watermark_has_passed_their_end() -> None:
    assert Closing(100, 159, 60, 60).is_empty is False  # the one that ends at 120
    assert Closing(120, 179, 60, 60).is_empty
    assert Closing(120, 179, 60, 30).is_empty is False  # 150
    assert Closing(None, 5, 60, 60).is_empty is False
    assert Closing(120, 180, 60, 30).first_row_us == 60


def test_the_last_window_of_an_event_ends_after_it() -> None:
    assert last_end_us(119, 60, 60) == 120
    assert last_end_us(120, 60, 60) == 180
    assert last_end_us(125, 60, 30) == 180
