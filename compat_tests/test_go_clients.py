"""The three Kafka libraries of Go programs (franz-go, sarama, kafka-go), each through the whole
story of `go/`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compat_tests.clients import run
from compat_tests.prerequisites import NotAvailableError, cache_directory, require_program

SOURCE = Path(__file__).parent / "go"
BUILD_TIMEOUT_S = 400  # without a warm cache two cores compile for two minutes


@pytest.fixture(scope="module")
def program() -> Path:
    """The program of `go/`, built in the cache of tests."""
    go = require_program("go", "install Go 1.26 or newer")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=SOURCE, env=environment, capture_output=True, check=False
    )
    if fetched.returncode != 0:
        raise NotAvailableError(f"Go modules cannot be had: {fetched.stderr.decode()[-300:]}")
    target = cache_directory() / "go-clients"
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-o", target, "."], cwd=SOURCE, env=environment, check=True)
    return target


@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_go_clients_live_their_whole_story(bootstrap: str, program: Path) -> None:
    told = run([str(program), bootstrap], timeout_s=100).decode()

    assert sorted(line.split(":")[0] for line in told.splitlines() if "200 topics" in line) == [
        "franz",
        "sarama",
        "segmentio",
    ]
