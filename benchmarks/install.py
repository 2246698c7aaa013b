"""`python -m benchmarks.install [--rounds N]`: how long it takes from nothing to a broker that
listens, and what a default install weighs.

Each round makes new folders: a clone in which `make run` starts a broker, and an environment for
the wheel and for the source distribution, each installed with all that it asks for. The registry, or
pip's cache of it, is part of the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTEN = "--listen 127.0.0.1:0"
_TIMEOUT_S = 120
_MEGABYTE = 1_000_000
_SIZES = """
import json
from importlib.metadata import distributions
sizes = {
    each.name: sum(p.stat().st_size for f in each.files or () if (p := f.locate()).is_file())
    for each in distributions()
}
print(json.dumps(sizes))
"""


def main(arguments: Sequence[str]) -> None:
    """Measure and print medians with all values."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.install", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="kbroker-install-") as folder:
            _one_round(Path(folder), taken)
    for name, values in taken.items():
        shown = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name:<40} {statistics.median(values):6.2f} s   ({shown})")


def _one_round(folder: Path, taken: dict[str, list[float]]) -> None:
    _run("git", "clone", "--quiet", str(ROOT), str(folder / "clone"))
    begun_s = time.monotonic()
    _listens(["make", "run", f"ARGS={LISTEN}"], folder / "clone")
    taken["make run, clone to listening"].append(time.monotonic() - begun_s)
    begun_s = time.monotonic()
    _listens(["make", "run", f"ARGS={LISTEN}"], folder / "clone")
    taken["make run again, to listening"].append(time.monotonic() - begun_s)
    dist = folder / "dist"
    python = str(folder / "clone" / ".venv" / "bin" / "python")
    _run(python, "-m", "pip", "install", "--quiet", "hatchling")
    _run(python, "-m", "hatchling", "build", "-d", str(dist), cwd=folder / "clone")
    for kind, pattern in (("wheel", "*.whl"), ("sdist", "*.tar.gz")):
        (built,) = dist.glob(pattern)
        environment = folder / kind
        begun_s = time.monotonic()
        _run(sys.executable, "-m", "venv", str(environment))
        made_s = time.monotonic()
        _run(str(environment / "bin" / "pip"), "install", "--quiet", str(built))
        _listens([str(environment / "bin" / "kbroker"), "start", *LISTEN.split()], folder)
        taken[f"{kind}, environment made"].append(made_s - begun_s)
        taken[f"{kind}, install to listening"].append(time.monotonic() - made_s)
    taken["kbroker --help, imports"].append(_import_seconds(folder / "wheel" / "bin" / "python"))
    begun_s = time.monotonic()
    _run(str(folder / "wheel" / "bin" / "kbroker"), "--help")
    taken["kbroker --help, all of it"].append(time.monotonic() - begun_s)
    _print_sizes(folder / "wheel" / "bin" / "python")


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def _listens(command: Sequence[str], folder: Path) -> None:
    """Return when the broker says that it listens, and stop it."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            if not any("listening on " in line for line in process.stdout):
                sys.exit(f"{' '.join(command)}: ended before it listened")
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def _import_seconds(python: Path) -> float:
    done = subprocess.run(
        [python, "-X", "importtime", "-m", "kbroker.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    own_us = (row[0].removeprefix("import time:").strip() for row in rows)
    return sum(int(each) for each in own_us if each.isdecimal()) / 1e6


def _print_sizes(python: Path) -> None:
    sizes = json.loads(_run(str(python), "-c", _SIZES))
    own = {name: size for name, size in sizes.items() if name not in ("pip", "setuptools")}
    for name, size in sorted(own.items(), key=lambda item: -item[1]):
        print(f"{name:<40} {size / _MEGABYTE:6.2f} MB")
    print(f"{'default install':<40} {sum(own.values()) / _MEGABYTE:6.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
