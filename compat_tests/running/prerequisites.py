"""What tests need beside the packages of this project: programs on PATH, and libraries of other
languages and frameworks, fetched from their registries on first use.

What is fetched stays in `$KBROKER_TEST_CACHE` (default `~/.cache/kbroker-tests`). What cannot be had
raises NotAvailableError, and the test is skipped with that reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

BUILD_TIMEOUT_S = 2_400  # librdkafka for Node is compiled; on two busy cores that took 25 minutes
# What is here already is compiled with: Node's headers, and libraries that librdkafka would download.
_COMPILING = {"CKJS_LINKING": "dynamic"}
if Path("/usr/include/node").is_dir():
    _COMPILING["npm_config_nodedir"] = "/usr"

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kbroker</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>
{}
</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


class NotAvailableError(Exception):
    """A program or a library is not to be had here; the message says which."""


def require_program(name: str, hint: str) -> str:
    """Path of a program; raises NotAvailableError (the test is skipped with that reason)."""
    path = shutil.which(name)
    if path is None:
        raise NotAvailableError(f"no {name} on PATH ({hint})")
    return path


def cache_directory() -> Path:
    """Where fetched things are kept between runs."""
    return Path(os.environ.get("KBROKER_TEST_CACHE") or Path.home() / ".cache" / "kbroker-tests")


def cached_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, filled on first use; several processes may ask at once.
    What `fill` raises is raised here, and the next process tries again.
    """
    folder = cache_directory() / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            fill(folder)
            (folder / ".complete").touch()
    return folder


def maven_jars(name: str, *libraries: str) -> Path:
    """The folder `name` with Java libraries (`GROUP:ARTIFACT:VERSION`) and all that they need."""

    def fill(folder: Path) -> None:
        mvn = require_program("mvn", f"install Maven to fetch {name}")
        listed = [_DEPENDENCY.format(*library.split(":")) for library in libraries]
        (folder / "pom.xml").write_text(_POM.format("\n".join(listed)))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        _fetch([mvn, "-q", "-B", *goal], folder, f"Maven could not fetch {name}", timeout_s=300)

    return cached_folder(name, fill)


def npm_packages(source: Path, compiles: bool = False) -> Path:
    """A copy of the Node program in `source` beside the packages it has locked. `compiles`: packages
    may build what is in C++, which takes minutes.
    """
    npm = require_program("npm", "install Node.js 20 or newer with npm")
    flags = (
        ["--no-audit", "--no-fund"] if compiles else ["--no-audit", "--no-fund", "--ignore-scripts"]
    )
    environment = _COMPILING if compiles else {}

    def fill(folder: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(source / file, folder)
        _fetch(
            [npm, "ci", *flags], folder, "npm packages cannot be had",
            timeout_s=BUILD_TIMEOUT_S, environment=environment,
        )  # fmt: skip

    locked = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = cached_folder(f"{source.name}-clients-{locked}", fill)
    for program in source.glob("*.js"):
        shutil.copy(program, folder)
    return folder


def python_environment(name: str, *packages: str) -> Path:
    """The folder of programs of an environment with these Python packages and nothing of ours."""

    def fill(folder: Path) -> None:
        _fetch([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], folder, "no venv")
        install = ["install", "--quiet", "--disable-pip-version-check", *packages]
        _fetch(
            [str(folder / "venv" / "bin" / "pip"), *install], folder,
            f"pip could not install {' '.join(packages)}", timeout_s=400,
        )  # fmt: skip

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = hashlib.sha256("\n".join((python, *packages)).encode()).hexdigest()[:12]
    return cached_folder(f"python-{name}-{wanted}", fill) / "venv" / "bin"


def _fetch(
    command: list[str],
    folder: Path,
    failure: str,
    timeout_s: float = 100,
    environment: dict[str, str] | None = None,
) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})},
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise NotAvailableError(f"{failure}: {(done.stdout + done.stderr).strip()[-400:]}")
