"""What `kbroker topic describe` tells of partitions that do not answer."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import KafkaStorageError

from kbroker.cli.topic import _offsets


class OneFails:
    """An admin client whose answer fails as a whole where one partition is offline."""

    def list_partition_offsets(self, moments: Mapping[int, str]) -> dict[int, str]:
        if 1 in moments:
            raise KafkaStorageError("partition 1 is offline")
        return {partition: f"offset of {partition}" for partition in moments}


def test_the_offsets_of_other_partitions_are_told_where_one_is_offline() -> None:
    assert _offsets(OneFails(), [0, 1, 2], "latest") == {0: "offset of 0", 2: "offset of 2"}


def test_no_partitions_have_no_offsets() -> None:
    assert _offsets(OneFails(), [], "latest") == {}
