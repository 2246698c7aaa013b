from __future__ import annotations

import pytest

from kbroker.client.partitioner import murmur2, partition_of


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
