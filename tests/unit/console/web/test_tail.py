"""Which partitions a live tail follows."""

from __future__ import annotations

from kbroker.console.web.message_query import offsets_in, offsets_text
from kbroker.console.web.screens.tail import followed


def test_a_tail_follows_as_many_partitions_as_an_address_can_name() -> None:
    few = {0: 10, 1: 20}
    assert followed(few) == (few, ())

    many = dict.fromkeys(range(5_000), 10**12)
    starts, note = followed(many)

    assert list(starts) == list(range(400))
    assert "here 0 to 399" in note[0]
    assert offsets_in(offsets_text(starts)) == starts
    assert len(offsets_text(starts)) * 5 / 4 < 12 * 1024
