"""The Kafka libraries of Node programs (KafkaJS, @platformatic/kafka), each through the whole story
of `node/`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.apache_kafka import NotAvailableError, cache_directory
from compat_tests.clients import require_program, run

SOURCE = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def program() -> Path:
    """A copy of `node/` in the cache of tests, beside the packages it needs."""
    npm = require_program("npm", "install Node.js 20 or newer with npm")
    locked = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = cache_directory() / f"node-clients-{locked}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(
            SOURCE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules")
        )
        if not (folder / ".complete").exists():
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            fetched = subprocess.run(command, cwd=folder, capture_output=True, check=False)
            if fetched.returncode != 0:
                raise NotAvailableError(
                    f"npm packages cannot be had: {fetched.stderr.decode()[-300:]}"
                )
            (folder / ".complete").touch()
    return folder / "main.js"


def test_node_clients_live_their_whole_story(bootstrap: str, program: Path) -> None:
    node = require_program("node", "install Node.js 20 or newer")

    told = run([node, str(program), bootstrap], timeout_s=100).decode()

    assert sorted(line.split(":")[0] for line in told.splitlines() if "200 topics" in line) == [
        "kafkajs",
        "platformatic",
    ]
