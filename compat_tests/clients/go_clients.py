"""The Kafka libraries of Go: programs built with the modules that `go/` names."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from compat_tests.running.prerequisites import NotAvailableError, cached_folder, require_program

SOURCE = Path(__file__).parents[1] / "go"
BUILD_TIMEOUT_S = 400  # without a warm cache two cores compile for two minutes


def kept_program(name: str) -> Path:
    """The program of a folder here; it is built where a source has changed."""
    files = [*sorted((SOURCE / name).glob("*.go")), SOURCE / "go.mod", SOURCE / "go.sum"]
    known_by = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]

    def fill(folder: Path) -> None:
        built(SOURCE / name, folder / name)

    return cached_folder(f"go-{name}-{known_by}", fill) / name


def built(source: Path, target: Path, modules: Path = SOURCE) -> Path:
    """The program of a folder, with the modules that `go.mod` in `modules` names, as `target`."""
    go = require_program("go", "install Go 1.26 or newer")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=modules, env=environment, capture_output=True, check=False
    )
    if fetched.returncode != 0:
        raise NotAvailableError(f"Go modules cannot be had: {fetched.stderr.decode()[-300:]}")
    target.parent.mkdir(parents=True, exist_ok=True)
    files = [str(path) for path in sorted(source.glob("*.go"))]
    subprocess.run([go, "build", "-o", target, *files], cwd=modules, env=environment, check=True)
    return target
