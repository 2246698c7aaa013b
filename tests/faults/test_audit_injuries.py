from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kbroker.inspection.finding import Severity
from tests.fakes.archives.archived_directory import archive_directory
from tests.faults.audit_case import Case
from tests.faults.audit_injuries import FAULTS, INJURED, SOUND, complaints, hunt, make_case
from tests.golden import golden_logs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """Each case is made once; who injures it heals it."""
    home = tmp_path_factory.mktemp("cases")
    return cache(lambda name: make_case(name, home))


def test_every_kind_of_fault_is_named_at_its_place(made: Callable[[str], Case]) -> None:
    outcome = hunt([made(name) for name in INJURED], faults=len(FAULTS), seed=20261121)

    assert set(outcome.planted) == {fault.__name__ for fault in FAULTS}
    assert outcome.missed == []
    assert outcome.false == []


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_said_against_a_sound_directory_and_its_archive(
    name: str, made: Callable[[str], Case]
) -> None:
    assert complaints(made(name)) == []


@pytest.mark.parametrize("name", golden_logs.UNCLEAN)
def test_an_unclean_stop_is_no_error(name: str, made: Callable[[str], Case]) -> None:
    report = made(name).as_it_is

    assert report.count(Severity.ERROR) == 0


@pytest.mark.parametrize("name", golden_logs.DAMAGED)
def test_every_injury_to_a_directory_of_apache_kafka_is_told(name: str, tmp_path: Path) -> None:
    sound = golden_logs.unpack(name.replace("damaged", "unclean"), tmp_path / "sound")
    damaged = golden_logs.unpack(name, tmp_path / "damaged")
    archive_directory(str(sound), str(tmp_path / "archive"))

    report = Case(name, damaged, tmp_path / "archive").audit()

    told = {each.finding.path.removeprefix(f"{damaged}/") for each in report.findings}
    assert set(golden_logs.damage(name)) - told == set()
    assert {"log-lost", "log-behind-archive"} & {each.finding.code for each in report.findings}


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_an_archive_may_have_what_compaction_took_from_the_log(
    version: str, tmp_path: Path
) -> None:
    before = golden_logs.unpack(f"{version}-compaction-before", tmp_path / "before")
    after = golden_logs.unpack(f"{version}-compaction-after-1", tmp_path / "after")
    archive_directory(str(before), str(tmp_path / "archive"))

    report = Case("cleaned", after, tmp_path / "archive").audit(is_deep=True)

    assert [each for each in report.findings if each.finding.severity > Severity.INFO] == []
    assert report.compared_records > 100
