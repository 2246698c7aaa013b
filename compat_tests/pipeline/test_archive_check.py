"""The check of archives finds every kind of fault, and none in an archive that is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastcrc.crc32 import iscsi as crc32c

from compat_tests.pipeline.archive_check import check_archive
from compat_tests.pipeline.planned_records import PlannedRecord, RecordPlan

PLAN = RecordPlan(seed=5, records=480)
CHANGED = ("orders.eu", 2)

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)
Change = Callable[[list[PlannedRecord]], list[PlannedRecord]]


def write_archive(directory: Path, change: Change = lambda records: records) -> list[Path]:
    """An archive of the plan in one step, with one partition's records changed before they are
    written; answers that partition's files.
    """
    (directory / "manifests").mkdir(parents=True)
    (directory / "staging").mkdir()
    added, ranges, changed = [], [], []
    for topic, partition in PLAN.partitions():
        count = PLAN.count(topic, partition)
        records = list(PLAN.stretch(topic, partition, 0, count))
        if (topic, partition) == CHANGED:
            records = change(records)
        entries = write_hours(directory, topic, partition, records)
        if (topic, partition) == CHANGED:
            changed = [directory / entry["path"] for entry in entries]
        added += entries
        ranges.append(
            {"topic": topic, "partition": partition, "start_offset": 0, "end_offset": count}
        )
    write_manifest(directory, {"ranges": ranges, "holes": [], "added": added})
    return changed


def write_manifest(directory: Path, content: dict[str, Any]) -> Path:
    content |= {"archive_id": "a", "number": 0, "removed": [], "deleted": []}
    inner = json.dumps(content).encode()
    path = directory / "manifests" / f"{0:020d}.json"
    path.write_bytes(b'{"checksum":"crc32c:%08x","content":%s}' % (crc32c(inner), inner))
    return path


def write_hours(
    directory: Path, topic: str, partition: int, records: list[PlannedRecord]
) -> list[dict[str, Any]]:
    hours: dict[str, list[PlannedRecord]] = {}
    for record in records:
        time = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        hours.setdefault(time.strftime("%Y-%m-%dT%H"), []).append(record)
    entries = []
    for hour, some in sorted(hours.items()):
        first, last = min(r.offset for r in some), max(r.offset for r in some)
        date, _, number = hour.partition("T")
        name = f"data/{topic}/{date}/{number}/{topic}-{partition}-{first}-{last}.parquet"
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [row(topic, partition, record) for record in some]
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), path)
        entries.append(
            {
                "path": name, "kind": "data", "topic": topic, "partition": partition, "hour": hour,
                "first_offset": first, "last_offset": last, "rows": len(some),
                "size_bytes": path.stat().st_size,
                "checksum": f"crc32c:{crc32c(path.read_bytes()):08x}",
            }
        )  # fmt: skip
    return entries


def row(topic: str, partition: int, record: PlannedRecord) -> dict[str, Any]:
    headers = record.headers
    return {
        "key": record.key, "value": record.value, "topic": topic, "partition": partition,
        "offset": record.offset, "timestampType": record.timestamp_type,
        "timestamp": datetime.fromtimestamp(record.timestamp_ms / 1000, UTC),
        "headers": None if headers is None else [{"key": k, "value": v} for k, v in headers],
    }  # fmt: skip


def replaced(records: list[PlannedRecord], index: int, **fields: Any) -> list[PlannedRecord]:
    return [*records[:index], records[index]._replace(**fields), *records[index + 1 :]]


def with_headers(records: list[PlannedRecord]) -> int:
    return next(n for n, record in enumerate(records) if record.headers and len(record.headers) > 1)


def test_an_archive_of_the_plan_has_no_fault(tmp_path: Path) -> None:
    write_archive(tmp_path)

    archive = check_archive(tmp_path, PLAN)

    assert sum(entry["rows"] for entry in archive.files.values()) == PLAN.records


FAULTS: dict[str, tuple[Change, str]] = {
    "a lost record": (lambda rs: rs[:30] + rs[31:], "offset 30 is lost"),
    "the last record lost": (lambda rs: rs[:-1], "lost from offset 39 on"),
    "a doubled record": (lambda rs: [*rs, rs[30]], "offset 30 is there twice"),
    "a record too many": (
        lambda rs: [*rs, rs[-1]._replace(offset=40)],
        "offset 40 is more than was written",
    ),
    "a changed byte of a value": (
        lambda rs: replaced(rs, 9, value=(rs[9].value or b"") + b"!"),
        "offset 9 differs in value",
    ),
    "an empty value for none": (
        lambda rs: [r._replace(value=r.value or b"") for r in rs],
        "differs in value",
    ),
    "no key for an empty one": (
        lambda rs: [r._replace(key=r.key or None) for r in rs],
        "differs in key",
    ),
    "a key too many": (
        lambda rs: replaced(rs, 3, key=b"another"),
        "offset 3 differs in key",
    ),
    "a header lost": (
        lambda rs: replaced(rs, (n := with_headers(rs)), headers=(rs[n].headers or ())[1:]),
        "differs in headers",
    ),
    "headers in another order": (
        lambda rs: [r._replace(headers=r.headers and r.headers[::-1]) for r in rs],
        "differs in headers",
    ),
    "a time one ms off": (
        lambda rs: replaced(rs, 5, timestamp_ms=rs[5].timestamp_ms + 1),
        "offset 5 differs in timestamp_ms",
    ),
    "another time type": (
        lambda rs: replaced(rs, 5, timestamp_type=1),
        "offset 5 differs in timestamp_type",
    ),
    "two records in each other's place": (
        lambda rs: replaced(replaced(rs, 5, offset=6), 6, offset=5),
        "offset 5 differs in",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_records_is_found(tmp_path: Path, fault: str) -> None:
    change, message = FAULTS[fault]
    write_archive(tmp_path, change)

    with pytest.raises(AssertionError, match=message):
        check_archive(tmp_path, PLAN)


def test_a_flipped_bit_of_a_file_is_found(tmp_path: Path) -> None:
    file = write_archive(tmp_path)[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)

    with pytest.raises(AssertionError, match="was changed"):
        check_archive(tmp_path, PLAN)


def test_a_file_that_no_manifest_names_is_found(tmp_path: Path) -> None:
    file = write_archive(tmp_path)[0]
    (file.parent / "of-somebody-else.parquet").write_bytes(file.read_bytes())

    with pytest.raises(AssertionError, match="no manifest names"):
        check_archive(tmp_path, PLAN)


def test_a_file_that_is_gone_is_found(tmp_path: Path) -> None:
    write_archive(tmp_path)[0].unlink()

    with pytest.raises(AssertionError, match="not there"):
        check_archive(tmp_path, PLAN)


def test_what_is_left_in_staging_is_found(tmp_path: Path) -> None:
    write_archive(tmp_path)
    (tmp_path / "staging" / "job-7").mkdir()

    with pytest.raises(AssertionError, match="left in staging"):
        check_archive(tmp_path, PLAN)


def test_half_a_manifest_is_found(tmp_path: Path) -> None:
    write_archive(tmp_path)
    manifest = next((tmp_path / "manifests").iterdir())
    manifest.write_bytes(manifest.read_bytes()[:-20])

    with pytest.raises(AssertionError, match="half a manifest"):
        check_archive(tmp_path, PLAN)


def test_a_changed_manifest_is_found(tmp_path: Path) -> None:
    write_archive(tmp_path)
    manifest = next((tmp_path / "manifests").iterdir())
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows": 1', b'"rows": 2', 1))

    with pytest.raises(AssertionError, match="damaged"):
        check_archive(tmp_path, PLAN)


def test_ranges_that_leave_offsets_out_are_found(tmp_path: Path) -> None:
    write_archive(tmp_path)
    manifest = next((tmp_path / "manifests").iterdir())
    content = json.loads(manifest.read_bytes())["content"]
    content["ranges"][4]["start_offset"] = 1
    write_manifest(tmp_path, content)

    with pytest.raises(AssertionError, match="offsets 0 to 1 in no batch, or in two"):
        check_archive(tmp_path, PLAN)


def test_a_partition_without_its_last_batch_is_found(tmp_path: Path) -> None:
    write_archive(tmp_path)
    manifest = next((tmp_path / "manifests").iterdir())
    content = json.loads(manifest.read_bytes())["content"]
    content["ranges"][4]["end_offset"] -= 1
    write_manifest(tmp_path, content)

    with pytest.raises(AssertionError, match="batches end at 39, and 40 were written"):
        check_archive(tmp_path, PLAN)
