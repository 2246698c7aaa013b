"""`kbroker pipeline restore --data`: an archive becomes a data directory over which a broker starts
and shows the same rows at the same offsets; archived again, it gives the same archive.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compat_tests.commands.command_line import PROGRAM, completed
from compat_tests.running.waiting import until
from kbroker.cli.__main__ import main
from kbroker.cli.command_line import cli
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.ordered.ordered_reading import ordered_rows
from kbroker.pipeline.archiving.tasks import record_files
from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import Record
from tests.fakes.archives import archived_directory
from tests.fakes.archives.archived_directory import archive_directory
from tests.fakes.archives.arrow_records import record
from tests.fakes.archives.parquet_archive import archive_rows
from tests.fakes.logs.odd_records import odd_batches, odd_records
from tests.faults.running_broker import RunningBroker
from tests.golden import golden_logs
from tests.integration import client_reads

ROWS = [record(offset, key=b"k%d" % (offset % 3)) for offset in range(40, 640, 2)]
T0 = TopicPartition("t", 0)


def command(home: Path, *options: str) -> list[str]:
    return [
        "pipeline", "restore",
        "--archive", str(home / "archive"), "--data", str(home / "data"),
        "--checkpoint", str(home / "checkpoint"), *options,
    ]  # fmt: skip


def run(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return completed(command(home, *options))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    archive_rows(str(tmp_path / "archive"), ROWS[:200], ROWS[200:])
    return tmp_path


def archived_rows(archive: Path) -> dict[TopicPartition, list[dict[str, Any]]]:
    state = read_archive(str(archive))
    return {
        place: [
            row
            for rows in ordered_rows(state.path, state.entries(place))
            for row in rows.set_column(
                rows.schema.get_field_index("timestamp"),
                "timestamp",
                rows.column("timestamp").cast("int64"),
            ).to_pylist()
        ]
        for place in state.partitions()
    }


def test_a_directory_of_apache_kafka_comes_back_by_its_archive(tmp_path: Path) -> None:
    """With its offsets, its own broker, and nothing that an audit would find."""
    golden = golden_logs.unpack("3.9.2-unclean", tmp_path / "golden")
    archive_directory(str(golden), str(tmp_path / "archive"))
    done = run(tmp_path, "--compression", "zstd")
    assert done.returncode == 0, done.stderr
    assert "keeps all records, as its settings are not known" in done.stderr
    data = tmp_path / "data"

    for words in (
        ["log", "verify", str(data), "--strict", "--deep"],
        ["pipeline", "audit", "--data", str(data), "--archive", str(tmp_path / "archive")],
    ):
        checked = CliRunner().invoke(cli, words)
        assert checked.exit_code == 0, checked.output
        assert "0 errors, 0 warnings" in checked.output
    archive_directory(str(data), str(tmp_path / "again"))
    there, again = archived_rows(tmp_path / "archive"), archived_rows(tmp_path / "again")
    assert sum(map(len, there.values())) > 900
    assert again == {place: rows for place, rows in there.items() if rows}
    ends = {place: read_archive(str(tmp_path / "archive")).end_offset(place) for place in again}
    assert ends == {
        place: read_archive(str(tmp_path / "again")).end_offset(place) for place in again
    }


def test_a_broker_starts_over_it_and_serves_what_was_asked_for(home: Path) -> None:
    options = ("--rename", "t=u", "--key", "k1", "--setting", "segment.bytes=100000")
    done = run(home, *options)
    assert done.returncode == 0, done.stderr

    broker = RunningBroker(home / "data").start()
    try:
        bootstrap = f"127.0.0.1:{broker.port}"
        place = TopicPartition("u", 0)
        found = client_reads.read_rows(bootstrap, [place], "read_committed")[place]
        described = CliRunner().invoke(cli, ["topic", "describe", "u", "--bootstrap", bootstrap])
        refused = run(home, *options)
        broker.stop()
    finally:
        broker.end()

    wanted = [row for row in ROWS if row["key"] == b"k1"]
    assert [row.offset for row in found] == [row["offset"] for row in wanted]
    assert [row.value for row in found] == [row["value"] for row in wanted]
    assert re.search(r"u +segment.bytes +100000 +topic", described.output)
    assert re.search(r"u +0 +0 +1 +0 +0 +40 +639 ", described.output), "epoch, start and end"
    assert refused.returncode == 1
    assert "is in use by a broker" in refused.stderr
    again = run(home, *options)
    assert again.returncode == 0, again.stderr
    assert "nothing to restore" in again.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_ended_goes_on_and_no_broker_starts_meanwhile(
    home: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [*PROGRAM, *command(home, "--max-rate", "1kB")], stderr=subprocess.PIPE, text=True
    ) as process:
        until((home / "data" / "kbroker-restore" / "t-0" / "t-0").exists)
        os.kill(process.pid, number)
        _, said = process.communicate()
    code = 130 if number == signal.SIGINT else -signal.SIGKILL
    assert process.returncode == code, said

    started = CliRunner().invoke(cli, ["start", "--data", str(home / "data")])
    assert started.exit_code == 1, started.output
    assert "is not whole: a restore into it has not reached its end" in started.output
    go_on = started.output.split("`")[1]
    assert go_on.split()[1:] == command(home)
    done = run(home)
    assert done.returncode == 0, done.stderr
    archive_directory(str(home / "data"), str(home / "again"))
    assert archived_rows(home / "again") == archived_rows(home / "archive")


def test_an_older_archive_does_not_end_what_a_newer_one_began(home: Path) -> None:
    shutil.copytree(home / "archive", home / "older")
    archive_rows(str(home / "archive"), [record(offset) for offset in range(700, 720)])
    shutil.copytree(home / "archive", home / "newer")
    file = max((home / "archive").rglob("*.parquet"))
    file.rename(home / "kept")
    assert run(home).returncode == 1
    for name, code in (("older", 1), ("newer", 0)):
        shutil.rmtree(home / "archive")
        (home / name).rename(home / "archive")

        done = run(home)
        assert done.returncode == code, done.stderr
        assert ("ends at offset 639 of t-0, and ended at 720" in done.stderr) is (code == 1)


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--bootstrap", "127.0.0.1:1"), 2, "not both"),
        (("--append",), 2, "--append is for topics of a cluster"),
        (("--replication-factor", "3"), 2, "--replication-factor is for topics of a cluster"),
        (("--rename", "t=a/b"), 2, "'a/b' cannot be the name of a topic"),
        (("--rename", "t=__consumer_offsets"), 2, "is a topic of the brokers' own"),
        (("--setting", "retention.ms=x"), 2, "cannot have such settings"),
        (("--data", "."), 1, "is not empty"),
        (("--checkpoint", "{data}/c"), 2, "/data/c and the data directory"),
        (("--checkpoint", "{data}"), 2, "a directory beside it"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    home: Path,
    options: tuple[str, ...],
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([each.format(data=home / "data") for each in command(home, *options)])

    assert ended.value.code == code
    assert sentence in capsys.readouterr().err
    assert not (home / "data").exists()
    assert not (home / "checkpoint" / "kbroker-job.json").exists()


def test_a_disk_that_refuses_ends_in_a_sentence_and_is_gone_on_with(home: Path) -> None:
    limit = "ulimit -f 8; trap '' XFSZ; exec \"$@\""
    done = subprocess.run(
        ["bash", "-c", limit, "bash", *PROGRAM, *command(home)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "run again" in done.stderr

    done = run(home)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(home / "checkpoint")
    other = run(home)
    assert other.returncode == 1
    assert "give --data a new or an empty directory" in other.stderr


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A data directory with records that few programs expect."""
    partition = tmp_path / "source" / "t-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(b"".join(odd_batches()))
    return tmp_path / "source"


def audited(data: Path, archive: Path) -> Result:
    words = ["pipeline", "audit", "--deep", "--data", str(data), "--archive", str(archive)]
    return CliRunner().invoke(cli, words)


def test_every_time_and_every_name_of_a_header_comes_back(odd: Path, tmp_path: Path) -> None:
    archive_directory(str(odd), str(tmp_path / "archive"), batches=1)

    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    for data in (odd, tmp_path / "data"):
        checked = audited(data, tmp_path / "archive")
        assert checked.exit_code == 0, checked.output
        assert "9 records compared" in checked.output

    logs = [each.read_bytes() for each in sorted((tmp_path / "data" / "t-0").glob("*.log"))]
    assert [record for log in logs for record in records_of_segment(log)] == odd_records()


def records_of_segment(data: bytes) -> list[Record]:
    found: list[Record] = []
    position = 0
    while position < len(data):
        found += any_records(data, position)
        position += read_any_header(data, position).size_bytes
    return found


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--from", "2027-01-01T00:00:00Z"), [1, 2, 3, 4, 5, 8]),
        (("--to", "2027-01-01T00:00:00Z"), [0, 6, 7]),
    ],
)
def test_records_with_such_times_are_chosen_by_them(
    options: tuple[str, ...], offsets: list[int], odd: Path, tmp_path: Path
) -> None:
    archive_directory(str(odd), str(tmp_path / "archive"), batches=1)

    done = run(tmp_path, *options)

    assert done.returncode == 0, done.stderr
    logs = [each.read_bytes() for each in sorted((tmp_path / "data" / "t-0").glob("*.log"))]
    assert [each.offset for log in logs for each in records_of_segment(log)] == offsets


def test_an_archive_of_an_older_version_is_read_and_an_audit_tells_what_it_lost(
    odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (archived_directory, record_files):
        monkeypatch.setattr(module, "ARCHIVE_COLUMNS", RECORD_COLUMNS)
    monkeypatch.setattr(record_files, "may_lack_names", lambda _: False)
    monkeypatch.setattr(record_files, "with_exact_columns", lambda rows: rows)
    archive_directory(str(odd), str(tmp_path / "archive"), batches=1)
    monkeypatch.undo()

    checked = audited(odd, tmp_path / "archive")
    done = run(tmp_path)

    assert checked.exit_code == 1
    lost = re.findall(r"record \d+ has another (\w+) than", checked.output)
    assert set(lost) == {"headerNames", "timestampMs"}
    assert done.returncode == 0, done.stderr
