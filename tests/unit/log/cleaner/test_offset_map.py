"""Last offsets by key, in bounded memory."""

from __future__ import annotations

from random import Random

from kbroker.log.cleaner.offset_map import OffsetMap


def test_the_last_offset_of_each_key_is_found() -> None:
    offset_map = OffsetMap(100_000)
    assert offset_map.put([(b"a", 1), (b"b", 2), (b"a", 3), (b"", 4)])
    assert offset_map.latest([b"a", b"b", b"", b"c"]) == [3, 2, 4, -1]
    assert len(offset_map) == 3


def test_it_agrees_with_a_dict_while_it_grows() -> None:
    random = Random(1)
    entries = [(b"%d" % random.randrange(20_000), offset) for offset in range(50_000)]
    offset_map = OffsetMap(4 << 20)
    assert offset_map.put(entries)
    expected = dict(entries)
    assert offset_map.latest(expected) == list(expected.values())
    assert len(offset_map) == len(expected)


def test_a_full_map_refuses_a_new_key_and_still_takes_known_ones() -> None:
    offset_map = OffsetMap(10_000)
    room = offset_map.max_entries
    assert offset_map.put((b"%d" % number, number) for number in range(room))
    assert not offset_map.put([(b"0", 1000), (b"new", 1001), (b"1", 1002)])
    assert offset_map.latest([b"0", b"new", b"1"]) == [1000, -1, 1]
    assert offset_map.put([(b"1", 1003)])
    assert offset_map.utilization == 1.0


def test_a_full_map_counts_no_more_memory_than_it_was_given() -> None:
    for memory_bytes in (1000, 10_000, 1 << 20):
        offset_map = OffsetMap(memory_bytes, load_factor=1.0)
        offset_map.put((b"%d" % number, number) for number in range(memory_bytes))
        assert len(offset_map) == offset_map.max_entries
        assert memory_bytes * 0.6 < offset_map.used_bytes <= memory_bytes


def test_a_map_that_is_too_small_for_one_key_takes_none() -> None:
    offset_map = OffsetMap(16)
    assert offset_map.max_entries == 0
    assert not offset_map.put([(b"a", 0)])


def test_the_default_setting_holds_over_three_million_keys() -> None:
    assert OffsetMap(128 << 20).max_entries > 3_000_000
