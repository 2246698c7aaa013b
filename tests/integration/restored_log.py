"""A log that was restored from an archive, put beside those of other data directories."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from kbroker.cli.command_line import cli
from kbroker.log.disk.checkpoint import read_offset_checkpoint, write_offset_checkpoint
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import (
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kbroker.model import TopicPartition
from tests.fakes.archives.arrow_records import record
from tests.fakes.archives.parquet_archive import archive_rows
from tests.integration.directory_writer import CREATE_TIME, Row, Rows

RESTORED = TopicPartition("restored", 0)
_HEADERS = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]


def restored_rows(home: Path, directories: Sequence[Path]) -> Rows:
    """Restore a log in `home`, and add it to these directories; its rows."""
    rows = [
        record(at, key=None if at % 5 == 0 else b"k", headers=_HEADERS if at % 3 == 0 else None)
        for at in range(70, 500)
        if at % 10 not in (3, 4)
    ]
    archive_rows(str(home / "archive"), rows[:100], rows[100:])
    made = home / "restored"
    words = [
        "pipeline", "restore", "--archive", str(home / "archive"), "--data", str(made),
        "--checkpoint", str(home / "checkpoint"), "--rename", f"t={RESTORED.topic}",
    ]  # fmt: skip
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    for directory in directories:
        shutil.copytree(made / str(RESTORED), directory / str(RESTORED))
        for file in (RECOVERY_POINT_CHECKPOINT_FILE, REPLICATION_OFFSET_CHECKPOINT_FILE):
            offsets = [read_offset_checkpoint(RealFileSystem(), f"{each}/{file}")
                       for each in (directory, made)]  # fmt: skip
            write_offset_checkpoint(
                RealFileSystem(), f"{directory}/{file}", offsets[0] | offsets[1]
            )
    return {RESTORED: [_row(row) for row in rows]}


def _row(row: dict[str, object]) -> Row:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())  # type: ignore[attr-defined]
    return Row(
        row["offset"], CREATE_TIME, row["timestamp"] // 1_000, row["key"], row["value"], headers
    )  # type: ignore[arg-type,operator]
