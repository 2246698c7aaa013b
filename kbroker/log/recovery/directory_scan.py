"""The content of a data directory: logs to open, logs being deleted, and what belongs to none.

Law: reads only. What is not a log of this broker is left alone and named once: it may be a user's
file, or a partition that the operator is moving.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directory import LogDirectory
from kbroker.log.disk.format import (
    CLEANER_OFFSET_CHECKPOINT_FILE,
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    is_moved_directory,
    parse_directory_name,
)
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.model import CLUSTER_METADATA_TOPIC

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class DirectoryContent:
    """Partition directories of one data directory, by what becomes of them."""

    requests: list[LoadRequest] = field(default_factory=list)
    futures: list[LoadRequest] = field(default_factory=list)  # copies of logs in other directories
    doomed: list[str] = field(default_factory=list)  # paths
    strays: list[tuple[str, str]] = field(default_factory=list)  # (unknown topic, path)


def scan(
    directory: LogDirectory,
    topic_config: Callable[[str], TopicConfig],
    is_known: Callable[[str], bool],
    now_ms: int,
) -> DirectoryContent:
    """Look through a data directory. Raises StorageError."""
    recovery_points = directory.found_offsets(RECOVERY_POINT_CHECKPOINT_FILE)
    start_offsets = directory.found_offsets(LOG_START_OFFSET_CHECKPOINT_FILE)
    cleaned_offsets = directory.found_offsets(CLEANER_OFFSET_CHECKPOINT_FILE)
    gapless_from = directory.gapless_from(cleaned_offsets)
    configs: dict[str, TopicConfig] = {}
    content = DirectoryContent()
    foreign = []
    for name in directory.file_system.list(directory.path):
        path = f"{directory.path}/{name}"
        if name.endswith(DELETE_DIRECTORY_SUFFIX):
            content.doomed.append(path)
            continue
        is_future = name.endswith(FUTURE_DIRECTORY_SUFFIX)
        is_log = is_future or not is_moved_directory(name)
        topic_partition = parse_directory_name(name) if is_log else None
        if not directory.file_system.is_directory(path):
            continue
        if topic_partition is None:
            foreign.append(name)
            continue
        if topic_partition.topic == CLUSTER_METADATA_TOPIC:
            continue  # an adoption says once that it stays
        topic = topic_partition.topic
        if not is_known(topic):
            foreign.append(name)
            if not is_future:
                content.strays.append((topic, path))
            continue
        if topic not in configs:
            configs[topic] = topic_config(topic)
        requests = content.futures if is_future else content.requests
        requests.append(
            LoadRequest(
                topic_partition=topic_partition,
                directory=path,
                config=configs[topic],
                now_ms=now_ms,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=start_offsets.get(topic_partition, 0),
                cleaned_offset=cleaned_offsets.get(topic_partition, 0),
                gapless_from=gapless_from.get(topic_partition),
                was_clean=directory.was_clean,
            )
        )
    directory.gone.update(recovery_points, start_offsets, cleaned_offsets)
    found = (*content.requests, *content.futures)
    directory.gone.difference_update(request.topic_partition for request in found)
    if foreign:
        _log.warning("Ignoring what is not a log of this broker in %s: %s", directory.path, foreign)
    return content
