from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from errno import ENOSPC
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from kbroker.cli.__main__ import main
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.auditing.archives import archive_history, archive_side
from kbroker.pipeline.auditing.archives.archive_history import named_now
from kbroker.pipeline.auditing.logs import log_side
from kbroker.pipeline.spark_job import job_session
from tests.fakes.archives.archived_directory import archive_directory
from tests.golden import golden_logs

CLEAN = golden_logs.CLEAN[0]
HERE = str(Path(__file__).parent)
TOPICS = ("--topics", "plain,odd,compacted")


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory of Apache Kafka's and its archive."""
    target = tmp_path_factory.mktemp("archived")
    directory = golden_logs.unpack(CLEAN, target / "data")
    archive_directory(str(directory), str(target / "archive"))
    return directory, target / "archive"


class Outcome(NamedTuple):
    """How a command ended, and what it said."""

    exit_code: int
    stdout: str
    stderr: str


Audit = Callable[..., Outcome]


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Audit:
    """Runs the command in this process."""
    monkeypatch.delenv("KBROKER_BOOTSTRAP", raising=False)

    def run(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(["pipeline", "audit", *map(str, arguments)])
        return Outcome(int(str(ended.value.code)), *capsys.readouterr())

    return run


def test_a_sound_directory_and_its_archive_end_with_0(
    audit: Audit, archived: tuple[Path, Path]
) -> None:
    directory, archive = archived

    result = audit("--data", directory, "--archive", archive, "--deep", "--quiet")

    assert result.exit_code == 0
    assert "0 errors, 0 warnings" in result.stderr
    assert "880 records compared" in result.stderr
    assert re.search(r"^plain +0 +0 +0 +0 +\d+", result.stdout, re.MULTILINE)


def test_the_address_of_the_environment_is_no_wish_where_directories_are_given(
    audit: Audit, archived: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", "127.0.0.1:1")

    result = audit("--data", archived[0], *TOPICS)

    assert result.exit_code == 0


def test_a_topic_that_nobody_has_is_not_taken_for_sound(
    audit: Audit, archived: tuple[Path, Path]
) -> None:
    directory, archive = archived

    result = audit("--data", directory, "--archive", archive, "--topics", "plain,plian")

    assert result.exit_code == 1
    assert result.stderr.endswith(
        f"Error: no such topic in {directory}, {archive}: plian, did you mean plain?\n"
    )


def test_data_at_risk_ends_with_1_and_is_named(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    directory = golden_logs.unpack(CLEAN, tmp_path)
    segment = directory / "plain-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[90] ^= 1
    segment.write_bytes(data)

    result = audit(
        "--data", directory, "--archive", archived[1], *TOPICS, "--output", "json",
        "--findings", tmp_path / "tables", "--report", tmp_path / "report.html",
    )  # fmt: skip
    document = json.loads(result.stdout)
    errors = [each for each in document["findings"] if each["severity"] == "error"]
    table = pq.read_table(tmp_path / "tables" / "findings.parquet").to_pylist()
    counts = pq.read_table(tmp_path / "tables" / "counts.parquet").to_pylist()

    assert result.exit_code == 1
    assert [each["code"] for each in errors] == ["batch-crc", "log-lost"]
    assert errors[0]["path"] == str(segment)
    assert table == document["findings"]
    assert counts == document["windows"]
    assert {(row["side"], row["topic"]) for row in counts} >= {("log", "odd"), ("archive", "odd")}


class Page(HTMLParser):
    """Notes what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href", "data")]


def test_the_page_needs_nothing_else(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    directory, archive = archived
    path = tmp_path / "new" / "report.html"

    first = audit("--data", directory, "--archive", archive, *TOPICS, "--report", path)
    page = Page()
    page.feed(path.read_text())

    assert first.exit_code == 0
    assert page.tags.count("svg") == 2
    assert "script" not in page.tags
    assert [target for target in page.fetched if not target.startswith("#")] == []
    assert "Everything is there" in path.read_text()


def test_a_warning_ends_with_1_where_one_is_strict(audit: Audit, tmp_path: Path) -> None:
    directory = golden_logs.unpack(CLEAN, tmp_path)
    (directory / "plain-0" / "leader-epoch-checkpoint").unlink()

    lenient = audit("--data", directory / "plain-0")
    strict = audit("--data", directory / "plain-0", "--strict")

    assert (lenient.exit_code, strict.exit_code) == (0, 1)


def test_a_dry_run_tells_what_it_would_look_at(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    report = tmp_path / "report.html"

    result = audit("--data", archived[0], *TOPICS, "--report", report, "--dry-run")

    assert result.exit_code == 0
    assert "4 partitions" in result.stderr
    assert "in this process" in result.stderr
    assert not report.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "give --data DIR, --archive DIR or --bootstrap HOST:PORT"),
        (("--data", "/no/such/directory"), 2, "does not exist"),
        (("--data", HERE), 2, "is neither a data directory"),
        (("--archive", "/no/such/directory"), 2, "does not exist"),
        (("--archive", HERE), 2, "is not an archive"),
        (("--bootstrap", "127.0.0.1:1"), 3, "cannot connect to 127.0.0.1:1"),
        (("--bootstrap", "nowhere"), 2, "is not HOST:PORT"),
    ],
)
def test_what_cannot_be_looked_at_is_one_sentence(
    audit: Audit, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    result = audit(*arguments)

    assert result.exit_code == code
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_directory_is_looked_at_once_however_it_is_named(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    directory, _ = archived
    (tmp_path / "link").symlink_to(directory)

    once = audit("--data", directory, *TOPICS)
    twice = audit(
        "--data", directory, "--data", f"{directory}/", "--data", tmp_path / "link", *TOPICS
    )

    assert (twice.exit_code, twice.stdout) == (0, once.stdout)


def test_the_directory_where_one_is_may_be_that_of_a_partition(
    audit: Audit, archived: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(archived[0] / "plain-0")

    outcome = audit("--data", ".")

    assert (outcome.exit_code, len(outcome.stdout.splitlines())) == (0, 2)


def test_an_archive_alone_is_looked_at(audit: Audit, archived: tuple[Path, Path]) -> None:
    result = audit("--archive", archived[1], "--window", "day", "--output", "jsonl")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "archive: 42 files" in result.stderr


def test_values_may_come_from_a_file(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(f'[audit]\ndata = ["{archived[0]}"]\ntopics = ["odd"]\nquiet = true\n')

    result = audit("--config", config)

    assert result.exit_code == 0
    assert "1 partition" in result.stderr


@pytest.mark.parametrize(("option", "name"), [("--report", "r.html"), ("--findings", "tables")])
def test_what_cannot_be_written_is_refused_before_any_work(
    audit: Audit, tmp_path: Path, option: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_side, "run_logs", lambda *_: pytest.fail("the work began"))
    directory = golden_logs.unpack(CLEAN, tmp_path)
    (tmp_path / "file").touch()
    path = tmp_path / "file" / name

    result = audit("--data", directory / "plain-0", option, path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: cannot write {option} {path}: ")


@pytest.mark.parametrize("name", ["report.pdf", "report", ""])
def test_a_report_with_the_ending_of_another_format_is_refused(audit: Audit, name: str) -> None:
    result = audit("--data", "anywhere", "--report", name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--report '{name}' does not end in .html: the report is a page" in result.stderr


def test_a_dry_run_makes_no_directory_for_the_report(audit: Audit, tmp_path: Path) -> None:
    directory = golden_logs.unpack(CLEAN, tmp_path)

    result = audit("--data", directory / "plain-0", "--report", tmp_path / "a/r.html", "--dry-run")

    assert result.exit_code == 0
    assert not (tmp_path / "a").exists()


def test_a_report_that_cannot_be_written_does_not_hide_what_was_found(
    audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    directory = golden_logs.unpack(CLEAN, tmp_path)
    (directory / "plain-0" / "leader-epoch-checkpoint").unlink()
    monkeypatch.setattr(Path, "write_text", full)

    result = audit("--data", directory / "plain-0", "--report", tmp_path / "report.html")

    assert result.exit_code == 1
    assert "epochs-" in result.stdout or "leader-epoch-checkpoint" in result.stdout
    assert "the report cannot be written" in result.stderr


def test_an_archive_whose_files_are_all_gone_is_told_file_by_file(
    audit: Audit, archived: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "archive"
    shutil.copytree(archived[1], copy)
    shutil.rmtree(copy / "data")
    looks: list[object] = []

    def look(state: ArchiveState) -> Collection[str]:
        looks.append(state)
        return named_now(state)

    monkeypatch.setattr(archive_side, "named_now", look)
    result = audit("--archive", copy, "--output", "jsonl")
    codes = [json.loads(line)["code"] for line in result.stdout.splitlines()]

    assert codes.count("archive-file-missing") == 42
    assert len(looks) == 1  # the whole history is read for it


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_directories_and_manifests_are_planned_once(
    audit: Audit, archived: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    directory, archive = archived
    looked: list[str] = []
    monkeypatch.setattr(log_side, "log_directory", _noting(looked, log_side.log_directory))
    monkeypatch.setattr(
        archive_history, "read_history", _noting(looked, archive_history.read_history)
    )

    outcome = audit("--data", directory, "--archive", archive, *TOPICS, *how)

    assert (outcome.exit_code, sorted(looked)) == (0, sorted([str(directory), str(archive)]))


def _noting(looked: list[str], function: Callable[..., object]) -> Callable[..., object]:
    def call(*values: object) -> object:
        looked.extend(value for value in values if isinstance(value, str))
        return function(*values)

    return call


def test_a_cluster_that_cannot_be_reached_is_told_before_spark_starts(
    audit: Audit, archived: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_session, "running_session", lambda _: pytest.fail("Spark started"))

    outcome = audit("--data", archived[0], "--bootstrap", "127.0.0.1:1", "--deep", *TOPICS)

    assert outcome.exit_code == 3
    assert "cannot connect to 127.0.0.1:1" in outcome.stderr
