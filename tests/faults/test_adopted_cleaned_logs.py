"""Directories of Apache Kafka with cleaned logs, as a kill leaves them: opened with all that is in
them, under any policy, with their checkpoints and without.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.logs.log_cleaning import stored_batches
from tests.fakes.logs.log_maker import FixedClock
from tests.golden import golden_logs

CLEANED = [name for name in golden_logs.COMPACTED if "after" in name]
CHECKPOINTS = ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")


def opened(directory: Path, policy: str) -> dict[TopicPartition, tuple[int, list[bytes]]]:
    config = TopicConfig(cleanup_policy=(policy,))
    directories = LogDirectories.lock(RealFileSystem(), [str(directory)])
    logs = LogManager(
        directories,
        LogConfig,
        lambda _: config,
        RealFileSystem(),
        FixedClock(),
    )
    meta = directories.meta
    assert meta is not None
    logs.load(meta.cluster_id or "", meta.broker_id or 0)
    found = {
        log.topic_partition: (log.log_end_offset, [data for _, data in stored_batches(log)])
        for log in logs.all_logs()
    }
    for log in logs.all_logs():
        log.files.close_files()  # as a kill does
    logs.release()
    return found


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("without", [(), *((name,) for name in CHECKPOINTS), CHECKPOINTS], ids=str)
@pytest.mark.parametrize("name", CLEANED)
def test_nothing_of_a_cleaned_log_goes(
    tmp_path: Path, name: str, without: tuple[str, ...], policy: str
) -> None:
    whole = opened(golden_logs.unpack(name, tmp_path / "clean"), "compact")
    directory = golden_logs.unpack(name, tmp_path / "killed")
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for file in without:
        (directory / file).write_bytes(b"0\nnonsense\n")

    assert opened(directory, policy) == whole
    assert opened(directory, policy) == whole  # killed again, and now known
    assert sum(len(batches) for _, batches in whole.values()) > 0
