from __future__ import annotations

import gc

import pytest

from kbroker.start_collections import collecting_rarely, started

USUAL = gc.get_threshold()


def test_a_start_is_looked_at_rarely_until_it_has_started() -> None:
    with collecting_rarely():
        during = gc.get_threshold()
        started()
        after = gc.get_threshold()

    assert during[0] > 50 * USUAL[0]
    assert after == USUAL
    assert gc.get_freeze_count() > 0


def test_a_start_that_fails_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        raise ZeroDivisionError

    assert gc.get_threshold() == USUAL
