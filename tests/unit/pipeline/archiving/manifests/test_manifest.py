"""Manifests: what is written is read, and what is no manifest is said to be none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kbroker.pipeline.archiving.manifests.manifest import (
    NO_HOUR,
    EpochNote,
    Manifest,
    ManifestError,
    checksum_of,
    decode_manifest,
    encode_manifest,
    file_path,
    seal,
    unbalanced_partition,
)
from tests.fakes.archives.archive_maker import file_entry, hole, offsets


def manifest(**fields: Any) -> Manifest:
    values: dict[str, Any] = {
        "archive_id": "a",
        "number": 3,
        "kind": "batch",
        "kbroker_version": "0.1.0",
        "written_ms": 5,
        "job": "j",
        "batch": 7,
        "ranges": (offsets(0, 12),),
        "holes": (hole(4, 5),),
        "added": (file_entry(0, 11, rows=10),),
        "json_schemas": {"t": "{}"},
        "topic_settings": {"t": {"retention.ms": "5"}, "u": {}},
        "partition_counts": {"t": 3},
    } | fields
    return Manifest(**values)


def test_what_is_written_is_read() -> None:
    assert decode_manifest(encode_manifest(manifest())) == manifest()


def test_a_manifest_of_a_version_that_kept_no_settings_says_nothing_of_them() -> None:
    sealed = msgspec.json.decode(encode_manifest(manifest()))
    content = sealed["content"]
    del content["topic_settings"], content["partition_counts"]
    raw = msgspec.json.encode(content)

    found = decode_manifest(
        msgspec.json.encode({"checksum": checksum_of(raw), "content": msgspec.Raw(raw)})
    )

    assert (found.topic_settings, found.partition_counts) == ({}, {})


@pytest.mark.parametrize("size", [0, 1, 20, 60, 300])
def test_half_a_manifest_is_none(size: int) -> None:
    data = encode_manifest(manifest())

    with pytest.raises(ManifestError, match="is not a manifest, or half of one"):
        decode_manifest(data[:size])


def test_every_flipped_bit_is_seen() -> None:
    data = encode_manifest(manifest())
    survived = []
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 4
        try:
            found = decode_manifest(bytes(flipped))
        except ManifestError:
            continue
        survived.append((position, found))

    assert survived == []


def test_a_layout_of_the_future_is_refused_by_its_number() -> None:
    with pytest.raises(ManifestError, match="has layout version 2, and this kbroker knows 1"):
        decode_manifest(encode_manifest(manifest(layout_version=2)))


def test_sealed_json_of_something_else_is_no_manifest() -> None:
    class Other(msgspec.Struct):
        layout_version: int = 1

    with pytest.raises(ManifestError, match="is not a manifest"):
        decode_manifest(seal(Other()))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "data/../../x.parquet",
        "data/t/x.json",
        "staging/t/x.parquet",
        "data/.parquet/",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ManifestError, match="which is not a file of an archive"):
        decode_manifest(encode_manifest(manifest(removed=(path,))))


@pytest.mark.parametrize("name", ["../../x", "..", "", "a b", "/etc", "t" * 250])
@pytest.mark.parametrize("where", ["added", "ranges"])
def test_a_name_that_no_topic_has_is_refused(name: str, where: str) -> None:
    file = msgspec.structs.replace(file_entry(0, 11, rows=10), topic=name)
    named = {"added": (file,), "ranges": (offsets(0, 12, topic=name),)}

    with pytest.raises(ManifestError, match="which no topic is called"):
        decode_manifest(encode_manifest(manifest(**{where: named[where]})))


@pytest.mark.parametrize("number", [-1, 1_000_000, 2**31 - 1, 2**40])
@pytest.mark.parametrize("where", ["added", "ranges"])
def test_a_partition_that_no_topic_has_is_refused(number: int, where: str) -> None:
    file = msgspec.structs.replace(file_entry(0, 11, rows=10), partition=number)
    reach = msgspec.structs.replace(offsets(0, 12), partition=number)
    named = {"added": (file,), "ranges": (reach,)}

    with pytest.raises(ManifestError, match=f"partition {number} of t, which no topic has"):
        decode_manifest(encode_manifest(manifest(**{where: named[where]})))


@pytest.mark.parametrize("count", [-4, 1_000_001, 2**31 - 1])
def test_a_number_of_partitions_that_no_topic_has_is_refused(count: int) -> None:
    with pytest.raises(ManifestError, match=f"gives t {count} partitions, as no topic has"):
        decode_manifest(encode_manifest(manifest(partition_counts={"t": count})))


@pytest.mark.parametrize(("start", "end"), [(-5, 12), (12, 5), (0, 2**63), (0, 2**70)])
def test_offsets_that_no_log_has_are_refused(start: int, end: int) -> None:
    reach = msgspec.structs.replace(offsets(0, 12), start_offset=start, end_offset=end)

    with pytest.raises(ManifestError, match=f"names offsets {start} to {end} of t-0"):
        decode_manifest(encode_manifest(manifest(ranges=(reach,))))


def test_a_leader_epoch_that_no_log_has_is_refused() -> None:
    entry = EpochNote(topic="t", partition=0, leader_epoch=2**31, end_offset=5)

    with pytest.raises(ManifestError, match="names leader epoch 2147483648 of t-0"):
        decode_manifest(encode_manifest(manifest(leader_epochs=(entry,))))


def test_files_live_below_topic_date_and_hour() -> None:
    assert (
        file_path("data", "a.b", "2026-11-21T07", "f.parquet") == "data/a.b/2026-11-21/07/f.parquet"
    )
    assert file_path("rejected", "t", NO_HOUR, "f.parquet") == "rejected/t/no-time/f.parquet"


def test_rows_and_holes_add_up_to_ranges() -> None:
    assert unbalanced_partition(manifest()) is None
    rejected = file_entry(0, 11, rows=3, kind="rejected")
    assert unbalanced_partition(manifest(added=(file_entry(0, 11, rows=10), rejected))) is None
    assert unbalanced_partition(manifest(holes=())) == (
        "t-0: ranges of 12 offsets, but 10 of them in files and holes"
    )
    assert unbalanced_partition(manifest(ranges=())) == (
        "t-0: ranges of 0 offsets, but 12 of them in files and holes"
    )
