"""What the logs of Kafka's own topics tell before a coordinator runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import offset_commit_key, offset_commit_value
from kbroker.java_hash import java_hash
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.record.record_batch import Record, build
from kbroker.server.adoption.internal_log import hashed_ids, likely_partition_count, producer_ids
from tests.golden import golden_logs

FILES = RealFileSystem()
IDS = [f"group-{number}" for number in range(40)]


def spread(count: int, ids: list[str] = IDS) -> dict[int, list[str]]:
    places: dict[int, list[str]] = {}
    for id_ in ids:
        places.setdefault(abs(java_hash(id_)) % count, []).append(id_)
    return places


@pytest.fixture(scope="module", params=golden_logs.CLEAN)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_logs.unpack(request.param, tmp_path_factory.mktemp("golden"))


def test_groups_of_a_real_directory_are_where_their_count_says(golden: Path) -> None:
    ids = {p: hashed_ids(FILES, f"{golden}/__consumer_offsets-{p}") for p in range(3)}

    assert {"g-classic", "g-simple", "g-live"} <= set().union(*ids.values())
    assert likely_partition_count(ids) == 3
    assert likely_partition_count({0: ids[0], 1: ids[1]}) == 3


def test_transactions_of_a_real_directory_tell_their_producer_ids(golden: Path) -> None:
    partitions = [TopicPartition("__transaction_state", p) for p in range(3)]

    found = {id_ for place in partitions for id_ in producer_ids(FILES, f"{golden}/{place}")}

    assert {3, 4, 15, 17, 1000} <= found


@pytest.mark.parametrize("count", [3, 7, 50, 51, 200])
def test_the_count_is_found_though_partitions_are_missing(count: int) -> None:
    places = spread(count)
    kept = dict(sorted(places.items())[: max(2, len(places) // 2)])

    assert likely_partition_count(kept) == count


def test_few_ids_are_spread_as_is_most_likely() -> None:
    assert likely_partition_count({0: [], 1: [], 2: []}) == 3
    assert likely_partition_count({0: [], 2: []}) == 50
    assert likely_partition_count({0: [], 59: []}) == 60
    assert likely_partition_count({}) == 0


def test_ids_that_fit_nowhere_change_nothing() -> None:
    assert likely_partition_count({0: IDS, 1: IDS}) == 2


@pytest.mark.parametrize("byte", [3, 9, 70], ids=["offset", "length", "payload"])
def test_what_is_damaged_hides_no_other_id(tmp_path: Path, byte: int) -> None:
    place = tmp_path / "__consumer_offsets-0"
    value = offset_commit_value(CommittedOffset(offset=1, commit_timestamp_ms=0))
    log, batches = bytearray(), []
    for number in range(6):
        key = offset_commit_key(f"g{number}", "t", 0)
        batches.append(len(log))
        log += build([Record(number, 0, key, value)], base_offset=number)
    log[batches[2] + byte] ^= 0x40
    place.mkdir()
    (place / "00000000000000000000.log").write_bytes(log)

    assert hashed_ids(FILES, str(place)) == {"g0", "g1", "g3", "g4", "g5"}
