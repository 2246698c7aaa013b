"""The map of offsets that a mirror keeps in its target."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from kbroker.admin.config_changes import OP_DELETE, OP_SET
from kbroker.client.cluster_configs import AlterableConfig, Resource, alter_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ResourceType
from kbroker.pipeline.mirroring.mirrored_records import SOURCE_HEADER
from kbroker.pipeline.mirroring.offsets_topic import OFFSETS_TOPIC
from kbroker.record.compression import NONE
from kbroker.record.default_record import Record
from tests.integration.mirrored_clusters import (
    BASE_MS,
    check_map,
    make,
    mirror,
    numbered,
    place,
    records_of,
    set_place,
    trim,
    write,
)


def change_size(bootstrap: str, size_bytes: str | None) -> None:
    """The largest batch that the map takes; None: the default."""
    operation = OP_DELETE if size_bytes is None else OP_SET
    changed = AlterableConfig(
        name="max.message.bytes", config_operation=operation, value=size_bytes
    )
    with closing(ClusterLinks(bootstrap)) as links:
        alter_configs(links, Resource(ResourceType.TOPIC, OFFSETS_TOPIC), [changed])


def test_offsets_that_the_source_has_no_more_go_from_the_map(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    make(source, topic)
    for start in (0, 10, 20):
        write(source, topic, numbered(start, start + 10))
        assert mirror(source, target, topic, tmp_path / "c") == 0
    trim(source, topic, 15)
    write(source, topic, numbered(30, 40))
    assert mirror(source, target, topic, tmp_path / "c") == 0

    entries = [
        (json.loads(each.key or b""), each.value) for each in records_of(target, OFFSETS_TOPIC)
    ]
    gone = [key["start"] for key, value in entries if key["topic"] == topic and value is None]
    assert gone == [0]


def test_records_with_offsets_between_them_are_copied_however_many_they_are(
    source: str, target: str, topic: str, tmp_path: Path
) -> None:
    with closing(ClusterLinks(target)) as links:
        own = ((SOURCE_HEADER, str(links.describe([]).cluster_id).encode()),)
    make(source, topic)
    assert mirror(source, target, topic, tmp_path / "c") == 0  # makes the map
    records = numbered(0, 16_000)
    records[1::2] = [Record(0, BASE_MS, b"k", b"back", own)] * 8_000  # they are left out
    write(source, topic, records)
    set_place(source, "amid", 14_001, topic)

    change_size(target, "90000")  # no record has room for all
    assert mirror(source, target, topic, tmp_path / "c", compression=NONE) == 0
    change_size(target, None)

    assert [each.value for each in records_of(target, topic)] == [
        each.value for each in records[::2]
    ]
    assert place(target, "amid", topic) == 7_001
    assert check_map(source, target, topic) == 8_000
