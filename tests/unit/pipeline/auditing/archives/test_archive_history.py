"""Manifests with an eye for what is wrong with them, on an archive of a directory of Apache Kafka's."""

from __future__ import annotations

import json
import shutil
from errno import EACCES
from pathlib import Path

import msgspec
import pytest

from kbroker.inspection.finding import Findings, Severity
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.pipeline.archiving.manifests.archive_reading import (
    MARK_NAME,
    manifest_path,
    read_archive,
    snapshot_path,
)
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.manifest import (
    checksum_of,
    decode_manifest,
    encode_manifest,
    seal,
)
from kbroker.pipeline.auditing.archives.archive_history import (
    foreign_files,
    named_now,
    read_history,
)
from kbroker.pipeline.errors import PipelineError
from tests.fakes.archives.archived_directory import archive_directory
from tests.golden import golden_logs


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that nobody changes."""
    home = tmp_path_factory.mktemp("sound")
    directory = golden_logs.unpack("3.9.2-compaction-before", home / "data")
    archive_directory(str(directory), str(home / "archive"), batches=3)
    return home / "archive"


@pytest.fixture
def archive(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "archive")


def history(archive: Path) -> tuple[ArchiveState, list[tuple[str, str]]]:
    findings = Findings()
    state = read_history(str(archive), findings)
    foreign_files(state, findings)
    return state, [(f.code, f.path.removeprefix(f"{archive}/")) for f in findings.all()]


def test_a_sound_archive_is_read_as_readers_do(archive: Path) -> None:
    state, findings = history(archive)

    assert findings == []
    assert state == read_archive(str(archive))


def test_a_damaged_manifest_does_not_hide_the_others(archive: Path) -> None:
    Path(manifest_path(str(archive), 1)).write_bytes(b"{}")

    state, findings = history(archive)

    assert ("manifest-damaged", f"manifests/{1:020d}.json") in findings
    assert {code for code, _ in findings} == {"manifest-damaged", "archive-foreign"}
    assert state.jobs
    assert state.number == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_manifest_is_named(archive: Path, number: int) -> None:
    Path(manifest_path(str(archive), number)).unlink()

    _, findings = history(archive)

    assert findings[0] == ("manifest-missing", f"manifests/{number:020d}.json")


def test_a_snapshot_is_held_against_the_manifests(archive: Path) -> None:
    state = read_archive(str(archive))
    path = Path(snapshot_path(str(archive), state.number))
    sound = state.snapshot()

    path.write_bytes(seal(sound))
    same = history(archive)[1]
    path.write_bytes(seal(msgspec.structs.replace(sound, files=sound.files[1:])))
    other = history(archive)[1]
    path.write_bytes(seal(sound)[:-1])
    damaged = history(archive)[1]

    assert same == []
    assert [code for code, _ in other] == ["snapshot-differs"]
    assert [code for code, _ in damaged] == ["snapshot-damaged"]


def test_a_manifest_that_does_not_add_up_or_is_of_elsewhere_is_named(archive: Path) -> None:
    path = Path(manifest_path(str(archive), 2))
    manifest = decode_manifest(path.read_bytes())

    path.write_bytes(encode_manifest(msgspec.structs.replace(manifest, added=())))
    unbalanced = {code for code, _ in history(archive)[1]}
    path.write_bytes(encode_manifest(msgspec.structs.replace(manifest, archive_id="another")))
    foreign = {code for code, _ in history(archive)[1]}
    path.write_bytes(
        encode_manifest(msgspec.structs.replace(manifest, removed=("data/x.parquet",)))
    )
    removing = {code for code, _ in history(archive)[1]}

    assert "manifest-balance" in unbalanced
    assert "manifest-foreign" in foreign
    assert removing == {"manifest-removes"}


def test_a_file_that_nobody_names_is_only_worth_knowing(archive: Path) -> None:
    (archive / "data" / "left.parquet").write_bytes(b"")
    findings = Findings()

    foreign_files(read_history(str(archive), Findings()), findings)

    (finding,) = findings.all()
    assert (finding.code, finding.severity) == ("archive-foreign", Severity.INFO)


def test_what_a_run_removed_meanwhile_is_asked_again(archive: Path) -> None:
    state = read_archive(str(archive))
    name = next(iter(state.files))
    path = Path(manifest_path(str(archive), state.number))
    last = decode_manifest(path.read_bytes())
    following = msgspec.structs.replace(
        last, number=state.number + 1, kind="clean", ranges=(), holes=(), added=(), removed=(name,)
    )

    before = name in named_now(state)
    Path(manifest_path(str(archive), state.number + 1)).write_bytes(encode_manifest(following))

    assert (before, name in named_now(state)) == (True, False)


def test_a_directory_without_manifests_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not an archive"):
        read_history(str(tmp_path), Findings())


@pytest.mark.parametrize("name", [MARK_NAME, f"manifests/{1:020d}.json"])
def test_an_archive_of_another_layout_is_refused_and_not_called_damaged(
    archive: Path, name: str
) -> None:
    sealed = (archive / name).read_bytes()
    content = json.loads(sealed)["content"] | {"layout_version": 2}
    text = json.dumps(content).encode()
    path = archive / name
    path.write_bytes(b'{"checksum":"%b","content":%b}' % (checksum_of(text).encode(), text))

    with pytest.raises(PipelineError, match="has layout version 2"):
        read_history(str(archive), Findings())


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("read_bytes", MARK_NAME),
        ("read_bytes", f"manifests/{1:020d}.json"),
        ("list", "manifests"),
    ],
)
def test_what_this_user_may_not_read_is_refused_and_not_called_damaged(
    archive: Path, operation: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = getattr(RealFileSystem, operation)

    def refuse(self: RealFileSystem, path: str) -> object:
        if path == f"{archive}/{name}":
            raise StorageError(path, operation, EACCES)
        return plain(self, path)

    monkeypatch.setattr(RealFileSystem, operation, refuse)

    with pytest.raises(PipelineError, match="Permission denied; run this as the user of"):
        read_history(str(archive), Findings())
