"""`kbroker pipeline archive list|merge|expire`, and where the job's own command refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.pipeline.archive import archive
from kbroker.cli.pipeline.job_display import StreamDisplay
from kbroker.pipeline.archiving.archive_job import ArchiveJob
from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
    StagedFile,
)
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, write_records
from kbroker.pipeline.archiving.tasks.task_facts import FileFact
from kbroker.pipeline.jobs import archive as archive_job
from kbroker.pipeline.spark_job.batch import Ending, JobReport
from tests.fakes.archives.archive_maker import hole, offsets
from tests.fakes.archives.arrow_records import arrow_batch, record
from tests.golden import golden_logs


def call(*arguments: str) -> Result:
    return CliRunner().invoke(archive, list(arguments), prog_name="archive", standalone_mode=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An archive of two files of one past hour, and a hole."""
    target = str(tmp_path / "archive")
    with ArchiveWriter(target, "job") as writer:
        for batch, first in enumerate((0, 5)):
            staging = writer.staging_directory(batch)
            rows = [record(at) for at in range(first, first + 4)]
            facts = write_records(iter([arrow_batch(rows)]), TaskOptions(staging=staging), "0-0")
            files = [
                StagedFile(f.staged_path, f.entry) for f, _ in facts if isinstance(f, FileFact)
            ]
            writer.publish(
                ArchiveStep(
                    kind="batch",
                    batch=batch,
                    ranges=(offsets(first, first + 5),),
                    holes=(hole(first + 4, first + 4),),
                    files=tuple(files),
                )
            )
    return target


def test_list_shows_offsets_rows_holes_files_and_hours(path: str) -> None:
    result = call("list", "--to", path, "--output", "json")

    (row,) = json.loads(result.stdout)
    assert row.pop("size_bytes") > 0
    assert row == {
        "topic": "t", "partition": 0, "start_offset": 0, "end_offset": 10, "rows": 8, "missing": 2,
        "files": 2, "first_hour": "2026-11-21T13", "last_hour": "2026-11-21T13",
    }  # fmt: skip


def test_list_says_why_offsets_are_missing(path: str) -> None:
    result = call("list", "--to", path)

    assert "t-0: offsets without record: 2 compaction" in result.stderr
    assert "2 files, 2 manifests" in result.stderr


@pytest.fixture
def settings_path(tmp_path: Path) -> str:
    """An archive of a topic with settings, of one with defaults, and of one of which none are told."""
    target = str(tmp_path / "settings")
    names = ("own", "plain", "silent")
    with ArchiveWriter(target, "job") as writer:
        writer.publish(
            ArchiveStep(
                kind="batch",
                batch=0,
                ranges=tuple(offsets(0, 5, topic=name) for name in names),
                holes=tuple(hole(0, 4, topic=name) for name in names),
                topic_settings={"own": {"retention.ms": "5", "cleanup.policy": "compact,delete"}, "plain": {}},
                partition_counts={"own": 3, "plain": 1},
            )
        )  # fmt: skip
    return target


def test_settings_are_listed_by_topic_and_unknown_ones_are_null(settings_path: str) -> None:
    result = call("list", "--to", settings_path, "--settings", "--output", "json")

    own = {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    assert json.loads(result.stdout) == [
        {"topic": "own", "partitions": 3, "settings": own},
        {"topic": "plain", "partitions": 1, "settings": {}},
        {"topic": "silent", "partitions": None, "settings": None},
    ]
    assert "the settings of silent are not known: no cluster has told them\n" in result.stderr
    assert "0 files, 1 manifest" in result.stderr


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (
            "table",
            [
                "TOPIC   PARTITIONS  SETTINGS",
                "own     3           cleanup.policy=compact,delete; retention.ms=5",
                "plain   1",
                "silent",
            ],
        ),
        (
            "csv",
            [
                "topic,partitions,settings",
                'own,3,"cleanup.policy=compact,delete; retention.ms=5"',
                'plain,1,""',
                "silent,,",
            ],
        ),
    ],
)
def test_settings_are_one_text_where_a_cell_is_one(
    output: str, lines: list[str], settings_path: str
) -> None:
    result = call("list", "--to", settings_path, "--settings", "--output", output)

    assert [line.rstrip() for line in result.stdout.splitlines()] == lines


def test_merge_says_what_it_did(path: str) -> None:
    result = call("merge", "--to", path, "--older-than", "1ms", "--target-size", "1MB")

    assert (result.exit_code, result.stderr) == (
        0,
        "2 files merged into 1; 0 files of earlier runs deleted\n",
    )


def test_expire_shows_first_and_does_then(path: str) -> None:
    dry = call("expire", "--to", path, "--keep", "1ms", "--dry-run", "--output", "json")
    done = call("expire", "--to", path, "--keep", "1ms", "--output", "json")

    assert json.loads(dry.stdout) == json.loads(done.stdout)
    assert [row["rows"] for row in json.loads(done.stdout)] == [4, 4]
    assert dry.stderr == "2 files would expire, 8 rows\n"
    assert done.stderr == "2 files expired, 8 rows\n"


def test_a_size_without_a_unit_is_refused(path: str) -> None:
    result = call("merge", "--to", path, "--target-size", "256")

    assert result.exit_code == 2
    assert "'256' is not a size such as 64kB, 256MB or 1GB" in result.stderr


def test_help_of_the_job_names_the_commands_of_upkeep() -> None:
    assert "archive merge" in call("--help").stdout


def test_a_directory_of_something_else_is_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    arguments = ["--to", str(tmp_path), "--checkpoint", str(tmp_path / "c"), "--once"]
    arguments += ["--data", str(tmp_path), "--topics", "t"]

    result = CliRunner().invoke(archive, arguments, standalone_mode=False)

    assert isinstance(result.exception, CommandError)
    assert "is not an archive and not empty (it has notes.txt)" in str(result.exception)
    assert result.exception.code == 2


def reached(*_: object, commit_to: object) -> JobReport:
    """Report a run that found nothing to do, in place of `run_stream`."""
    return JobReport(name="archive", ending=Ending.REACHED, rows=0, seconds=0.0, ranges={})


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict",), 1)])
def test_offsets_that_nothing_explains_are_said_and_with_strict_end_with_1(
    flags: tuple[str, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(job: ArchiveJob) -> tuple[str, ...]:
        job.files, job.missing["unexplained"] = 2, 3
        return ()

    monkeypatch.setattr(archive_job, "run_stream", reached)
    monkeypatch.setattr(ArchiveJob, "keep_groups", files)
    data = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "data")
    arguments = ["--to", str(tmp_path / "a"), "--checkpoint", str(tmp_path / "c"), "--once"]
    arguments += ["--data", str(data), "--topics", "plain", *flags]

    result = CliRunner().invoke(archive, arguments, standalone_mode=False)

    assert (result.exception, result.return_value) == (None, code)
    assert "2 files; 3 offsets without record: unexplained" in result.stderr


def test_a_long_schema_is_no_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_job, "run_stream", reached)
    data = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "data")
    arguments = ["--to", str(tmp_path / "a"), "--checkpoint", str(tmp_path / "c"), "--once"]
    arguments += ["--data", str(data), "--topics", "plain"]
    columns = ", ".join(f"column_{number} STRING" for number in range(50))

    result = CliRunner().invoke(
        archive, [*arguments, "--json-schema", columns], standalone_mode=False
    )

    assert (result.exception, result.return_value) == (None, 0)


def test_a_run_that_was_stopped_does_not_go_on_to_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[str] = []
    codes = iter((130, 0))
    monkeypatch.setattr(archive_job, "run_stream", reached)
    monkeypatch.setattr(StreamDisplay, "exit_code", lambda *_: next(codes))
    monkeypatch.setattr("kbroker.cli.pipeline.archive.merge_archive", merged.append)
    data = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "data")
    arguments = ["--to", str(tmp_path / "a"), "--checkpoint", str(tmp_path / "c"), "--once"]
    arguments += ["--data", str(data), "--topics", "plain", "--merge"]

    stopped = CliRunner().invoke(archive, arguments, standalone_mode=False)
    merged_after_the_first = list(merged)
    finished = CliRunner().invoke(archive, arguments, standalone_mode=False)

    assert (stopped.return_value, merged_after_the_first) == (130, [])
    assert (finished.return_value, merged) == (0, [str(tmp_path / "a")])


def test_a_dry_run_shows_where_the_archive_ends_and_writes_nothing(tmp_path: Path) -> None:
    data = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "data")
    arguments = ["--to", str(tmp_path / "a"), "--checkpoint", str(tmp_path / "c"), "--once"]
    arguments += ["--data", str(data), "--topics", "plain", "--dry-run", "--output", "json"]

    result = CliRunner().invoke(archive, arguments, standalone_mode=False)

    assert result.exception is None
    assert [row["start_offset"] for row in json.loads(result.stdout)] == [0, 0]
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "c").exists()
