"""What long work leaves to the event loop beside it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kbroker.record.default_record import Record, let_go
from kbroker.replication.long_work import LongWork


def test_no_garbage_is_collected_while_it_runs() -> None:
    assert gc.isenabled()

    seen = asyncio.run(LongWork().run(lambda _: gc.isenabled(), None))

    assert (seen, gc.isenabled()) == (False, True)


def test_garbage_is_collected_again_after_it_failed() -> None:
    def fail(_: None) -> None:
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        asyncio.run(LongWork().run(fail, None))

    assert gc.isenabled()


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 10_000])
def test_a_list_that_is_let_go_is_empty(count: int) -> None:
    entries = [Record(offset, 0, None, b"v") for offset in range(count)]

    let_go(entries)

    assert entries == []
