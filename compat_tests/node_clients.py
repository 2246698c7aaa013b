"""The Kafka libraries of Node: programs of `node/` and the packages they need."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from compat_tests.apache_kafka import NotAvailableError, cache_directory
from compat_tests.clients import require_program

_SOURCE = Path(__file__).parent / "node"


def folder() -> Path:
    """A copy of `node/` in the cache of tests, beside the packages it needs."""
    npm = require_program("npm", "install Node.js 20 or newer with npm")
    locked = hashlib.sha256((_SOURCE / "package-lock.json").read_bytes()).hexdigest()[:12]
    target = cache_directory() / f"node-clients-{locked}"
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(
            _SOURCE, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules")
        )
        if not (target / ".complete").exists():
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            fetched = subprocess.run(command, cwd=target, capture_output=True, check=False)
            if fetched.returncode != 0:
                raise NotAvailableError(
                    f"npm packages cannot be had: {fetched.stderr.decode()[-300:]}"
                )
            (target / ".complete").touch()
    return target
