from __future__ import annotations

import random

import pytest

from kbroker.client.partitioner import murmur2, partition_of, partitions_of


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_the_tests_of_java_clients(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFF_FFFF
    assert partition_of(data, 7) == (signed & 0x7FFF_FFFF) % 7


@pytest.mark.parametrize("size", range(10))
@pytest.mark.parametrize("number", [0, 1, 13, 300])
def test_many_keys_go_where_each_of_them_goes(size: int, number: int) -> None:
    rng = random.Random(size)
    keys = [rng.randbytes(size) for _ in range(number)]

    assert partitions_of(keys, 7) == [partition_of(key, 7) for key in keys]


def test_keys_of_many_sizes_that_come_again_go_where_they_went() -> None:
    rng = random.Random(0)
    keys = [rng.randbytes(rng.randrange(20)) for _ in range(500)] * 3
    rng.shuffle(keys)

    assert partitions_of(keys, 12) == [partition_of(key, 12) for key in keys]
