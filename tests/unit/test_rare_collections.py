from __future__ import annotations

import gc

from kbroker.rare_collections import collecting_all_rarely


def test_old_objects_are_looked_at_rarely_until_the_last_work_ends() -> None:
    usual = gc.get_threshold()
    first, second = collecting_all_rarely(), collecting_all_rarely()

    first.__enter__()
    second.__enter__()
    both = gc.get_threshold()
    first.__exit__(None, None, None)
    one = gc.get_threshold()
    second.__exit__(None, None, None)

    assert both[:2] == one[:2] == usual[:2], "young objects are collected as ever"
    assert both[2] == one[2] >= 50 * usual[2]
    assert gc.get_threshold() == usual
