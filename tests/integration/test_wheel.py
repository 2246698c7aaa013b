"""The wheel and the source distribution: what is in them, what they weigh once installed, and that a
broker serves where nothing but the default install is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MOST_BYTES = 50_000_000  # 45 MB are wanted
WITH_BYTE_CODE = 2.65  # times the sources
IMPORT_ALL = """
import importlib, pkgutil, kbroker
of_extras = (
    "kbroker.decoding.avro_decoder", "kbroker.cli.pipeline.", "kbroker.cli.top.row_list", "kbroker.cli.top.screen",
    "kbroker.pipeline.", "kbroker.testing.", "kbroker.certificates.authority", "kbroker.tokens.key_set",
    "kbroker.tokens.published_keys", "kbroker.tokens.token_judge",
)
for module in pkgutil.walk_packages(kbroker.__path__, "kbroker."):
    if not module.name.startswith(of_extras):
        importlib.import_module(module.name)
"""


def build(source: Path, target: Path, *kinds: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *kinds]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def contents(wheel: Path) -> dict[str, int]:
    """CRC by name; without the list of the files."""
    with zipfile.ZipFile(wheel) as file:
        return {
            each.filename: each.CRC for each in file.infolist() if "RECORD" not in each.filename
        }


def default_install() -> list[Distribution]:
    """List what the project requires without extras, and what that requires."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    while waiting:
        wanted = waiting.pop()
        extras = wanted.extras or {""}
        needed = distribution(wanted.name)
        found[needed.name.lower()] = needed
        for text in needed.requires or []:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement)
    return list(found.values())


def installed_files(package: Distribution) -> Iterator[Path]:
    for file in package.files or []:
        path = Path(str(file.locate()))
        if path.is_file():
            yield path


def test_the_wheel_holds_the_packages_and_says_that_they_are_typed(wheel: Path) -> None:
    found = contents(wheel)

    tops = {name.partition("/")[0] for name in found}
    (metadata,) = (name for name in tops if name.endswith(".dist-info"))
    assert tops == {"kbroker", "pyspark_kbroker", metadata}
    assert {"kbroker/py.typed", f"{metadata}/licenses/LICENSE"} <= found.keys()
    assert "kbroker/cli/troubleshooting.md" in found
    static = {path.name for path in (ROOT / "kbroker/console/web/static").iterdir()}
    assert {f"kbroker/console/web/static/{name}" for name in static} <= found.keys()
    assert not [name for name in found if name.endswith(".pyc")]


def test_the_source_distribution_holds_what_a_reader_and_a_builder_need(
    built: Path, wheel: Path, tmp_path: Path
) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as file:
        file.extractall(tmp_path)  # our own: Python 3.11.2 has no filters yet
    (folder,) = tmp_path.iterdir()
    found = {path.name for path in folder.iterdir()}

    needed = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO"}
    packages = {"kbroker", "pyspark_kbroker"}
    assert found - {"docs"} == needed | packages | {".gitignore"}
    build(folder, tmp_path / "dist", "-t", "wheel")
    assert contents(next((tmp_path / "dist").glob("*.whl"))) == contents(wheel)


def test_a_default_install_is_small(wheel: Path) -> None:
    sizes = {
        package.name: sum(path.stat().st_size for path in installed_files(package))
        for package in default_install()
    }
    with zipfile.ZipFile(wheel) as file:
        sources = sum(each.file_size for each in file.infolist())
        sizes["kbroker"] = int(WITH_BYTE_CODE * sources)

    whole = sum(sizes.values())
    (promised,) = re.findall(r"A default install takes (\d+) MB", (ROOT / "README.md").read_text())
    assert whole <= MOST_BYTES, sizes
    assert abs(whole / 1_000_000 - int(promised)) < 1, whole


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and links to what a default install brings."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet"]
    command += ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*command, str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in default_install():
        for top in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            (site / top).symlink_to(str(package.locate_file(top)))
    return folder / "bin"


def test_every_module_but_those_of_extras_needs_the_default_install_only(fresh: Path) -> None:
    subprocess.run([fresh / "python", "-I", "-c", IMPORT_ALL], check=True)


def test_what_an_error_means_is_said_without_the_pages_at_hand(fresh: Path, tmp_path: Path) -> None:
    def said(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={}, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    missing = tmp_path / "nothing"
    missing.write_text("a file")
    failed = said(fresh / "kbroker", "start", "--listen", "127.0.0.1:0", "--data", missing)
    see, _, *command = failed.stderr.splitlines()[-1].split()

    assert (failed.returncode, see, command) == (1, "See", ["help", "directory-unusable"])
    assert said(fresh / "kbroker", *command).stdout.startswith(
        "directory-unusable\n\n`Data directory"
    )


def test_a_default_install_serves(fresh: Path, tmp_path: Path) -> None:
    def kbroker(*arguments: str, stdin: str = "") -> str:
        return subprocess.run(
            [fresh / "kbroker", *arguments],
            env={"KBROKER_BOOTSTRAP": address},
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    start = [fresh / "kbroker", "start", "--listen", "127.0.0.1:0", "--data", tmp_path / "data"]
    with subprocess.Popen(start, env={}, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        address = broker.stdout.readline().removeprefix("listening on ").strip()
        try:
            kbroker("produce", "orders", stdin="book\nlamp\n")
            assert kbroker("consume", "orders") == "book\nlamp\n"
            assert kbroker("consume", "orders", "--group", "g") == "book\nlamp\n"
        finally:
            broker.terminate()

    assert broker.returncode == 0
